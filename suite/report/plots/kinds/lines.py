"""Plots of throughput and memory against batch size, and of throughput against workers, threads and releases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from suite.analysis.rows.wording import figure
from suite.analysis.statistics.releases import Step, place_of, release_of
from suite.report.format.names import FRAMEWORKS
from suite.report.format.text import spread
from suite.report.plots.kinds import kind
from suite.report.plots.style.canvas import keyed_sheet
from suite.report.plots.style.look import (
    FACE,
    INK,
    LINE_LEAST,
    MARKER,
    PALE,
    SMALL,
    add_frame,
    apart,
    from_zero,
    plain_numbers,
)
from suite.report.plots.style.naming import among, names_of_sets, title_of, values_of
from suite.report.plots.style.vectors import point_out
from suite.report.tables.curves import Series, batches, cores, memory_kind, threads, workers
from suite.report.tables.frame import Table

DASHES = ("-", "--", "-.", ":")
DOTTED: dict[str, Any] = {"linewidth": 0.9, "linestyle": (0, (1, 2))}
MEMORY = {"allocator_peak_bytes": "allocator peak", "rss_peak_bytes": "peak resident memory"}
GIB = 2**30
MARKS = "Median over launches. Whisker: lowest to highest."
SIDE_BY_SIDE = "Marks of one place stand side by side, so that none covers another."
FEW = f"Fewer than {LINE_LEAST} marks are not joined by a line."

#: The height of axes in inches.
UP_IN = 2.5
#: How far the marks of one place stand apart, as a share of the axis, and at most all of them together.
DODGE, DODGE_MOST = 0.014, 0.07
#: Factor from the first and last batch to the ends of the axis.
MARGIN = 1.25

#: A value with the lowest and the highest.
Spread = tuple[float, float, float]


@dataclass(frozen=True)
class Look:
    """How a line is drawn: one colour and marker per framework, one dash per line of a framework.

    ``half`` is the side of a marker that is filled, such as ``left``; without one all of it is, or nothing if
    ``hollow``.
    """

    name: str
    framework: str
    dashes: str
    hollow: bool
    points: int
    half: str = ""

    def style(self, points: int) -> dict[str, Any]:
        """Returns how so many points are drawn; fewer than `LINE_LEAST` have no line."""
        inside = "white" if self.hollow else FACE[self.framework]
        marker = {"marker": MARKER[self.framework], "markersize": 5.5, "markerfacecolor": inside}
        marker |= {"fillstyle": self.half, "markerfacecoloralt": "white"} if self.half else {}
        return {
            "color": FACE[self.framework],
            "linewidth": 1.6,
            "linestyle": self.dashes if points >= LINE_LEAST else "",
            "markeredgecolor": INK,
            **marker,
        }

    def handle(self) -> Line2D:
        return Line2D([], [], label=self.name, **self.style(self.points))


def draw_marks(axes: Any, places: Sequence[float], values: Sequence[Spread], look: Look, unit: str) -> None:
    """Draws a mark and a whisker for each value, and a line through three or more."""
    middles = [value for value, _, _ in values]
    ends = [[value - low for value, low, _ in values], [high - value for value, _, high in values]]
    axes.errorbar(places, middles, yerr=ends, fmt="none", ecolor=INK, capsize=2.5, linewidth=0.9, zorder=2)
    (line,) = axes.plot(places, middles, **look.style(len(places)))
    name = " · ".join(look.name.split("\n"))
    point_out(line, [f"{name}: {spread(*value)} {unit}" for value in values])


def by_twos(axes: Sequence[Any], ticks: Sequence[float], ends: tuple[float, float], label: str) -> None:
    """Makes the shared x axis logarithmic with plain numbers at the ticks, named below the last axes."""
    for each in axes:
        each.set_xscale("log", base=2)
        each.set_xlim(*ends)
        each.xaxis.set_major_locator(FixedLocator(ticks))
        each.xaxis.set_minor_locator(NullLocator())
        each.xaxis.set_major_formatter(plain_numbers())
        each.tick_params(axis="x", labelbottom=each is axes[-1])
    axes[-1].set_xlabel(label)


@kind("batch", "Throughput and peak memory by batch size", place=3)
def batch(table: Table) -> Figure | None:
    """Throughput above, peak memory below, over one logarithmic axis; a cross if a batch did not fit."""
    all_series = batches(table)
    if not all_series:
        return None
    memory = memory_kind(table)
    panels = 2 if any(series.memory for series in all_series) else 1
    cross = Line2D([], [], linestyle="", marker="X", color=INK, markersize=7, label="does not fit in memory")
    looks = _looks(table, all_series, without=("batch",))
    group = among(table, [row for series in all_series for row in series.rows])
    searched = any({x for x, _ in each.memory} - {point.x for point in each.points} for each in all_series)
    plot, axes = keyed_sheet(
        group,
        title_of(group, "Throughput and memory"),
        MARKS,
        [UP_IN] * panels,
        [*(look.handle() for look in looks), *([cross] if any(series.edge for series in all_series) else [])],
        notes=[
            "Memory: highest of all launches.",
            "Memory without a throughput is that of a search's short tries." if searched else "",
            *_notes(all_series),
        ],
    )
    add_frame(axes[0], "samples per second\n(higher is better)")
    if panels > 1:
        add_frame(axes[1], f"{MEMORY.get(memory, memory.replace('_', ' '))} in GiB\n(lower is better)")
    sizes = sorted({x for each in all_series for x in (*_sizes(each), *([each.edge] if each.edge else []))})
    octaves = float(np.log2(sizes[-1] * MARGIN**2 / sizes[0]))
    for series, look, power in zip(all_series, looks, _asides(looks, octaves), strict=True):
        aside = 2**power
        values = [(point.value, point.low, point.high) for point in series.points]
        draw_marks(axes[0], [point.x * aside for point in series.points], values, look, "samples/s")
        last = series.points[-1]
        _edge(axes[0], series, look, (last.x * aside, last.value))
        if panels > 1 and series.memory:
            places, peaks = [x * aside for x, _ in series.memory], [peak / GIB for _, peak in series.memory]
            (line,) = axes[1].plot(places, peaks, **look.style(len(places)))
            point_out(line, [f"{look.name}: {figure(peak)} GiB" for peak in peaks])
            _edge(axes[1], series, look, (places[-1], peaks[-1]))
    first, last_power = int(np.floor(np.log2(sizes[0]))), int(np.ceil(np.log2(sizes[-1])))
    ticks = [2**power for power in range(first, last_power + 1)]
    for each in axes:
        from_zero(each)
    by_twos(axes, ticks, (sizes[0] / MARGIN, sizes[-1] * MARGIN), "batch size (samples per step)")
    return plot


@kind("scaling", "Throughput by number of loader workers", place=10)
def scaling(table: Table) -> Figure | None:
    """Throughput against the loader's workers; a thin line for the same steps without loading."""
    axis = "loader workers (processes or threads, depending on the framework)"
    return _draw_counts(table, workers(table), "loader", "loader workers", axis)


@kind("threads", "Throughput by number of threads", place=10.5)
def by_threads(table: Table) -> Figure | None:
    """Throughput against the threads that cells ask for."""
    return _draw_counts(table, threads(table), "threads", "threads", "threads that compute")


@kind("cores", "Throughput by number of cores", place=10.6)
def by_cores(table: Table) -> Figure | None:
    return _draw_counts(table, cores(table), "cores", "cores", "cores of each device")


def _draw_counts(table: Table, all_series: Sequence[Series], without: str, title: str, axis: str) -> Figure | None:
    """Returns throughput against a count, one line per series; a thin line for its ceiling."""
    if not all_series:
        return None
    looks = _looks(table, all_series, without=(without,))
    handles = [look.handle() for look in looks]
    if any(series.ceiling for series in all_series):
        handles.append(Line2D([], [], color=PALE, label="same steps, no loading", **DOTTED))
    group = among(table, [row for series in all_series for row in series.rows])
    title = f"{title_of(group, 'Training throughput', without=(without,))} and number of {title}"
    plot, (axes,) = keyed_sheet(group, title, MARKS, [1.4 * UP_IN], handles, notes=_notes(all_series))
    add_frame(axes, "samples per second (higher is better)")
    counts = sorted({point.x for series in all_series for point in series.points})
    across_all = counts[-1] - counts[0] + 0.8
    for series, look, aside in zip(all_series, looks, _asides(looks, across_all), strict=True):
        values = [(point.value, point.low, point.high) for point in series.points]
        draw_marks(axes, [point.x + aside for point in series.points], values, look, "samples/s")
        if series.ceiling:
            axes.plot([counts[0] - 0.3, counts[-1] + 0.3], [series.ceiling] * 2, color=FACE[look.framework], **DOTTED)
    from_zero(axes)
    axes.set_xlim(counts[0] - 0.4, counts[-1] + 0.4)
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.set_xlabel(axis)
    return plot


def _notes(all_series: Sequence[Series]) -> list[str]:
    few = any(len(each) < LINE_LEAST for series in all_series for each in (series.points, series.memory) if each)
    return [*([SIDE_BY_SIDE] if len(all_series) > 1 else []), *([FEW] if few else [])]


def _looks(table: Table, all_series: Sequence[Series], without: Sequence[str]) -> list[Look]:
    """Returns a look per line."""
    counts: Counter[str] = Counter()
    looks = []
    names = names_of_sets(table, [series.rows for series in all_series], without)
    for series, name in zip(all_series, names, strict=True):
        framework = series.rows[0].cell.framework
        index = counts[framework]
        counts[framework] += 1
        hollow, longest = bool(index // len(DASHES) % 2), max(len(series.points), len(series.memory))
        looks.append(Look(name, framework, DASHES[index % len(DASHES)], hollow, longest))
    return looks


def _asides(looks: Sequence[Look], whole: float) -> list[float]:
    """Returns how far aside each line's marks stand, on an axis as long as ``whole``."""
    return apart(len(looks), whole * min(DODGE * (len(looks) - 1), DODGE_MOST) / 2)


def _edge(axes: Any, series: Series, look: Look, last: tuple[float, float]) -> None:
    """Draws a cross at the batch that did not fit, as high as the last one that did."""
    if series.edge:
        axes.plot([last[0], series.edge], [last[1]] * 2, color=FACE[look.framework], **DOTTED)
        axes.plot(series.edge, last[1], "X", color=INK, markeredgecolor="white", markersize=8, zorder=4)


def _sizes(series: Series) -> list[int]:
    return [*(point.x for point in series.points), *(x for x, _ in series.memory)]


#: How far the marks of one release stand apart, all of them together.
RELEASE_DODGE = 0.3
VERDICTS = "Above a mark: faster or slower than the release before, where that is decided."

ReleaseLine = tuple[Step, ...]


@kind("releases", "Throughput by release of each framework", place=9)
def releases(table: Table) -> Figure | None:
    """Throughput against releases in their order, which a framework's axes name below; None without several."""
    lines = table.findings.releases
    if not lines:
        return None
    by_framework: dict[str, list[ReleaseLine]] = {}
    for line in lines:
        by_framework.setdefault(line[0].row.cell.framework, []).append(line)
    rows = [step.row for line in lines for step in line]
    group = among(table, rows)
    own = [name for name in group.varying if name != "release"]
    looks = {name: _looks_of_releases(name, each, own) for name, each in by_framework.items()}
    plot, panels = keyed_sheet(
        group,
        title_of(group, "Training throughput"),
        MARKS,
        [UP_IN] * len(by_framework),
        [look.handle() for each in looks.values() for look in each],
        notes=[VERDICTS, SIDE_BY_SIDE if len(lines) > len(by_framework) else ""],
    )
    for axes, (name, of_framework) in zip(panels, by_framework.items(), strict=True):
        _releases_of(axes, of_framework, looks[name])
    panels[-1].set_xlabel("release")
    return plot


def _releases_of(axes: Any, lines: Sequence[ReleaseLine], looks: Sequence[Look]) -> None:
    rows = sorted((step.row for line in lines for step in line), key=place_of)
    names = list(dict.fromkeys(map(release_of, rows)))
    add_frame(axes, f"{FRAMEWORKS[rows[0].cell.framework]}, samples per second\n(higher is better)")
    for line, look, aside in zip(lines, looks, apart(len(lines), RELEASE_DODGE / 2 * (len(lines) > 1)), strict=True):
        places = [names.index(step.release) + aside for step in line]
        rates = [[record.samples_per_s or 0.0 for record in step.row.ok] for step in line]
        draw_marks(axes, places, [(median(each), min(each), max(each)) for each in rates], look, "samples/s")
        for place, each, step in zip(places, rates, line, strict=True):
            found = step.to_before
            if found and found.value and found.verdict in ("faster", "slower"):
                axes.annotate(
                    f"{found.value:.2f}x", (place, max(each)), (0, 4), textcoords="offset points", ha="center",
                    size=SMALL, color=INK,
                )  # fmt: skip
    from_zero(axes)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_xticks(range(len(names)), names)
    axes.set_ylim(top=axes.get_ylim()[1] * 1.06)  # for the verdicts


def _looks_of_releases(framework: str, lines: Sequence[ReleaseLine], own: Sequence[str]) -> list[Look]:
    looks = []
    for at, line in enumerate(lines):
        name = [FRAMEWORKS[framework], *([values_of(line[0].row, own)] if own else [])]
        hollow = at // len(DASHES) % 2 == 1
        looks.append(Look("\n".join(name), framework, DASHES[at % len(DASHES)], hollow, len(line)))
    return looks

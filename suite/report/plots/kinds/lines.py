"""Plots of throughput and memory against batch size, and of throughput against the loader's workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from suite.report.plots.style.canvas import Sheet, sheet
from suite.report.plots.style.look import (
    FACE,
    INK,
    KEY,
    LINE_LEAST,
    MARKER,
    PALE,
    SMALL,
    WIDTH_IN,
    apart,
    framed,
    from_zero,
    plain_numbers,
    wide,
)
from suite.report.plots.style.naming import NOTED, among, names_of_sets, title_of
from suite.report.tables.curves import Point, Series, batches, memory_kind, workers
from suite.report.tables.frame import Table

DASHES = ("-", "--", "-.", ":")
DOTTED: dict[str, Any] = {"linewidth": 0.9, "linestyle": (0, (1, 2))}
MEMORY = {"allocator_peak_bytes": "allocator peak", "rss_peak_bytes": "peak resident memory"}
GIB = 2**30
MARKS = "Median over launches. Whisker: lowest to highest."
SIDE_BY_SIDE = "Marks of one place stand side by side, so that none covers another."
FEW = f"Fewer than {LINE_LEAST} marks are not joined by a line."

#: Inches: the least width of the axes, height of each, and the space between two that share x.
ACROSS, UP, CLOSE = 4.0, 2.5, 0.2
#: How far the marks of one place stand apart, as a share of the axis, and at most all of them together.
DODGE, DODGE_MOST = 0.014, 0.07
#: Factor from the first and last batch to the ends of the axis.
MARGIN = 1.25


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


def batch(table: Table) -> Figure | None:
    """Throughput above, peak memory below, over one logarithmic axis; a cross if a batch did not fit."""
    all_series = batches(table)
    if not all_series:
        return None
    kind = memory_kind(table)
    panels = 2 if any(series.memory for series in all_series) else 1
    edges = any(series.edge for series in all_series)
    cross = Line2D([], [], linestyle="", marker="X", color=INK, markersize=7, label="does not fit in memory")
    looks = _looks(table, all_series, without=("batch",))
    layout, across = _sheet(
        table,
        all_series,
        [*(look.handle() for look in looks), *([cross] if edges else [])],
        panels * UP + (panels - 1) * CLOSE,
        subject="Throughput and memory",
        along="batch",
        notes=[
            "Memory: highest of all launches.",
            *(["Memory without a throughput is that of a search's short tries."] if _searched(all_series) else []),
        ],
    )
    axes = [layout.axes(0, panel * (UP + CLOSE), across, UP) for panel in range(panels)]
    framed(axes[0], "samples per second\n(higher is better)")
    sizes = sorted({x for each in all_series for x in (*_sizes(each), *([each.edge] if each.edge else []))})
    octaves = float(np.log2(sizes[-1] * MARGIN**2 / sizes[0]))
    for series, look, power in zip(all_series, looks, _asides(looks, octaves), strict=True):
        aside = 2**power
        _throughputs(axes[0], series.points, look, [point.x * aside for point in series.points])
        last = series.points[-1]
        _edge(axes[0], series, look, (last.x * aside, last.value))
        if panels > 1 and series.memory:
            places, peaks = [x * aside for x, _ in series.memory], [peak / GIB for _, peak in series.memory]
            axes[1].plot(places, peaks, **look.style(len(places)))
            _edge(axes[1], series, look, (places[-1], peaks[-1]))
    if panels > 1:
        framed(axes[1], f"{MEMORY.get(kind, kind.replace('_', ' '))} in GiB\n(lower is better)")
    for each in axes:
        _doubling(each, sizes)
        each.tick_params(axis="x", labelbottom=each is axes[-1])
    axes[-1].set_xlabel("batch size (samples per step)")
    return layout.figure


def scaling(table: Table) -> Figure | None:
    """Throughput against the loader's workers; a thin line for the same steps without loading."""
    all_series = workers(table)
    if not all_series:
        return None
    looks = _looks(table, all_series, without=("loader",))
    handles = [look.handle() for look in looks]
    if any(series.ceiling for series in all_series):
        handles.append(Line2D([], [], color=PALE, label="same steps, no loading", **DOTTED))
    layout, across = _sheet(
        table, all_series, handles, 1.4 * UP, subject="Training throughput", along="number of loader workers"
    )
    axes = layout.axes(0, 0, across, 1.4 * UP)
    framed(axes, "samples per second (higher is better)")
    counts = sorted({point.x for series in all_series for point in series.points})
    across_all = counts[-1] - counts[0] + 0.8
    for series, look, aside in zip(all_series, looks, _asides(looks, across_all), strict=True):
        _throughputs(axes, series.points, look, [point.x + aside for point in series.points])
        if series.ceiling:
            axes.plot([counts[0] - 0.3, counts[-1] + 0.3], [series.ceiling] * 2, color=FACE[look.framework], **DOTTED)
    from_zero(axes)
    axes.set_xlim(counts[0] - 0.4, counts[-1] + 0.4)
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.set_xlabel("loader workers (processes or threads, depending on the framework)")
    return layout.figure


def _sheet(
    table: Table,
    all_series: Sequence[Series],
    handles: Sequence[Line2D],
    high: float,
    *,
    subject: str,
    along: str,
    notes: Sequence[str] = (),
) -> tuple[Sheet, float]:
    """Returns a sheet with a legend on the right, and the width of its axes in inches."""
    group = among(table, [row for series in all_series for row in series.rows])
    names = [str(handle.get_label()) for handle in handles]
    right = max(0.75 + wide(names, SMALL), 1.4)
    across = max(ACROSS, WIDTH_IN - 0.95 - right)
    noted = any(name.endswith(NOTED) for name in names)
    few = any(len(each) < LINE_LEAST for series in all_series for each in (series.points, series.memory) if each)
    words = title_of(group, subject, without=() if along == "batch" else ("loader",))
    layout = sheet(
        group,
        words if along == "batch" else f"{words} and {along}",
        MARKS,
        (across, max(high, 0.2 * len(names))),
        left=0.95,
        right=right,
        notes=[*notes, *([SIDE_BY_SIDE] if len(all_series) > 1 else []), *([FEW] if few else [])],
        noted=noted,
    )
    key = layout.axes(across + 0.1, 0, right - 0.1, layout.inside[1])
    key.set_axis_off()
    key.legend(handles=handles, **{**KEY, "bbox_to_anchor": (0, 1)})
    return layout, across


def _looks(table: Table, all_series: Sequence[Series], without: Sequence[str]) -> list[Look]:
    """Returns a look per line."""
    counts: Counter[str] = Counter()
    looks = []
    for series, name in zip(
        all_series, names_of_sets(table, [series.rows for series in all_series], without), strict=True
    ):
        framework = series.rows[0].cell.framework
        index = counts[framework]
        longest = max(len(series.points), len(series.memory))
        counts[framework] += 1
        looks.append(
            Look(name, framework, DASHES[index % len(DASHES)], hollow=bool(index // len(DASHES) % 2), points=longest)
        )
    return looks


def _asides(looks: Sequence[Look], whole: float) -> list[float]:
    """Returns how far aside each line's marks stand, on an axis as long as ``whole``."""
    return apart(len(looks), whole * min(DODGE * (len(looks) - 1), DODGE_MOST) / 2)


def _throughputs(axes: Any, points: Sequence[Point], look: Look, places: Sequence[float]) -> None:
    """Draw the points of a series at these places: a mark and a whisker each, and a line through three or more."""
    values = [point.value for point in points]
    ends = [[p.value - p.low for p in points], [p.high - p.value for p in points]]
    axes.errorbar(places, values, yerr=ends, fmt="none", ecolor=INK, capsize=2.5, linewidth=0.9, zorder=2)
    axes.plot(places, values, **look.style(len(places)))


def _edge(axes: Any, series: Series, look: Look, last: tuple[float, float]) -> None:
    """Draw a cross at the batch that did not fit, as high as the last one that did."""
    if series.edge:
        axes.plot([last[0], series.edge], [last[1]] * 2, color=FACE[look.framework], **DOTTED)
        axes.plot(series.edge, last[1], "X", color=INK, markeredgecolor="white", markersize=8, zorder=4)


def _doubling(axes: Any, sizes: Sequence[int]) -> None:
    """Make the x axis logarithmic with ticks at powers of two, and the y axis start at zero."""
    from_zero(axes)
    axes.set_xscale("log", base=2)
    axes.set_xlim(sizes[0] / MARGIN, sizes[-1] * MARGIN)
    first, last = int(np.floor(np.log2(sizes[0]))), int(np.ceil(np.log2(sizes[-1])))
    axes.xaxis.set_major_locator(FixedLocator([2**power for power in range(first, last + 1)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(plain_numbers())


def _sizes(series: Series) -> list[int]:
    return [*(point.x for point in series.points), *(x for x, _ in series.memory)]


def _searched(all_series: Sequence[Series]) -> bool:
    """Returns whether there is memory for a batch without throughput."""
    return any({x for x, _ in series.memory} - {point.x for point in series.points} for series in all_series)

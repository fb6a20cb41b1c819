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

from suite.report.curves import Series, batches, memory_kind, workers
from suite.report.plots.canvas import (
    FACE,
    INK,
    KEY,
    MARKER,
    NOTED,
    PALE,
    Sheet,
    among,
    framed,
    from_zero,
    names_of_sets,
    plain_numbers,
    sheet,
    wide,
)
from suite.report.tables import Table

DASHES = ("-", "--", "-.", ":")
DOTTED: dict[str, Any] = {"linewidth": 0.9, "linestyle": (0, (1, 2))}
MEMORY = {"allocator_peak_bytes": "allocator's peak", "rss_peak_bytes": "peak resident memory"}
GIB = 2**30

#: Inches: width of the axes, height of each, and the space between two that share x.
ACROSS, UP, CLOSE = 5.6, 2.5, 0.2


@dataclass(frozen=True)
class Look:
    """How a line is drawn: one colour and marker per framework, one dash per line of a framework."""

    name: str
    framework: str
    dashes: str
    hollow: bool

    def style(self) -> dict[str, Any]:
        inside = "white" if self.hollow else FACE[self.framework]
        marker = {"marker": MARKER[self.framework], "markersize": 5.5, "markerfacecolor": inside}
        return {
            "color": FACE[self.framework],
            "linewidth": 1.8,
            "linestyle": self.dashes,
            "markeredgecolor": INK,
            **marker,
        }

    def handle(self) -> Line2D:
        return Line2D([], [], label=self.name, **self.style())


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
    layout = _sheet(
        table,
        all_series,
        [*(look.handle() for look in looks), *([cross] if edges else [])],
        panels * UP + (panels - 1) * CLOSE,
        title="Throughput and memory against batch size",
        marks="median over launches; whisker: lowest to highest; memory: highest of all launches",
        notes=["Memory without a throughput is that of a search's short tries."] if _searched(all_series) else [],
    )
    axes = [layout.axes(0, panel * (UP + CLOSE), ACROSS, UP) for panel in range(panels)]
    framed(axes[0], "samples per second")
    for series, look in zip(all_series, looks, strict=True):
        _throughputs(axes[0], series, look)
        last = series.points[-1]
        _edge(axes[0], series, look, (last.x, last.value))
        if panels > 1 and series.memory:
            axes[1].plot([x for x, _ in series.memory], [peak / GIB for _, peak in series.memory], **look.style())
            _edge(axes[1], series, look, (series.memory[-1][0], series.memory[-1][1] / GIB))
    if panels > 1:
        framed(axes[1], f"{MEMORY.get(kind, kind.replace('_', ' '))} (GiB)")
    sizes = sorted({x for each in all_series for x in (*_sizes(each), *([each.edge] if each.edge else []))})
    for each in axes:
        _doubling(each, sizes)
        each.tick_params(axis="x", labelbottom=each is axes[-1])
    axes[-1].set_xlabel("batch size (samples that go through the network at once)")
    return layout.figure


def scaling(table: Table) -> Figure | None:
    """Throughput against the loader's workers; a thin line for the same steps without loading."""
    all_series = workers(table)
    if not all_series:
        return None
    looks = _looks(table, all_series, without=("loader",))
    handles = [look.handle() for look in looks]
    if any(series.ceiling for series in all_series):
        handles.append(Line2D([], [], color=PALE, label="the same steps, no loading", **DOTTED))
    layout = _sheet(
        table,
        all_series,
        handles,
        1.4 * UP,
        title="Throughput against loader workers",
        marks="median over launches; whisker: lowest to highest",
    )
    axes = layout.axes(0, 0, ACROSS, 1.4 * UP)
    framed(axes, "samples per second")
    for series, look in zip(all_series, looks, strict=True):
        _throughputs(axes, series, look)
        if series.ceiling:
            ends = [series.points[0].x, series.points[-1].x]
            axes.plot(ends, [series.ceiling] * 2, color=FACE[look.framework], **DOTTED)
    from_zero(axes)
    axes.xaxis.set_major_locator(FixedLocator(sorted({point.x for series in all_series for point in series.points})))
    axes.set_xlabel("workers (processes or threads, as the framework's loader has them)")
    return layout.figure


def _sheet(
    table: Table,
    all_series: Sequence[Series],
    handles: Sequence[Line2D],
    high: float,
    *,
    title: str,
    marks: str,
    notes: Sequence[str] = (),
) -> Sheet:
    """Returns a sheet with room for axes `ACROSS` wide and a legend on their right."""
    rows = [row for series in all_series for row in series.rows]
    names = [str(handle.get_label()) for handle in handles]
    right = max(0.75 + wide(names, 8), 9.0 - 0.8 - ACROSS)
    inside = ACROSS, max(high, 0.19 * len(names))
    noted = any(name.endswith(NOTED) for name in names)
    layout = sheet(among(table, rows), title, marks, inside, right=right, notes=notes, noted=noted)
    key = layout.axes(ACROSS + 0.1, 0, right - 0.1, inside[1])
    key.set_axis_off()
    key.legend(handles=handles, **{**KEY, "bbox_to_anchor": (0, 1)})
    return layout


def _looks(table: Table, all_series: Sequence[Series], without: Sequence[str]) -> list[Look]:
    """Returns a look per line."""
    counts: Counter[str] = Counter()
    looks = []
    for series, name in zip(
        all_series, names_of_sets(table, [series.rows for series in all_series], without), strict=True
    ):
        framework = series.rows[0].cell.framework
        index = counts[framework]
        counts[framework] += 1
        looks.append(Look(name, framework, DASHES[index % len(DASHES)], hollow=bool(index // len(DASHES) % 2)))
    return looks


def _throughputs(axes: Any, series: Series, look: Look) -> None:
    x, values = [point.x for point in series.points], [point.value for point in series.points]
    ends = [[p.value - p.low for p in series.points], [p.high - p.value for p in series.points]]
    axes.errorbar(x, values, yerr=ends, fmt="none", ecolor=FACE[look.framework], capsize=3, linewidth=1.1, zorder=3)
    axes.plot(x, values, **look.style())


def _edge(axes: Any, series: Series, look: Look, last: tuple[float, float]) -> None:
    """Draw a cross at the batch that did not fit, as high as the last one that did."""
    if series.edge:
        axes.plot([last[0], series.edge], [last[1]] * 2, color=FACE[look.framework], **DOTTED)
        axes.plot(series.edge, last[1], "X", color=INK, markeredgecolor="white", markersize=8, zorder=4)


def _doubling(axes: Any, sizes: Sequence[int]) -> None:
    """Make the x axis logarithmic with ticks at powers of two, and the y axis start at zero."""
    from_zero(axes)
    axes.set_xscale("log", base=2)
    axes.set_xlim(sizes[0] / 1.25, sizes[-1] * 1.25)
    first, last = int(np.floor(np.log2(sizes[0]))), int(np.ceil(np.log2(sizes[-1])))
    axes.xaxis.set_major_locator(FixedLocator([2**power for power in range(first, last + 1)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(plain_numbers())


def _sizes(series: Series) -> list[int]:
    return [*(point.x for point in series.points), *(x for x, _ in series.memory)]


def _searched(all_series: Sequence[Series]) -> bool:
    """Returns whether there is memory for a batch without throughput."""
    return any({x for x, _ in series.memory} - {point.x for point in series.points} for series in all_series)

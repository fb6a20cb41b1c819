"""Plots of one figure against a number: batch size, the loader's workers, steps trained."""

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

#: Inches: width of the axes, height of each, and what lies between two that share x.
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
    """Throughput above, peak memory below, over one logarithmic axis; a cross where memory was not enough."""
    held = batches(table)
    if not held:
        return None
    kind = memory_kind(table)
    panels = 2 if any(series.memory for series in held) else 1
    edges = any(series.edge for series in held)
    cross = Line2D([], [], linestyle="", marker="X", color=INK, markersize=7, label="does not fit in memory")
    looks = _looks(table, held, without=("batch",))
    made = _sheet(
        table,
        held,
        [*(look.handle() for look in looks), *([cross] if edges else [])],
        panels * UP + (panels - 1) * CLOSE,
        title="Throughput and memory against batch size",
        marks="median over launches; whisker: lowest to highest; memory: highest of all launches",
        notes=["Memory without a throughput is that of a search's short tries."] if _searched(held) else [],
    )
    axes = [made.axes(0, panel * (UP + CLOSE), ACROSS, UP) for panel in range(panels)]
    framed(axes[0], "samples per second")
    for series, look in zip(held, looks, strict=True):
        _throughputs(axes[0], series, look)
        last = series.points[-1]
        _edge(axes[0], series, look, (last.x, last.value))
        if panels > 1 and series.memory:
            axes[1].plot([x for x, _ in series.memory], [peak / GIB for _, peak in series.memory], **look.style())
            _edge(axes[1], series, look, (series.memory[-1][0], series.memory[-1][1] / GIB))
    if panels > 1:
        framed(axes[1], f"{MEMORY.get(kind, kind.replace('_', ' '))} (GiB)")
    sizes = sorted({x for each in held for x in (*_sizes(each), *([each.edge] if each.edge else []))})
    for each in axes:
        _doubling(each, sizes)
        each.tick_params(axis="x", labelbottom=each is axes[-1])
    axes[-1].set_xlabel("batch size (samples that go through the network at once)")
    return made.figure


def scaling(table: Table) -> Figure | None:
    """Throughput against the loader's workers; a thin line where the steps alone are the limit."""
    held = workers(table)
    if not held:
        return None
    looks = _looks(table, held, without=("loader",))
    handles = [look.handle() for look in looks]
    if any(series.ceiling for series in held):
        handles.append(Line2D([], [], color=PALE, label="the same steps, no loading", **DOTTED))
    made = _sheet(
        table,
        held,
        handles,
        1.4 * UP,
        title="Throughput against loader workers",
        marks="median over launches; whisker: lowest to highest",
    )
    axes = made.axes(0, 0, ACROSS, 1.4 * UP)
    framed(axes, "samples per second")
    for series, look in zip(held, looks, strict=True):
        _throughputs(axes, series, look)
        if series.ceiling:
            ends = [series.points[0].x, series.points[-1].x]
            axes.plot(ends, [series.ceiling] * 2, color=FACE[look.framework], **DOTTED)
    from_zero(axes)
    axes.xaxis.set_major_locator(FixedLocator(sorted({point.x for series in held for point in series.points})))
    axes.set_xlabel("workers (processes or threads, as the framework's loader has them)")
    return made.figure


def _sheet(
    table: Table,
    held: Sequence[Series],
    handles: Sequence[Line2D],
    high: float,
    *,
    title: str,
    marks: str,
    notes: Sequence[str] = (),
) -> Sheet:
    """A sheet with room for axes `ACROSS` wide and the key of the lines on their right."""
    rows = [row for series in held for row in series.rows]
    names = [str(handle.get_label()) for handle in handles]
    right = max(0.75 + wide(names, 8), 9.0 - 0.8 - ACROSS)
    inside = ACROSS, max(high, 0.19 * len(names))
    noted = any(name.endswith(NOTED) for name in names)
    made = sheet(among(table, rows), title, marks, inside, right=right, notes=notes, noted=noted)
    key = made.axes(ACROSS + 0.1, 0, right - 0.1, inside[1])
    key.set_axis_off()
    key.legend(handles=handles, **{**KEY, "bbox_to_anchor": (0, 1)})
    return made


def _looks(table: Table, held: Sequence[Series], without: Sequence[str]) -> list[Look]:
    """A look per line."""
    seen: Counter[str] = Counter()
    found = []
    for series, name in zip(held, names_of_sets(table, [series.rows for series in held], without), strict=True):
        framework = series.rows[0].cell.framework
        index = seen[framework]
        seen[framework] += 1
        found.append(Look(name, framework, DASHES[index % len(DASHES)], hollow=bool(index // len(DASHES) % 2)))
    return found


def _throughputs(axes: Any, series: Series, look: Look) -> None:
    x, values = [point.x for point in series.points], [point.value for point in series.points]
    ends = [[p.value - p.low for p in series.points], [p.high - p.value for p in series.points]]
    axes.errorbar(x, values, yerr=ends, fmt="none", ecolor=FACE[look.framework], capsize=3, linewidth=1.1, zorder=3)
    axes.plot(x, values, **look.style())


def _edge(axes: Any, series: Series, look: Look, last: tuple[float, float]) -> None:
    """A cross at the batch that did not fit, as high as the last one that did."""
    if series.edge:
        axes.plot([last[0], series.edge], [last[1]] * 2, color=FACE[look.framework], **DOTTED)
        axes.plot(series.edge, last[1], "X", color=INK, markeredgecolor="white", markersize=8, zorder=4)


def _doubling(axes: Any, sizes: Sequence[int]) -> None:
    """A logarithmic axis with ticks at powers of two, from zero upwards the other way."""
    from_zero(axes)
    axes.set_xscale("log", base=2)
    axes.set_xlim(sizes[0] / 1.25, sizes[-1] * 1.25)
    first, last = int(np.floor(np.log2(sizes[0]))), int(np.ceil(np.log2(sizes[-1])))
    axes.xaxis.set_major_locator(FixedLocator([2**power for power in range(first, last + 1)]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(plain_numbers())


def _sizes(series: Series) -> list[int]:
    return [*(point.x for point in series.points), *(x for x, _ in series.memory)]


def _searched(held: Sequence[Series]) -> bool:
    """Whether some memory comes without a throughput."""
    return any({x for x, _ in series.memory} - {point.x for point in series.points} for series in held)

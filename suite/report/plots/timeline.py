"""Metrics over time: a band per cell, a column per metric, and the measured windows of each phase behind the lines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from suite.analysis.readings import GPU_LINES
from suite.analysis.timelines import Line, Trace, trace
from suite.record.record import PHASES
from suite.report.plots.canvas import INK, NOTED, PALE, among, labels, legend, plain_numbers, sheet, wide
from suite.report.tables import Table

GIB = 2**30

#: Look of the bands behind the lines: the measured windows of each phase.
SHADE: dict[str, dict[str, Any]] = {
    "train": {"facecolor": "#C4C4C4", "hatch": ""},
    "compute": {"facecolor": "#E6E6E6", "hatch": "//////"},
    "input": {"facecolor": "#ECECEC", "hatch": "...."},
}
#: Cells that are drawn, at most; the table has the metrics of all.
CELLS = 40
BAND_IN, FULL = 0.52, 0.8  # height of a cell, and the share of it that a line can take
BETWEEN_IN = 0.35


@dataclass(frozen=True)
class Column:
    """Metrics that share a scale, the first as a full line, the second dashed; ``top`` is the end of a fixed scale."""

    title: str
    unit: str
    metrics: tuple[str, ...]
    scale: float = 1.0
    top: float | None = None


CPU = Column("CPU of the worker", "cores", ("cpu_cores",))
WITH_GPU = (
    Column("GPU busy, SM active", "%", ("gpu_utilisation_percent", "gpm_sm_utilisation_percent"), top=100.0),
    Column("GPU power", "W", ("power_w",)),
    Column("GPU memory used", "GiB", ("memory_used_bytes",), scale=GIB),
    CPU,
)
WITHOUT = (CPU, Column("resident memory of the worker", "GiB", ("rss_bytes",), scale=GIB))
ON_GPU = (
    "GPU busy (full line): share of time with any kernel running, however small. SM active (dashed): how much of the "
    "GPU worked, where the device tells."
)


def timeline(table: Table) -> Figure | None:
    """One launch per cell, the median by throughput; None if no record has a timeline."""
    traces = [row_trace for row in table.group.rows if (row_trace := trace(row))]
    if not traces:
        return None
    shown = traces[:CELLS]
    recorded = {name for each in shown for name in each.lines}
    on_gpu = not recorded.isdisjoint(GPU_LINES)
    columns = [column for column in (WITH_GPU if on_gpu else WITHOUT) if not recorded.isdisjoint(column.metrics)]
    rows = [each.row for each in shown]
    names = labels(table, rows)
    left = 0.5 + wide(names)
    across = max(1.6, (8.7 - left - BETWEEN_IN * (len(columns) - 1)) / len(columns))
    inside = len(columns) * across + (len(columns) - 1) * BETWEEN_IN, len(shown) * BAND_IN + 0.35
    omitted = [f"{len(traces) - CELLS} more cells of the table are not drawn."] if len(traces) > CELLS else []
    notes = ["All bands of a column have the scale on top; shaded: the windows that count."]
    notes += [*([ON_GPU] if on_gpu else []), *omitted]
    layout = sheet(
        among(table, rows),
        "Metrics over time",
        "drawn: the launch with the cell's median throughput",
        inside,
        left=left,
        notes=notes,
        noted=any(name.endswith(NOTED) for name in names),
    )
    end_s = max(1.0, *(each.end_s for each in shown))
    for place, column in enumerate(columns):
        axes = layout.axes(place * (across + BETWEEN_IN), 0.35, across, inside[1] - 0.35)
        _column(axes, column, shown, end_s)
        axes.set_yticks(range(len(shown)), names if place == 0 else [""] * len(shown))
    handles: list[Any] = [Patch(**SHADE[name], edgecolor=PALE, linewidth=0.4, label=f"{name} phase") for name in PHASES]
    if on_gpu:
        drawn = (("-", "GPU busy"), ("--", "SM active"))
        handles += [Line2D([], [], color=INK, linestyle=each, label=words) for each, words in drawn]
    head = layout.axes(0, 0, inside[0], 0.01)
    head.set_axis_off()
    legend(head, handles)
    return layout.figure


def _column(axes: Any, column: Column, traces: list[Trace], end_s: float) -> None:
    """Draw all bands of one column, the first cell on top."""
    lines_by_row = [[each.lines[name] for name in column.metrics if name in each.lines] for each in traces]
    top = column.top or rounded_up(
        max((line.highest for lines in lines_by_row for line in lines), default=0.0) / column.scale
    )
    for name in PHASES:
        for y, each in enumerate(traces):
            if name in each.spans:
                bursts = [(begin, end - begin) for begin, end in each.spans[name]]
                band = {"edgecolor": PALE, "linewidth": 0.0, "zorder": 1}
                axes.broken_barh(bursts, (y - FULL / 2, FULL), **SHADE[name], **band)
    for y, each in enumerate(traces):
        axes.plot([0, end_s], [y + FULL / 2] * 2, color=PALE, linewidth=0.5, zorder=2)
        for name, dashes in zip(column.metrics, ("solid", "dashed"), strict=False):
            if name in each.lines:
                parts = _parts(each.lines[name], y, top * column.scale)
                axes.add_collection(LineCollection(parts, colors=INK, linewidths=1.0, linestyles=dashes, zorder=3))
    axes.set_title(f"{column.title}\n0 to {top:g} {column.unit}", size=8, loc="left", color=INK)
    axes.set_xlim(0, end_s)
    axes.set_ylim(len(traces) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("seconds since spawn")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(plain_numbers())


def _parts(line: Line, y: int, top: float) -> list[list[tuple[float, float]]]:
    """Returns the line as points in its band, broken where a reading is missing."""
    parts: list[list[tuple[float, float]]] = [[]]
    for at, value in zip(line.at_s, line.values, strict=True):
        if value is None:
            parts.append([])
        else:
            parts[-1].append((at, y + FULL / 2 - FULL * min(value / top, 1.1)))
    return [part for part in parts if len(part) > 1]


def rounded_up(value: float) -> float:
    """Returns the next round number (1, 1.5, 2, 2.5, 3 and so on) for a scale; 1 for zero and less."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10) if step * unit >= value * (1 - 1e-9))

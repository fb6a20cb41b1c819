"""Metrics over time: a band per cell, a column per metric, and the measured windows of each phase behind the lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from suite.analysis.records.readings import GPU_LINES
from suite.analysis.rows.timelines import Line, Trace, trace, until_the_end
from suite.analysis.rows.wording import figure
from suite.catalog.phases import PHASES as CATALOG
from suite.record.text import clean
from suite.report.format.text import round_up
from suite.report.plots.kinds import kind
from suite.report.plots.style.canvas import sheet
from suite.report.plots.style.look import GRID, INK, LETTERS, PALE, SMALL, WIDTH_IN, legend, round_ticks, wide
from suite.report.plots.style.naming import among, labels_of, title_of
from suite.report.plots.style.vectors import point_out
from suite.report.tables.frame import Table

GIB = 2**30

#: Phases that every cell has, and those of launches that serve.
PHASES = [name for name, each in CATALOG.items() if each.of_every_cell or each.serves]

#: Look of the bands behind the lines: the measured windows of each phase.
SHADE: dict[str, dict[str, Any]] = {
    name: {"facecolor": CATALOG[name].shade, "hatch": CATALOG[name].hatch} for name in PHASES
}
PHASE_NAMES = {name: CATALOG[name].title for name in PHASES}
#: Cells that are drawn, at most; the table has the metrics of all.
CELLS = 40
BAND_IN, FULL = 0.6, 0.68  # height of a cell, and the share of it that a line can take
FULL_BELOW = 0.5  # the same where the names stand above the bands
BETWEEN_IN = 0.55
COLUMN_IN = 1.1  # a column that is narrower has names above its bands


@dataclass(frozen=True)
class Column:
    """Metrics that share a scale, the first as a full line, the second dashed; ``top`` is the end of a fixed scale."""

    title: str
    unit: str
    metrics: tuple[str, ...]
    scale: float = 1.0
    top: float | None = None
    better: str = ""


CPU = Column("CPU of the worker", "cores", ("cpu_cores",))
WITH_GPU = (
    Column(
        "GPU busy, SM active",
        "%",
        ("gpu_utilisation_percent", "gpm_sm_utilisation_percent"),
        top=100.0,
        better="higher is better",
    ),
    Column("GPU power", "W", ("power_w",)),
    Column("GPU memory", "GiB", ("memory_used_bytes",), scale=GIB, better="lower is better"),
    CPU,
)
WITHOUT = (CPU, Column("memory of the worker", "GiB", ("rss_bytes",), scale=GIB, better="lower is better"))
ON_GPU = (
    "GPU busy (solid line): share of time with any kernel running, however small. SM active (dashed): share of the GPU "
    "that worked, where the device reports it."
)


@kind("timeline", "Use of CPU, GPU and memory over the time of one launch per cell", place=7)
def timeline(table: Table) -> Figure | None:
    """One launch per cell, the median by throughput, up to its last measured window; None without timelines."""
    recorded_traces = [row_trace for row in table.group.rows if (row_trace := trace(row))]
    if not recorded_traces:
        return None
    shown = [until_the_end(each) for each in recorded_traces[:CELLS]]
    recorded = {name for each in shown for name in each.lines}
    on_gpu = not recorded.isdisjoint(GPU_LINES)
    columns = [column for column in (WITH_GPU if on_gpu else WITHOUT) if not recorded.isdisjoint(column.metrics)]
    rows = [each.row for each in shown]
    names = labels_of(table, rows)
    left = 0.65 + wide(names)
    between = BETWEEN_IN * (len(columns) - 1)
    above = (WIDTH_IN - 0.2 - left - between) / len(columns) < COLUMN_IN  # names stand above their bands
    left, full = (0.6, FULL_BELOW) if above else (left, FULL)
    across = (WIDTH_IN - 0.2 - left - between) / len(columns)
    band = BAND_IN * FULL / full
    inside = len(columns) * across + between, len(shown) * band + 0.5
    more = len(recorded_traces) - CELLS
    notes = [
        *(["Lines end with the last window; the process only exits after it."] if shown != recorded_traces else []),
        *([ON_GPU] if on_gpu else []),
        *([f"Not drawn: {more} more cells of the table."] if more > 0 else []),
    ]
    group, shaded = among(table, rows), any(each.spans for each in shown)
    layout = sheet(
        group,
        title_of(group, "GPU and CPU over time" if on_gpu else "CPU and memory over time", of="when training"),
        f"One launch per cell: the one with the median throughput.{' Shaded: the timed windows.' * shaded}",
        inside,
        left=left,
        right=0.2,
        notes=notes,
        labels=names,
    )
    end_s = max(1.0, *(each.end_s for each in shown))
    for place, column in enumerate(columns):
        axes = layout.axes(place * (across + BETWEEN_IN), 0.5, across, inside[1] - 0.5)
        _column(axes, column, shown, end_s, full)
        for y, name in enumerate(names if place == 0 else []):
            at, aside, style = (y - full / 2, (-8, 8), {}) if above else (y, (-28, 0), {"ha": "right", "va": "center"})
            axes.annotate(name, (0, at), aside, "data", "offset points", color=INK, **style)
    handles: list[Any] = [
        Patch(**SHADE[name], edgecolor=PALE, linewidth=0.4, label=f"{PHASE_NAMES[name]} windows")
        for name in PHASES
        if any(name in each.spans for each in shown)
    ]
    if on_gpu:
        drawn = (("-", "GPU busy"), ("--", "SM active"))
        handles += [Line2D([], [], color=INK, linestyle=each, label=words) for each, words in drawn]
    head = layout.axes(0, 0, inside[0], 0.01)
    head.set_axis_off()
    legend(head, handles)
    return layout.figure


def _column(axes: Any, column: Column, traces: list[Trace], end_s: float, full: float) -> None:
    """Draw all bands of one column, the first cell on top."""
    lines_by_row = [[each.lines[name] for name in column.metrics if name in each.lines] for each in traces]
    top = column.top or round_up(
        max((line.highest for lines in lines_by_row for line in lines), default=0.0) / column.scale
    )
    for name in PHASES:
        for y, each in enumerate(traces):
            if name in each.spans:
                bursts = [(begin, end - begin) for begin, end in each.spans[name]]
                band = {"edgecolor": PALE, "linewidth": 0.0, "zorder": 1}
                drawn = axes.broken_barh(bursts, (y - full / 2, full), **SHADE[name], **band)
                point_out(drawn, [f"{PHASE_NAMES[name]} windows, launch {each.block}"])
    base, ceiling = full / 2, -full / 2
    for y, each in enumerate(traces):
        axes.plot([0, end_s], [y + base] * 2, color=PALE, linewidth=0.5, zorder=2)
        axes.plot([0, end_s], [y + ceiling] * 2, color=GRID, linewidth=0.5, zorder=0)
        for name, dashes in zip(column.metrics, ("solid", "dashed"), strict=False):
            if name in each.lines:
                parts = _parts(each.lines[name], y, top * column.scale, full)
                drawn = LineCollection(parts, colors=INK, linewidths=1.0, linestyles=dashes, zorder=3)
                highest = f"{figure(each.lines[name].highest / column.scale)} {column.unit}"
                point_out(drawn, [f"{clean(each.row.cell.id)}, launch {each.block}: {column.title}, up to {highest}"])
                axes.add_collection(drawn)
    better = f"\n({column.better})" if column.better else "\n"
    axes.set_title(f"{column.title} in {column.unit}{better}", size=SMALL, loc="left", color=INK)
    axes.set_facecolor("none")  # else it covers a long name that stands above the bands
    axes.set_xlim(0, end_s)
    axes.set_ylim(len(traces) - 0.5, -0.5)
    ticks = [(y + edge, words) for y in range(len(traces)) for edge, words in ((ceiling, f"{top:g}"), (base, "0"))]
    axes.set_yticks([at for at, _ in ticks], [words for _, words in ticks], size=SMALL, color=PALE)
    axes.tick_params(axis="y", length=0, pad=4)
    axes.set_xlabel("seconds since the start", size=LETTERS)
    round_ticks(axes.xaxis, 4)


def _parts(line: Line, y: int, top: float, full: float) -> list[list[tuple[float, float]]]:
    """Returns the line as points in its band, broken where a reading is missing."""
    parts: list[list[tuple[float, float]]] = [[]]
    for at, value in zip(line.at_s, line.values, strict=True):
        if value is None:
            parts.append([])
        else:
            parts[-1].append((at, y + full / 2 - full * min(value / top, 1.1)))
    return [part for part in parts if len(part) > 1]

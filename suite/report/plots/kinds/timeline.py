"""Metrics over time: a row per cell, a panel per metric, and the measured windows of each phase behind the lines."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from suite.analysis.records.reader import GPU_LINES
from suite.analysis.rows.metrics import Trace, trace, until_the_end
from suite.analysis.rows.wording import figure
from suite.catalog.phases import PHASES
from suite.record.text import clean
from suite.report.format.text import round_up
from suite.report.plots import charts, naming
from suite.report.plots.kinds import kind
from suite.report.plots.traces import Axis, Chart, Panel, Rows, Traces
from suite.report.tables.frame import Table

GIB = 2**30
#: Phases that every cell has, and those of launches that serve.
SHADED = [each for each in PHASES.values() if each.of_every_cell or each.is_late]
#: Cells that are drawn, at most; the table has the metrics of all.
CELLS = 40
#: Inches of a row, and the share of it that a line can take.
PITCH, FULL = 0.55, 0.7


#: Metrics that share a scale, the first as a full line, the second dashed; their title, unit and scale, the end of a
#: fixed scale, and which way is better.
Column = tuple[tuple[str, ...], str, str, float, float | None, str]
CPU: Column = (("cpu_cores",), "CPU of the worker", "cores", 1.0, None, "")
BUSY = "gpu_utilisation_percent", "gpm_sm_utilisation_percent"
WITH_GPU: tuple[Column, ...] = (
    (BUSY, "GPU busy, SM active", "%", 1.0, 100.0, " (higher is better)"),
    (("power_w",), "GPU power", "W", 1.0, None, ""),
    (("memory_used_bytes",), "GPU memory", "GiB", GIB, None, " (lower is better)"),
    CPU,
)
WITHOUT: tuple[Column, ...] = (CPU, (("rss_bytes",), "memory of the worker", "GiB", GIB, None, " (lower is better)"))
ON_GPU = (
    "GPU busy (solid line): share of time with any kernel running, however small. SM active (dashed): share of the GPU "
    "that worked, where the device reports it."
)


@kind(7)
def timeline(table: Table) -> Chart | None:
    """Use of CPU, GPU and memory over the time of one launch per cell."""
    recorded = [launch for row in table.group.rows if (launch := trace(row))]
    if not recorded:
        return None
    shown = [until_the_end(each) for each in recorded[:CELLS]]
    metrics = {name for each in shown for name in each.lines}
    on_gpu = not metrics.isdisjoint(GPU_LINES)
    columns = [each for each in (WITH_GPU if on_gpu else WITHOUT) if not metrics.isdisjoint(each[0])]
    names = naming.labels_of(table, [each.row for each in shown])
    group = naming.among(table, (each.row for each in shown))
    return charts.chart(
        group,
        naming.title_of(group, "GPU and CPU over time" if on_gpu else "CPU and memory over time", of="when training"),
        [[_panel(each, shown, [""] * len(names) if at else names) for at, each in enumerate(columns)]],
        "One launch per cell: the one with the median throughput. Its row is as high as the scale.",
        "Shaded: the timed windows." * any(each.spans for each in shown),
        "Lines end with the last window; the process only exits after it." * (shown != recorded[:CELLS]),
        ON_GPU * on_gpu,
        f"Not drawn: {len(recorded) - CELLS} more cells of the table." * (len(recorded) > CELLS),
    )


def _panel(column: Column, shown: Sequence[Trace], names: Sequence[str]) -> Panel:
    """Returns a line of each cell in its row, the first cell on top; the panel with the names has the key."""
    metrics, title, unit, scale, end, better = column
    known = [line for each in shown for name in metrics if (line := each.lines.get(name))]
    top = end or round_up(max((line.highest for line in known), default=0.0) / scale)
    floors = Traces("rules", y=[y + FULL / 2 for y in range(len(shown))], look={"linewidth": 0.5})
    traces = [floors, *_windows(shown, named=any(names))]
    for y, each in enumerate(shown):
        for name, dashes in zip(metrics, ("-", "--"), strict=False):
            if line := each.lines.get(name):
                heights = [nan if value is None else min(value / scale / top, 1.1) for value in line.values]
                places = [y + FULL * (0.5 - height) for height in heights]
                highest = f"{figure(line.highest / scale)} {unit}"
                text = f"{clean(each.row.cell.id)}, launch {each.block}: {title}, up to {highest}"
                look = {"linewidth": 1.0, "linestyle": dashes}
                traces.append(Traces("lines", line.at_s, places, text=[text], look=look))
    return Panel(
        traces,
        Axis("seconds since the start", high=max(1.0, *(each.end_s for each in shown))),
        rows=Rows({float(y): each.row for y, each in enumerate(shown)}, names, pitch=PITCH),
        title=title,
        head=f"0 to {top:g} {unit}{better}",
        key="above",
    )


def _windows(shown: Sequence[Trace], named: bool) -> list[Traces]:
    traces = []
    for phase in SHADED:
        name = f"{phase.title} windows"
        bursts = [
            (begin, end, y, f"{name}, launch {each.block}")
            for y, each in enumerate(shown)
            for begin, end in each.spans.get(phase.name, ())
        ]
        if bursts:
            begins, ends, y, text = zip(*bursts, strict=True)
            look = {"facecolor": phase.shade, "hatch": phase.hatch, "height": FULL, "linewidth": 0.0, "zorder": 1}
            traces.append(Traces("bars", ends, y, text=text, name=name * named, base=begins, look=look))
    return traces

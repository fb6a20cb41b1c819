"""How times scatter: the steps of each cell around their median, and the latencies of its requests."""

from __future__ import annotations

from statistics import median
from typing import Any

from suite.analysis.rows.groups import Row
from suite.analysis.rows.wording import figure
from suite.analysis.statistics.inference import quartiles
from suite.record.text import clean
from suite.report.plots import charts
from suite.report.plots.kinds import kind
from suite.report.plots.style.look import DOT, INK
from suite.report.plots.traces import Axis, Chart, Panel, Traces
from suite.report.tables.frame import Table, step_times_ms

#: The median of windows, and the percentiles of requests by figure: what each is called, and its mark.
MIDDLE: dict[str, Any] = {"marker": "|", "markersize": 15, "markeredgewidth": 1.6, "color": INK}
MARKS = {
    "latency_ms_median": ("median", {}),
    "latency_ms_p95": ("95th percentile", MIDDLE | {"markersize": 9}),
    "latency_ms_p99": ("99th percentile", MIDDLE | {"markersize": 14}),
    "latency_ms_worst": ("worst", {"marker": "x", "markersize": 6, "markeredgewidth": 1.2, "color": INK}),
}
MEDIAN = "latency_ms_median"


@kind("step-times", "Box plot of the scatter of step times around the median of each cell", place=5)
def step_times(table: Table) -> Chart:
    """Boxes: quartiles over the windows of all launches; dots: the windows, a line of dots per launch.

    In percent of the cell's median, which is written beside it: in milliseconds the batch sizes would set the scale
    and hide the scatter. A stalled window does not set the scale either: outliers are named beside their row.
    """
    rows = charts.stack_rows(table)
    scaled = {y: _percent_of_median(row) for y, row in rows.places.items() if row.ok}
    windows = {y: [time for launch in launches for time in launch] for y, launches in scaled.items()}
    boxes = {y: quartiles(times) for y, times in windows.items()}
    spreads = {y: (third, min(windows[y]), max(windows[y])) for y, (_, _, third) in boxes.items()}
    edge = max(105.0, *(third + 5 * (third - first) for first, _, third in boxes.values()))
    low = min(95.0, *(low for _, low, _ in spreads.values()))
    high = min(edge, max(105.0, *(high for *_, high in spreads.values())))
    room = 0.04 * (high - low)
    dots = [
        (time, y + aside, "")
        for y, launches in scaled.items()
        for aside, times in zip(charts.apart(len(launches), 0.24), launches, strict=True)
        for time in times
        if time <= high + room
    ]
    traces = [
        Traces("rules", [100.0]),
        *charts.bars(rows, spreads, "% of the median: third quartile", {y: first for y, (first, *_) in boxes.items()}),
        charts.points([(100.0, y, "") for y in boxes], MIDDLE),
        charts.points(dots, DOT | {"markersize": 2.4, "markeredgewidth": 0.5}),
    ]
    beside = {
        y: f"{figure(median(step_times_ms(rows.places[y].ok)))} ms" + (f", up to {most:,.0f} %" if most > edge else "")
        for y, (*_, most) in spreads.items()
    }
    axis = Axis("step time in % of the cell's median (less scatter is better)", low - room, high + room)
    return charts.rows_chart(
        table,
        Panel(traces, axis, rows=rows, beside=beside),
        "Scatter of step times",
        [
            "Dot: mean of one timed window; each launch has its own line of dots. Box: quartiles. Whisker: lowest to "
            "highest. On the right: the median."
        ],
    )


def _percent_of_median(row: Row) -> list[list[float]]:
    """Returns the step times of the windows in percent of the row's median, by launch."""
    middle = median(step_times_ms(row.ok))
    return [[100 * time / middle for time in step_times_ms([record])] for record in row.ok]


@kind("latencies", "Median, 95th and 99th percentile and worst latency of requests, by cell", place=11)
def latencies(table: Table) -> Chart | None:
    """A line per cell from the median to the worst latency, with a mark at each percentile, over a logarithmic axis."""
    served = table.findings.servings
    shown = [row for row in table.group.rows if row.key in served and MEDIAN in served[row.key].figures]
    if not shown:
        return None
    rows = charts.stack_rows(table, shown)
    known = {
        y: {name: each.value for name in MARKS if (each := served[row.key].figures.get(name))}
        for y, row in rows.places.items()
    }
    traces: list[Traces] = []
    for name, (called, look) in MARKS.items():
        for y, row in rows.places.items():
            if at := known[y].get(name):
                text = f"{clean(row.cell.id)}: {called} {figure(at)} ms"
                first = called not in {each.name for each in traces}
                traces.append(charts.points([(at, y, text)], look, called * first, row.cell.framework))
    for y, row in rows.places.items():
        ends = known[y][MEDIAN], max(known[y].values())
        look = {"marker": "", "linewidth": 2.4, "zorder": 2}
        traces.append(Traces("lines", ends, (y, y), group=row.cell.framework, look=look))
    axis = Axis("milliseconds for a request of one sample, logarithmic (lower is better)", low=None, log=True)
    beside = {y: f"{' · '.join(map(figure, list(each.values())[:3]))} ms" for y, each in known.items()}
    return charts.rows_chart(
        table,
        Panel(traces, axis, rows=rows, beside=beside, key="above"),
        "Latency of inference",
        [
            "Each mark is the median over launches of a launch's own percentile. On the right: median, 95th and 99th "
            "percentile."
        ],
        left_out="without inference",
    )

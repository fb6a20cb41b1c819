"""Bars, boxes and marks of each cell: throughput, its ratio to the usual settings, the scatter of times, latencies."""

from __future__ import annotations

from statistics import median
from typing import Any

from suite.analysis.rows.wording import figure, listing
from suite.analysis.statistics.inference import quartiles
from suite.record.text import clean
from suite.report.format.names import framework
from suite.report.format.text import spread
from suite.report.plots import charts
from suite.report.plots.kinds import kind
from suite.report.plots.pens import DOT
from suite.report.plots.traces import GRID, INK, Axis, Chart, Panel, Rows, Traces
from suite.report.tables.curves import speed_ups
from suite.report.tables.frame import Table, step_times_ms

#: What marks a bar as the fastest.
FASTEST = "the significantly fastest of one precision and batch size; if several tie, all."

#: The median of windows, and the percentiles of requests by figure: what each is called, and its mark.
MIDDLE: dict[str, Any] = {"marker": "|", "markersize": 15, "markeredgewidth": 1.6, "color": INK}
PERCENTILES = {
    "latency_ms_median": ("median", {}),
    "latency_ms_p95": ("95th percentile", MIDDLE | {"markersize": 9}),
    "latency_ms_p99": ("99th percentile", MIDDLE | {"markersize": 14}),
    "latency_ms_worst": ("worst", {"marker": "x", "markersize": 6, "markeredgewidth": 1.2, "color": INK}),
}


@kind(1)
def throughput(table: Table) -> Chart:
    """Bar chart of training throughput by cell, in samples per second; higher is better."""
    panel = rates_panel(table, charts.stack_rows(table))
    return charts.rows_chart(
        table,
        panel,
        "Training throughput",
        "Bar: median over launches. Whisker: lowest to highest. Dot: one launch.",
        f"Star, bold: {FASTEST}" * bool(panel.bold),
        charts.CROSSED * any(row.set_aside for row in table.group.rows),
    )


def rates_panel(table: Table, rows: Rows) -> Panel:
    """Returns bars of throughput, with the median beside them; the fastest are bold."""
    best = table.leaders.get("samples_per_s", frozenset())
    readings = {y: charts.rates_of(row) for y, row in rows.places.items() if row.ok}
    bold = frozenset(y for y in readings if rows.places[y].key in best)
    beside = {y: f"{figure(median(rate for rate, _ in each))}{'*' * (y in bold)}" for y, each in readings.items()}
    traces = [*charts.rate_bars(rows, readings), charts.crosses(rows)]
    return Panel(traces, Axis("samples per second (higher is better)"), rows=rows, beside=beside, bold=bold)


@kind(2)
def speed_up(table: Table) -> Chart | None:
    """Bar chart of each cell's throughput relative to its framework's base cell.

    Bars go from 1 along a logarithmic axis, so that half as fast is as long as twice as fast.
    """
    by_row = {each.row.key: each for each in speed_ups(table)}
    if not by_row:
        return None
    rows = charts.stack_rows(table, [row for row in table.group.rows if row.key in by_row])
    ratios = {y: ratio for y, row in rows.places.items() if (ratio := by_row[row.key].ratio).blocks}
    spreads = {y: (each.value or 1.0, each.low or 1.0, each.high or 1.0) for y, each in ratios.items()}
    low = min(0.9, *(low for _, low, _ in spreads.values())) / 1.06
    high = max(1 / 0.9, *(high for *_, high in spreads.values())) * 1.06
    traces = [
        Traces("rules", low=[1 / (1 + table.margin)], high=[1 + table.margin], look={"color": GRID}),
        Traces("rules", [1.0], look={"color": INK, "zorder": 3}),
        *charts.bars(rows, spreads, "times its base", dict.fromkeys(spreads, 1.0)),
    ]
    bases = [each.row.cell for each in by_row.values() if not each.ratio.blocks]
    modes = dict.fromkeys(f"{framework(cell.framework)} {cell.compile}" for cell in bases)
    sizes = listing([str(size) for size in sorted({cell.batch for cell in bases})])
    axis = Axis("throughput relative to the framework's base (logarithmic; higher is better)", low, high, log=True)
    beside = {y: spread(*spreads[y]) if y in spreads else "base" for y in rows.places}
    return charts.rows_chart(
        table,
        Panel(traces, axis, rows=rows, beside=beside),
        "Speed-up",
        f"Bar: ratio within blocks, {charts.describe_interval(ratios.values())}.",
        f"Base: fp32, batch {sizes}, tuned loader, usual compile mode ({listing(list(modes))}), same run.",
        f"Grey: differences within the margin of {table.margin:.1%}, which do not count.",
        left_out="without a successful launch, a base or an equal fingerprint",
    )


@kind(5)
def step_times(table: Table) -> Chart:
    """Box plot of the scatter of step times around the median of each cell.

    In percent of the cell's median, which is written beside it: in milliseconds the batch sizes would set the scale
    and hide the scatter. A stalled window does not set the scale either: outliers are named beside their row.
    """
    rows = charts.stack_rows(table)
    ms = {y: median(step_times_ms(row.ok)) for y, row in rows.places.items() if row.ok}
    scaled = {
        y: [[100 * time / middle for time in step_times_ms([record])] for record in rows.places[y].ok]
        for y, middle in ms.items()
    }
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
        for aside, times in zip(charts.spread_around(len(launches), 0.24), launches, strict=True)
        for time in times
        if time <= high + room
    ]
    traces = [
        Traces("rules", [100.0]),
        *charts.bars(rows, spreads, "% of the median: third quartile", {y: first for y, (first, *_) in boxes.items()}),
        charts.points([(100.0, y, "") for y in boxes], MIDDLE),
        charts.points(dots, DOT | {"markersize": 2.4, "markeredgewidth": 0.5}),
    ]
    beside = {y: f"{figure(ms[y])} ms{f', up to {most:,.0f} %' * (most > edge)}" for y, (*_, most) in spreads.items()}
    axis = Axis("step time in % of the cell's median (less scatter is better)", low - room, high + room)
    return charts.rows_chart(
        table,
        Panel(traces, axis, rows=rows, beside=beside),
        "Scatter of step times",
        "Dot: mean of one timed window; each launch has its own line of dots. Box: quartiles. Whisker: lowest to "
        "highest. On the right: the median.",
    )


@kind(11)
def latencies(table: Table) -> Chart | None:
    """Median, 95th and 99th percentile and worst latency of requests, by cell."""
    servings = table.findings.servings.items()
    served = {key: each.figures for key, each in servings if "latency_ms_median" in each.figures}
    shown = [row for row in table.group.rows if row.key in served]
    if not shown:
        return None
    rows = charts.stack_rows(table, shown)
    known = {
        y: {name: each.value for name in PERCENTILES if (each := served[row.key].get(name)) and each.value}
        for y, row in rows.places.items()
    }
    traces: list[Traces] = []
    for name, (called, look) in PERCENTILES.items():
        for y, row in rows.places.items():
            if at := known[y].get(name):
                text = f"{clean(row.cell.id)}: {called} {figure(at)} ms"
                first = called not in {each.name for each in traces}
                traces.append(charts.points([(at, y, text)], look, called * first, row.cell.framework))
    for y, row in rows.places.items():
        ends, look = (min(known[y].values()), max(known[y].values())), {"marker": "", "linewidth": 2.4, "zorder": 2}
        traces.append(Traces("lines", ends, (y, y), group=row.cell.framework, look=look))
    axis = Axis("milliseconds for a request of one sample, logarithmic (lower is better)", low=None, log=True)
    beside = {y: f"{' · '.join(map(figure, list(each.values())[:3]))} ms" for y, each in known.items()}
    return charts.rows_chart(
        table,
        Panel(traces, axis, rows=rows, beside=beside, key="above"),
        "Latency of inference",
        "Each mark is the median over launches of a launch's own percentile. On the right: median, 95th and 99th "
        "percentile.",
        left_out="without inference",
    )

"""Throughput of each cell, and its ratio to the usual settings of its framework."""

from __future__ import annotations

from statistics import median

from suite.analysis.rows.wording import figure, listing
from suite.report.format.names import framework
from suite.report.format.text import spread
from suite.report.plots import charts
from suite.report.plots.kinds import kind
from suite.report.plots.style.look import GRID, INK
from suite.report.plots.traces import Axis, Chart, Panel, Rows, Traces
from suite.report.tables.curves import speed_ups
from suite.report.tables.frame import Table

#: What marks a bar as the fastest.
FASTEST = "the significantly fastest of one precision and batch size; if several tie, all."


@kind("throughput", "Bar chart of training throughput by cell, in samples per second; higher is better", place=1)
def throughput(table: Table) -> Chart:
    """Bars: median over launches; interval: lowest to highest launch; dots: the launches."""
    panel = rates_panel(table, charts.stack_rows(table))
    crossed = any(row.set_aside for row in table.group.rows)
    star = f"Star, bold: {FASTEST}" * bool(panel.bold)
    caption = [
        "Bar: median over launches. Whisker: lowest to highest. Dot: one launch.",
        star,
        charts.CROSSED * crossed,
    ]
    return charts.rows_chart(table, panel, "Training throughput", caption)


def rates_panel(table: Table, rows: Rows) -> Panel:
    """Returns bars of throughput, with the median beside them; the fastest are bold."""
    best = table.leaders.get("samples_per_s", frozenset())
    readings = {y: charts.rates_of(row) for y, row in rows.places.items() if row.ok}
    bold = frozenset(y for y in readings if rows.places[y].key in best)
    beside = {y: f"{figure(median(rate for rate, _ in each))}{'*' * (y in bold)}" for y, each in readings.items()}
    traces = [*charts.rate_bars(rows, readings), charts.crosses(rows)]
    return Panel(traces, Axis("samples per second (higher is better)"), rows=rows, beside=beside, bold=bold)


@kind("speed-up", "Bar chart of each cell's throughput relative to its framework's base cell", place=2)
def speed_up(table: Table) -> Chart | None:
    """Bars from 1 along a logarithmic axis, so that half as fast is as long as twice as fast."""
    by_row = {each.row.key: each for each in speed_ups(table)}
    if not by_row:
        return None
    rows = charts.stack_rows(table, [row for row in table.group.rows if row.key in by_row])
    ratios = {y: by_row[row.key] for y, row in rows.places.items() if by_row[row.key].blocks}
    spreads = {y: (each.value, each.low, each.high) for y, each in ratios.items()}
    low = min(0.9, *(each.low for each in ratios.values())) / 1.06
    high = max(1 / 0.9, *(each.high for each in ratios.values())) * 1.06
    traces = [
        Traces("rules", low=[1 / (1 + table.margin)], high=[1 + table.margin], look={"color": GRID}),
        Traces("rules", [1.0], look={"color": INK, "zorder": 3}),
        *charts.bars(rows, spreads, "times its base", dict.fromkeys(spreads, 1.0)),
    ]
    bases = [each.row.cell for each in by_row.values() if not each.blocks]
    modes = dict.fromkeys(f"{framework(cell.framework)} {cell.compile}" for cell in bases)
    sizes = listing([str(size) for size in sorted({cell.batch for cell in bases})])
    interval = charts.describe_interval(each.blocks for each in ratios.values())
    words = "throughput relative to the framework's base (logarithmic; higher is better)"
    beside = {y: spread(*spreads[y]) if y in spreads else "base" for y in rows.places}
    return charts.rows_chart(
        table,
        Panel(traces, Axis(words, low, high, log=True), rows=rows, beside=beside),
        "Speed-up",
        [
            f"Bar: ratio within blocks, {interval}.",
            f"Base: fp32, batch {sizes}, tuned loader, usual compile mode ({listing(list(modes))}), same run.",
            f"Grey: differences within the margin of {table.margin:.1%}, which do not count.",
        ],
        left_out="without a successful launch, a base or an equal fingerprint",
    )

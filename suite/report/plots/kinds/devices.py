"""Lines over the number of devices: throughput, efficiency and communication; seconds to an accuracy, and accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from suite.analysis.rows.groups import Row
from suite.analysis.statistics.accuracy import AccuracyComparison, target_of, training_histories
from suite.analysis.statistics.scaling import STRONG, WEAK, Point, Scaling, seconds_to
from suite.plan.cell import Cell
from suite.report.format.names import FRAMEWORKS, strategy, target_words
from suite.report.plots import charts, naming
from suite.report.plots.charts import RATE, Line, Spread
from suite.report.plots.kinds import TRAINED, kind
from suite.report.plots.pens import DOTTED
from suite.report.plots.traces import PALE, Axis, Chart, Panel, Traces
from suite.report.tables.frame import Table
from suite.report.tables.scaling import KEPT, explain, on_threads

IDEAL = "ideal: every device\nas fast as one"
DEVICES = Axis("devices", log=True)

#: Settings that a line varies or names itself.
DRAWN_SETTINGS, LEARNED_SETTINGS = ("devices", "strategy", "batch"), ("devices", "strategy", "run")


@kind(11)
def weak_scaling(table: Table) -> Chart | None:
    """Throughput, efficiency and communication by number of devices, the same batch on each."""
    return _scaling(table, WEAK)


@kind(12)
def strong_scaling(table: Table) -> Chart | None:
    """Throughput, efficiency and communication by number of devices, the same global batch."""
    return _scaling(table, STRONG)


def _scaling(table: Table, of: str) -> Chart | None:
    known = {row.key for row in table.group.rows}
    sets = [each for each in table.scalings if each.kind == of and known.issuperset(row.key for row in each.rows)]
    drawn = [each for each in sets if any(point.speed_up.value for point in each.points[1:])]
    if not drawn:
        return None
    group = naming.among(table, [row for row in table.group.rows if any(row in each.rows for each in drawn)])
    names = [name for name in naming.varying(group) if name not in DRAWN_SETTINGS]
    several = len({_batch(each) for each in drawn}) > 1
    lines = [Line(_name(each, several, names), each.framework, _spreads(each)) for each in drawn]
    panels = [
        Panel([], y=RATE, height=2.4),
        Panel([], y=Axis("efficiency in %\n(higher is better)"), height=1.7),
        Panel([], y=Axis("communication\nin % (lower is better)"), height=1.4),
    ][: 2 + any(line.panels[2] for line in lines)]
    rates, *others = charts.sweep(lines, DEVICES, panels, ["samples/s", "% efficiency", "% of a step"][: len(panels)])
    rates = replace(rates, traces=[*rates.traces, *_ideals(rates)])
    others[0] = replace(others[0], traces=[*others[0].traces, Traces("rules", y=[100.0], look=DOTTED)])
    interval = charts.describe_interval(p.efficiency for each in drawn for p in each.points[1:])
    title = f"{naming.title_of(group, f'{of.capitalize()} scaling', by=False)}: {KEPT[of]}"
    marks = f"Throughput: median over launches; whisker: lowest to highest. Efficiency: {interval}."
    return charts.chart(
        group, title, [[panel] for panel in (rates, *others)], marks, explain(of, drawn), *on_threads(drawn)
    )


def _ideals(rates: Panel) -> list[Traces]:
    """Returns a line through each base along which every device is as fast as one, and its entry in the key."""
    end = rates.x.high or 1.0
    along = {(line.x[0], line.y[0]): line.group for line in rates.traces}
    lines = [Traces("lines", (x, end), (y, y * end / x), group=who, look=DOTTED) for (x, y), who in along.items()]
    return [*lines, Traces("lines", name=IDEAL, look=DOTTED | {"color": PALE})]


def _name(each: Scaling, several: bool, settings: Sequence[str]) -> str:
    words = [strategy(each.strategy), _batch(each) * several, naming.values_of(each.points[-1].row, settings)]
    return f"{FRAMEWORKS[each.framework]}\n{' · '.join(filter(None, words))}"


def _batch(scaling: Scaling) -> str:
    cell = scaling.points[-1].row.cell
    return f"batch {cell.batch * cell.accumulate}" if scaling.kind == WEAK else f"global batch {cell.effective_batch}"


def _spreads(scaling: Scaling) -> list[Mapping[float, Spread]]:
    points = {float(point.devices): point for point in scaling.points if point.speed_up.value}
    rates = {at: charts.spread_of(rate for rate, _ in charts.rates_of(each.row)) for at, each in points.items()}
    kept = {at: each.efficiency for at, each in points.items()}
    efficiency = {at: (100 * (r.value or 0), 100 * (r.low or 0), 100 * (r.high or 0)) for at, r in kept.items()}
    return [rates, efficiency, {at: cost for at, each in points.items() if (cost := _cost(each))}]


def _cost(point: Point) -> Spread | None:
    cost = point.communication
    if not cost or cost.value is None:
        return None
    low, high = (100 * (cost.value if end is None else max(0.0, end)) for end in (cost.low, cost.high))
    return 100 * cost.value, low, high


@kind(23, TRAINED)
def accuracy_devices(table: AccuracyComparison) -> Chart | None:
    """Seconds to the target accuracy, and the last accuracy, by number of devices."""
    sets = lines_of(table)
    if not sets:
        return None
    target = target_of(table.group)
    aim = target_words(target or 0)
    settings = [name for name in table.group.varying if name not in LEARNED_SETTINGS]
    lines = []
    for cell, rows in sets:
        words = " · ".join(filter(None, [strategy(cell.strategy), naming.values_of(rows[-1], settings)]))
        timed = {float(row.cell.devices): list(seconds_to(row, target).values()) for row in rows}
        reached = {devices: charts.spread_of(seconds) for devices, seconds in timed.items() if seconds}
        finals = {float(row.cell.devices): [each.final_accuracy for each in training_histories(row)] for row in rows}
        ends = {devices: charts.spread_of(each) for devices, each in finals.items()}
        lines.append(Line(f"{FRAMEWORKS[cell.framework]}\n{words}", cell.framework, [reached, ends]))
    panels = [
        Panel([], y=Axis(f"seconds to {aim}\n(lower is better)"), height=2.4),
        Panel([], y=Axis("test accuracy\n(higher is better)", low=None), height=1.7),
    ]
    return charts.chart(
        table.group,
        naming.title_of(table.group, "Time to accuracy", [*LEARNED_SETTINGS, *settings]),
        [[panel] for panel in charts.sweep(lines, DEVICES, panels, ["s", "test accuracy"])],
        "Median over seeds; whisker: lowest to highest. Seconds of training, without evaluation, where all seeds "
        f"reached {aim}. Recipe: {table.group.rows[0].cell.recipe}. The batch of each device stays the same, so more "
        "devices see a larger global batch.",
        per="line",
    )


def lines_of(table: AccuracyComparison) -> list[tuple[Cell, list[Row]]]:
    """Returns the rows that differ in devices alone, with the same batch on each, the fewest devices first.

    One device stands in the lines of all strategies of its framework. Each line comes with a cell of several devices.
    """
    rows = [row for row in table.group.rows if training_histories(row)]
    alone = {(row.run, row.cell): row for row in rows if row.cell.devices == 1}
    sets: dict[tuple[str, Cell, str], list[Row]] = {}
    for row in rows:
        if row.cell.devices > 1:
            key = row.run, row.cell.but(devices=1, strategy=""), row.cell.strategy
            sets.setdefault(key, [alone[key[:2]]] if key[:2] in alone else []).append(row)
    ordered = [sorted(members, key=lambda row: row.cell.devices) for members in sets.values() if len(members) > 1]
    return [(members[-1].cell, members) for members in ordered]

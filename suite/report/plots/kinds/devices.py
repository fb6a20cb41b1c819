"""Plots by number of devices: throughput, efficiency and communication; seconds to an accuracy, and the accuracy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from suite.analysis.accuracy.comparison import AccuracyComparison, target_of, training_histories
from suite.analysis.rows.groups import Row, RowKey
from suite.analysis.scaling.efficiency import STRONG, WEAK, Point, Scaling
from suite.analysis.scaling.time_to_accuracy import seconds_to
from suite.analysis.statistics.inference import LEAST
from suite.plan.cell import STRATEGIES_OF, Cell
from suite.plan.settings.strategies import has_local_statistics
from suite.report.format.names import FRAMEWORKS, count, strategy, target_words
from suite.report.plots.kinds import TRAINED, kind
from suite.report.plots.kinds.lines import DASHES, DOTTED, FEW, Look, Spread, by_twos, draw_marks
from suite.report.plots.style.canvas import keyed_sheet
from suite.report.plots.style.look import FACE, LINE_LEAST, PALE, add_frame, apart, from_zero, plain_numbers
from suite.report.plots.style.naming import among, title_of, values_of, varying, workload_name
from suite.report.tables.frame import Table

KEPT = {WEAK: "the same batch on each device", STRONG: "the same global batch"}
NOTE = {
    WEAK: "More devices see a larger global batch, which is another training: compare the work, not its course.",
    STRONG: "Each device has a part of the same global batch: the same training, with less work for each device.",
}
APART = "Each device has a part of the same global batch, and batch statistics of its own, which is another training."
#: How marks are filled, in the order of a framework's lines: whether hollow, and which half alone.
FILLINGS = ((False, ""), (True, ""), (False, "left"), (False, "bottom"), (False, "right"), (False, "top"))

#: Settings that a line varies or names itself.
OWN, LEARNED_OWN = ("devices", "strategy", "batch"), ("devices", "strategy", "run")

#: The height of each panel in inches.
HEIGHTS = (2.4, 1.7, 1.4)
#: Factor from the fewest and the most devices to the ends of the axis, and how far marks of one place stand apart.
MARGIN, DODGE, DODGE_MOST = 1.3, 0.022, 0.12
LEARNED_DODGE = 0.05


@kind("weak-scaling", "Throughput, efficiency and communication by number of devices, the same batch on each", place=11)
def weak(table: Table) -> Figure | None:
    """Throughput, efficiency and communication share where each device has the same batch."""
    return _draw(table, WEAK)


@kind(
    "strong-scaling", "Throughput, efficiency and communication by number of devices, the same global batch", place=12
)
def strong(table: Table) -> Figure | None:
    """The same where the global batch is the same."""
    return _draw(table, STRONG)


def _draw(table: Table, scaling_kind: str) -> Figure | None:
    known = {row.key for row in table.group.rows}
    scalings = [
        each
        for each in table.scalings
        if each.kind == scaling_kind
        and all(row.key in known for row in each.rows)
        and any(point.speed_up.value for point in each.points[1:])
    ]
    if not scalings:
        return None
    looks = _looks(table, scalings)
    exchanged = any(point.communication for each in scalings for point in each.points)
    plot, panels = _canvas(table, scalings, looks, HEIGHTS if exchanged else HEIGHTS[:2])
    counts = sorted({point.devices for each in scalings for point in each.points})
    reach = min(DODGE * (len(scalings) - 1), DODGE_MOST) * len(counts)
    add_frame(panels[0], "samples per second\n(higher is better)")
    add_frame(panels[1], "efficiency\n(higher is better)")
    panels[1].axhline(100, color=PALE, **DOTTED)
    if exchanged:
        add_frame(panels[2], "communication\n(lower is better)")
    ideals: set[RowKey] = set()
    for scaling, look, power in zip(scalings, looks, apart(len(scalings), reach / 2), strict=True):
        points = [point for point in scaling.points if point.speed_up.value]
        places = [point.devices * 2**power for point in points]
        rates = [_rates(point) for point in points]
        if scaling.base.row.key not in ideals:
            ideals.add(scaling.base.row.key)
            along = np.geomspace(scaling.base.devices, counts[-1], 50)
            ideal = rates[0][0] * along / scaling.base.devices
            panels[0].plot(along * 2**power, ideal, color=FACE[look.framework], zorder=1, **DOTTED)
        draw_marks(panels[0], places, rates, look, "samples/s")
        draw_marks(panels[1], places, [_efficiency(point) for point in points], look, "% efficiency")
        if exchanged:
            costs = [(place, _cost(point)) for place, point in zip(places, points, strict=True) if point.communication]
            draw_marks(panels[2], [place for place, _ in costs], [cost for _, cost in costs], look, "% of a step")
    for axes in panels:
        from_zero(axes)
    by_twos(panels, counts, (counts[0] / MARGIN, counts[-1] * MARGIN), "devices")
    for axes in panels[1:]:
        axes.yaxis.set_major_formatter(plain_numbers(" %"))
    return plot


def _canvas(
    table: Table, scalings: Sequence[Scaling], looks: Sequence[Look], heights: Sequence[float]
) -> tuple[Figure, list[Any]]:
    """Returns a figure with a legend on the right, and its axes."""
    scaling_kind = scalings[0].kind
    group = among(table, [row for row in table.group.rows if any(row in each.rows for each in scalings)])
    another = scaling_kind == STRONG and any(has_local_statistics(row.cell) for each in scalings for row in each.rows)
    ideal = Line2D([], [], color=PALE, label="ideal: every device\nas fast as one", **DOTTED)
    few = any(len(each.points) < LINE_LEAST for each in scalings)
    return keyed_sheet(
        group,
        f"{scaling_kind.capitalize()} scaling of {workload_name(group)}: {KEPT[scaling_kind]}",
        f"Throughput: median over launches; whisker: lowest to highest. {_interval(scalings)}",
        heights,
        [*(look.handle() for look in looks), ideal],
        notes=[APART if another else NOTE[scaling_kind], *_threads(scalings), FEW if few else ""],
    )


def _looks(table: Table, scalings: Sequence[Scaling]) -> list[Look]:
    """Returns a look per line: the framework's colour and marker, a dash and a filling for each line of a framework.

    If a framework has more lines than there are fillings, each of its strategies has its own.
    """
    counts: Counter[str] = Counter()
    lines = Counter(each.framework for each in scalings)
    looks = []
    rows = [row for each in scalings for row in each.rows]
    settings = [name for name in varying(among(table, rows)) if name not in OWN]
    batches = {_batch(each) for each in scalings}
    for each in scalings:
        index = counts[each.framework]
        counts[each.framework] += 1
        words = [strategy(each.strategy), *([_batch(each)] if len(batches) > 1 else [])]
        words += [values_of(each.points[-1].row, settings)] if settings else []
        own = STRATEGIES_OF[each.framework].index(each.strategy)
        filling = index if lines[each.framework] <= len(FILLINGS) else own
        looks.append(_look(each.framework, words, index, filling, len(each.points)))
    return looks


def _look(framework: str, words: Sequence[str], dashes: int, filling: int, points: int) -> Look:
    hollow, half = FILLINGS[filling % len(FILLINGS)]
    name = f"{FRAMEWORKS[framework]}\n{' · '.join(filter(None, words))}"
    return Look(name, framework, DASHES[dashes % len(DASHES)], hollow, points, half)


def _batch(scaling: Scaling) -> str:
    """Returns the batch that stays the same."""
    cell = scaling.points[-1].row.cell
    batch = cell.batch * cell.accumulate
    return f"batch {batch}" if scaling.kind == WEAK else f"global batch {cell.effective_batch}"


def _rates(point: Point) -> Spread:
    return _spread([rate for record in point.row.ok if (rate := record.samples_per_s)])


def _efficiency(point: Point) -> Spread:
    ratio = point.efficiency
    return 100 * (ratio.value or 0.0), 100 * (ratio.low or 0.0), 100 * (ratio.high or 0.0)


def _cost(point: Point) -> Spread:
    assert point.communication
    share = 100 * point.communication.share
    low, high = (point.communication.low, point.communication.high)
    return share, share if low is None else max(0.0, 100 * low), share if high is None else 100 * max(0.0, high)


def _interval(scalings: Iterable[Scaling]) -> str:
    """Describes the marks of efficiency, which depend on the number of blocks."""
    tested = {
        point.efficiency.blocks >= LEAST for each in scalings for point in each.points[1:] if point.efficiency.value
    }
    many = "Efficiency: geometric mean over blocks; whisker: corrected interval."
    few = f"With fewer than {LEAST} blocks: median; whisker: lowest to highest."
    return f"{many} {few}" if tested == {True, False} else many if tested == {True} else f"Efficiency: {few}"


def _threads(scalings: Iterable[Scaling]) -> list[str]:
    """Says how many threads each device has, where it is a share of one processor."""
    threads: dict[int, dict[str, None]] = {}
    for point in (point for each in scalings for point in each.points if point.threads):
        threads.setdefault(point.devices, {})[point.threads] = None
    if not threads:
        return []
    parts = (f"{' or '.join(each)} with {count(devices, 'device')}" for devices, each in sorted(threads.items()))
    return [f"Devices of a CPU share its cores (threads of each: {', '.join(parts)})."]


@kind(
    "accuracy-devices", "Seconds to the target accuracy, and the last accuracy, by number of devices",
    place=23, of=TRAINED,
)  # fmt: skip
def to_accuracy(table: AccuracyComparison) -> Figure | None:
    """Seconds to the target above, the last test accuracy below, against devices; none without several of them."""
    sets = lines(table)
    if not sets:
        return None
    target = target_of(table.group)
    aim = target_words(target or 0)
    settings = [name for name in table.group.varying if name not in LEARNED_OWN]
    looks = []
    for cell, rows in sets:
        own = STRATEGIES_OF[cell.framework].index(cell.strategy)
        words = [strategy(cell.strategy), *([values_of(rows[-1], settings)] if settings else [])]
        looks.append(_look(cell.framework, words, own, own, len(rows)))
    recipe = table.group.rows[0].cell.recipe
    plot, panels = keyed_sheet(
        table.group,
        title_of(table.group, "Time to accuracy", without=[*LEARNED_OWN, *settings]),
        "Median over seeds; whisker: lowest to highest. Seconds of training, without evaluation, where all seeds "
        f"reached {aim}.",
        HEIGHTS[:2],
        [look.handle() for look in looks],
        per="line",
        notes=[
            f"Recipe: {recipe}. The batch of each device stays the same, so more devices see a larger global batch."
        ],
    )
    add_frame(panels[0], f"seconds to {aim}\n(lower is better)")
    add_frame(panels[1], "test accuracy\n(higher is better)")
    for (_, rows), look, power in zip(sets, looks, apart(len(sets), LEARNED_DODGE * (len(sets) - 1)), strict=True):
        timed = [(row, list(seconds_to(row, target).values())) for row in rows]
        reached = [(row.cell.devices * 2**power, _spread(seconds)) for row, seconds in timed if seconds]
        draw_marks(panels[0], [place for place, _ in reached], [value for _, value in reached], look, "s")
        ends = [_spread([course.final_accuracy for course in training_histories(row)]) for row in rows]
        draw_marks(panels[1], [row.cell.devices * 2**power for row in rows], ends, look, "test accuracy")
    from_zero(panels[0])
    counts = sorted({row.cell.devices for _, rows in sets for row in rows})
    by_twos(panels, counts, (counts[0] / MARGIN, counts[-1] * MARGIN), "devices")
    return plot


def lines(table: AccuracyComparison) -> list[tuple[Cell, list[Row]]]:
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
    return [
        (members[-1].cell, sorted(members, key=lambda row: row.cell.devices))
        for members in sets.values()
        if len(members) > 1
    ]


def _spread(values: Sequence[float]) -> Spread:
    return median(values), min(values), max(values)

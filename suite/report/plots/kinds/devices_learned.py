"""Plot of training to the end on several devices: seconds to the target accuracy, and the accuracy at the end."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from matplotlib.figure import Figure

from suite.analysis.accuracy.comparison import Learned, courses, target_of
from suite.analysis.rows.groups import Row
from suite.analysis.scaling.course_gains import seconds_to
from suite.plan.cell import STRATEGIES_OF, Cell
from suite.report.format.names import FRAMEWORKS, strategy
from suite.report.plots.kinds import TRAINED, kind
from suite.report.plots.kinds.devices import FILLINGS
from suite.report.plots.kinds.devices import MARGIN as ENDS
from suite.report.plots.kinds.lines import DASHES, Look, Spread, by_twos, marked
from suite.report.plots.style.canvas import keyed_sheet
from suite.report.plots.style.look import apart, framed, from_zero
from suite.report.plots.style.naming import title_of, values_of

#: The height of each panel in inches.
HEIGHTS = (2.4, 1.7)
#: How far the marks of one number of devices stand apart, as a power of two.
DODGE = 0.05

#: Settings that a line varies or names itself.
OWN = ("devices", "strategy", "run")


@kind(
    "accuracy-devices", "Seconds to the target accuracy, and the last accuracy, by number of devices",
    place=23, of=TRAINED,
)  # fmt: skip
def to_accuracy(table: Learned) -> Figure | None:
    """Seconds to the target above, the last test accuracy below, against devices; none without several of them."""
    sets = lines(table)
    if not sets:
        return None
    target = target_of(table.group)
    settings = [name for name in table.group.varying if name not in OWN]
    looks = [_look(cell, rows, settings) for cell, rows in sets]
    recipe = table.group.rows[0].cell.recipe
    plot, panels = keyed_sheet(
        table.group,
        title_of(table.group, "Time to accuracy", without=[*OWN, *settings]),
        "Median over seeds; whisker: lowest to highest. Seconds of training, without evaluation, where all seeds "
        f"reached {target:g}.",
        HEIGHTS,
        [look.handle() for look in looks],
        per="line",
        notes=[
            f"Recipe: {recipe}. The batch of each device stays the same, so more devices see a larger global batch."
        ],
    )
    framed(panels[0], f"seconds to {target:g}\n(lower is better)")
    framed(panels[1], "test accuracy\n(higher is better)")
    for (_, rows), look, power in zip(sets, looks, apart(len(sets), DODGE * (len(sets) - 1)), strict=True):
        timed = [(row, list(seconds_to(row, target).values())) for row in rows]
        reached = [(row.cell.devices * 2**power, _spread(seconds)) for row, seconds in timed if seconds]
        marked(panels[0], [place for place, _ in reached], [value for _, value in reached], look, "s")
        ends = [_spread([course.final_accuracy for course in courses(row)]) for row in rows]
        marked(panels[1], [row.cell.devices * 2**power for row in rows], ends, look, "test accuracy")
    from_zero(panels[0])
    counts = sorted({row.cell.devices for _, rows in sets for row in rows})
    by_twos(panels, counts, (counts[0] / ENDS, counts[-1] * ENDS), "devices")
    return plot


def lines(table: Learned) -> list[tuple[Cell, list[Row]]]:
    """Returns the rows that differ in devices alone, with the same batch on each, the fewest devices first.

    One device stands in the lines of all strategies of its framework. Each line comes with a cell of several devices.
    """
    rows = [row for row in table.group.rows if courses(row)]
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


def _look(cell: Cell, rows: Sequence[Row], settings: Sequence[str]) -> Look:
    own = STRATEGIES_OF[cell.framework].index(cell.strategy)
    hollow, half = FILLINGS[own % len(FILLINGS)]
    words = [strategy(cell.strategy), *([values_of(rows[-1], settings)] if settings else [])]
    name = f"{FRAMEWORKS[cell.framework]}\n{' · '.join(filter(None, words))}"
    return Look(name, cell.framework, DASHES[own % len(DASHES)], hollow, len(rows), half)


def _spread(values: Sequence[float]) -> Spread:
    return median(values), min(values), max(values)

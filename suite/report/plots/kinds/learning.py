"""Lines of learning: accuracy against epoch and against time, and the loss over the first epoch.

Lines that lie on each other can be told apart: their marks stand side by side or take turns. Each seed is a thin line,
so that one bad seed is one line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from suite.analysis.rows.wording import listing
from suite.analysis.statistics.accuracy import AccuracyComparison, target_of, training_histories
from suite.record.parts.history import TrainingHistory
from suite.report.plots import charts, naming
from suite.report.plots.kinds import TRAINED, kind
from suite.report.plots.pens import FACE, HOLLOW, LINE_LEAST
from suite.report.plots.traces import Axis, Chart, Panel, Traces
from workloads.spec import is_loss

MARKED = 8  # marks along a line of many points
POINTS = 120  # of a loss, at most
WITHOUT_DROPOUT = "no-dropout"  # the recipe under which frameworks compute the same losses
DASH = 5.0  # the length of a dash in line widths, where the lines' dashes take turns
TURNS = "Markers and dashes take turns, so that lines that lie on each other can be told apart."
ASIDE = "Lines are shifted sideways a little, so that none covers another."


@dataclass(frozen=True)
class Curve:
    """A cell's line: the value of each seed at each ``x``."""

    label: str
    framework: str
    precision: str
    x: Sequence[float]
    seeds: Sequence[Sequence[float]]

    @property
    def middle(self) -> list[float]:
        """The median over seeds."""
        return [median(values) for values in zip(*self.seeds, strict=False)]


def accuracies(table: AccuracyComparison, seconds: bool = False) -> list[Curve]:
    """Returns test accuracy by epoch, or by seconds of training, for every cell that has one."""
    curves = []
    for label, cell, courses in _trained(table):
        seeds = [[epoch.test_accuracy for epoch in course.epochs] for course in courses]
        times = [median(each) for each in zip(*(course.train_s for course in courses), strict=False)]
        curves.append(Curve(label, *cell, times if seconds else range(1, len(seeds[0]) + 1), seeds))
    return curves


def losses(table: AccuracyComparison) -> list[Curve]:
    """Returns the loss over the steps of the first epoch, averaged over neighbouring steps, for every cell with one."""
    curves = []
    for label, cell, courses in _trained(table):
        if recorded := [course.curve for course in courses if course.curve]:
            wide = max(1, len(recorded[0]) // POINTS)
            begins = range(0, len(recorded[0]) // wide * wide, wide)
            seeds = [[fmean(curve[at : at + wide]) for at in begins if curve[at : at + wide]] for curve in recorded]
            curves.append(Curve(label, *cell, [at + (wide + 1) / 2 for at in begins], seeds))
    return curves


def _trained(table: AccuracyComparison) -> Iterator[tuple[str, tuple[str, str], Sequence[TrainingHistory]]]:
    settings = [name for name in naming.varying(table.group) if name != "run"]
    for row in table.group.rows:
        if courses := training_histories(row):
            yield naming.name_of(row, settings), (row.cell.framework, row.cell.precision), courses


@kind(21, TRAINED)
def accuracy_epochs(table: AccuracyComparison) -> Chart | None:
    """Test accuracy by epoch, a line for each framework and seed."""
    curves = accuracies(table)
    last = max((len(curve.x) for curve in curves), default=0)
    if last < 2:
        return None
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, last) if last <= 8 * step)
    x = Axis("epoch", 1 - 0.08 * last, 1.08 * last, ticks=range(step, last + 1, step))
    asides = charts.dodge(len(curves), last)
    traces = [each for curve, aside in zip(curves, asides, strict=True) for each in _traces(curve, aside)]
    return _chart(table, "Test accuracy", curves, _accuracy(table, traces, x), offset=ASIDE)


@kind(22, TRAINED)
def accuracy_time(table: AccuracyComparison) -> Chart | None:
    """Test accuracy by seconds of training, a line for each framework and seed."""
    curves = accuracies(table, seconds=True)
    if not curves:
        return None
    x = Axis("seconds of training (median over seeds; evaluation not counted; less is better)")
    traces = [each for curve in curves for each in _traces(curve)]
    return _chart(table, "Test accuracy over training time", curves, _accuracy(table, traces, x))


def _accuracy(table: AccuracyComparison, traces: Sequence[Traces], x: Axis) -> Panel:
    target = target_of(table.group)
    aims = [target] if target and not is_loss(target) else []
    rules = [Traces("rules", y=[aim], name=f"target {aim:g}", look={"linestyle": (0, (6, 3))}) for aim in aims]
    return Panel([*traces, *rules], x, Axis("test accuracy (higher is better)", low=None), height=3.4)


@kind(24, TRAINED)
def first_epoch_loss(table: AccuracyComparison) -> Chart | None:
    """Training loss over the first epoch, a line for each framework."""
    curves = losses(table)
    if not curves:
        return None
    count = len(curves)
    gap = max(1, len(curves[0].x) // (MARKED * count))
    traces = []
    for place, curve in enumerate(curves):
        traces += _traces(curve, every=(gap * place, gap * count))
        if count > 1 and len(curve.seeds) == 1:
            dashes = -DASH * place, (DASH, DASH * (count - 1))
            look = {"linewidth": 2.2, "linestyle": dashes, "marker": "", "zorder": 2.9}
            traces.append(Traces("lines", curve.x, curve.middle, group=curve.framework, look=look))
    panel = Panel(traces, Axis("training step"), Axis("training loss (lower is better)", low=None), height=3.4)
    return _chart(
        table, "Training loss over the first epoch", curves, panel, offset=TURNS, note=agreement_note([table])
    )


def _traces(curve: Curve, aside: float = 0.0, every: tuple[int, int] | None = None) -> list[Traces]:
    """Returns each seed as a thin line, and the median with marks, all or ``every`` so many from a first one."""
    x, count, who = [at + aside for at in curve.x], len(curve.seeds), curve.framework
    thin = {"linewidth": 0.7, "marker": "" if len(x) >= LINE_LEAST else ".", "markersize": 4}
    thin |= {"markeredgecolor": FACE[who], "alpha": 0.45, "zorder": 2}
    about = [
        f"{curve.label}, seed {at} of {count}, in the end {seed[-1]:.4f}" for at, seed in enumerate(curve.seeds, 1)
    ]
    seeds = zip(curve.seeds if count > 1 else (), about, strict=False)
    traces = [Traces("lines", x, seed, text=[text], group=who, look=thin) for seed, text in seeds]
    low = {} if curve.precision == "fp32" else HOLLOW | {"linestyle": "--"}
    look = {"linewidth": 0.8 if every else 1.5, "markeredgewidth": 0.6, "markevery": every, **low}
    words = "step" if every else "epoch"
    places = curve.x if every else range(1, len(x) + 1)
    text = [f"{curve.label}, {words} {at:.0f}: {value:.4f}" for at, value in zip(places, curve.middle, strict=True)]
    first, step = every or (0, 1)
    return [*traces, Traces("lines", x, curve.middle, (), (), text[first::step], who, curve.label, look=look)]


def _chart(
    table: AccuracyComparison, subject: str, curves: Sequence[Curve], panel: Panel, *, offset: str = "", note: str = ""
) -> Chart:
    several = max(len(curve.seeds) for curve in curves) > 1
    drawn = "Thick line: median over seeds. Thin line: one seed." if several else "One seed per line."
    if max(len(curve.x) for curve in curves) < LINE_LEAST:
        drawn = "Large mark: median over seeds. Dot: one seed." if several else "One seed per mark."
    recipe = f"Recipe: {table.group.rows[0].cell.recipe}. Frameworks share each seed's weights and order of samples."
    title = naming.title_of(table.group, subject)
    return charts.chart(table.group, title, [[panel]], drawn, offset * (len(curves) > 1), note, recipe, per="line")


def agreement(table: AccuracyComparison) -> float | None:
    """Returns the largest difference between two frameworks' losses of one step, relative to the lower one.

    Compared are cells of one precision that share a seed. None with dropout, whose draws differ between frameworks.
    """
    by_seed: dict[tuple[str, str, object], dict[str, Sequence[float]]] = {}
    for row in table.group.rows:
        for record in row.ok if row.cell.recipe == WITHOUT_DROPOUT else []:
            if record.course and record.course.curve:
                key = row.run, row.cell.precision, record.run.get("seed", record.launch)
                by_seed.setdefault(key, {})[row.cell.framework] = record.course.curve
    steps = (step for each in by_seed.values() if len(each) > 1 for step in zip(*each.values(), strict=False))
    return max(((max(step) - min(step)) / max(min(map(abs, step)), 1e-12) for step in steps), default=None)


def agreement_note(tables: Sequence[AccuracyComparison]) -> str:
    """Returns a sentence with the largest difference of each table that has one; empty if none has."""
    known = {naming.workload_name(each.group): largest for each in tables if (largest := agreement(each)) is not None}
    words = [f"{100 * value:.2g} %{f' ({name})' if len(tables) > 1 else ''}" for name, value in known.items()]
    return f"Largest difference between two frameworks' losses in any step: {listing(words)}." if words else ""

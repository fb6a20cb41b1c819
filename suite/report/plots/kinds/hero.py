"""One picture that answers a run at a glance: learning curves where there are any, and bars with their verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from suite.analysis.rows.groups import SETTINGS, Group, Row
from suite.analysis.rows.wording import figure, fill, listing
from suite.analysis.statistics.accuracy import MARGIN, AccuracyComparison, training_histories
from suite.analysis.statistics.inference import BLOCKS_LEAST
from suite.catalog.settings import OF_A_FRAMEWORK
from suite.plan.cell import FRAMEWORKS
from suite.report.format.names import SETTING_NAMES, counts, framework
from suite.report.format.text import capital
from suite.report.plots import charts, naming
from suite.report.plots.kinds import COMPARISON, kind, learning
from suite.report.plots.kinds.bars import FASTEST, rates_panel
from suite.report.plots.traces import Axis, Chart, Panel, Rows
from suite.report.tables.cells import TimedCell
from suite.report.tables.frame import Table

#: Settings that the rows of one set share; within a set only the framework's own settings differ.
SET = tuple(name for name in SETTINGS if name not in OF_A_FRAMEWORK)
#: A panel shows all rows up to this number; of more, so many sets.
ALL, SETS = 10, 2


@kind(0, COMPARISON)
def hero(tables: Sequence[Table], learned: Sequence[AccuracyComparison] = ()) -> Chart | None:
    """Overview: training throughput of the frameworks with verdicts, and learning curves if there are any.

    A row per workload: curves where cells of it trained to the end, then bars of throughput with their verdicts.
    Without curves two workloads stand side by side. A workload that was only trained to the end has bars of the time
    that it took.
    """
    timed = [each for each in tables if any(record.samples_per_s for row in each.group.rows for record in row.ok)]
    trained = [each for each in learned if any(training_histories(row) for row in each.group.rows)]
    grid: list[list[Panel]] = []
    groups = [*(each.group for each in timed), *(each.group for each in trained)]
    for name in dict.fromkeys(group.workload for group in groups):
        of_name = [each for each in trained if each.group.workload == name]
        bars = [throughputs(each) for each in timed if each.group.workload == name] or [*map(training_times, of_name)]
        grid += [[*map(_curves, of_name[at : at + 1]), each] for at, each in enumerate(bars)]
    if not grid:
        return None
    if not trained:
        grid = [[panel for (panel,) in grid[at : at + 2]] for at in range(0, len(grid), 2)]
    rows = [row for group in groups for row in group.rows]
    present = {row.cell.framework for row in rows if row.ok}
    who = listing([framework(name) for name in FRAMEWORKS if name in present])
    words = listing([*(["learning curves"] if trained else []), "training throughput" if timed else "training time"])
    machines = dict.fromkeys(row.machine for row in rows if row.machine)
    head = " · ".join([*machines, naming.dates(rows)])
    runs = list(dict.fromkeys(row.run for row in rows))
    made = Chart(f"{capital(words)} of {who}", [head], _caption(timed, trained, grid), grid)
    return charts.finish(made, f"Run{'s' if len(runs) > 1 else ''} {listing(runs)}.")


def throughputs(table: Table) -> Panel:
    """Returns bars of throughput with each row's ratio to the baseline and its verdict."""
    shared = [name for name in SET if name != table.group.by]
    sets: dict[str, list[Row]] = {}
    for row in choose_rows(table):
        sets.setdefault(naming.values_of(row, shared), []).append(row)
    rows = charts.stack_rows(table, [row for each in sets.values() for row in each], shared)
    cells = {row.key: each for row, each in zip(table.group.rows, table.cells, strict=True)}
    group = naming.among(table, rows.places.values())
    return replace(
        rates_panel(table, rows),
        beside={y: _verdict(table, row, cells[row.key]) for y, row in rows.places.items()},
        title=f"{naming.workload_name(group)}: training throughput",
        head=_head(group, (len(row.ok) for row in group.rows), "launch"),
    )


def choose_rows(table: Table) -> list[Row]:
    """Returns all rows; of many, those of the most usual set of settings and of the set that holds the fastest row.

    Of such a set, ratios between frameworks are shown for the usual compile mode of each, and for the fastest row.
    Along an axis, all of its values are shown.
    """
    rows = [row for row in table.group.rows if any(record.samples_per_s for record in row.ok)]
    if len(rows) <= ALL:
        return rows
    sets: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        sets.setdefault(tuple(SETTINGS[name](row) for name in SET if name != table.group.by), []).append(row)
    fastest = max(rows, key=lambda row: median(record.samples_per_s or 0.0 for record in row.ok))
    usual = max(sets.values(), key=lambda each: (len({row.cell.framework for row in each}), len(each)))
    kept = [each for each in sets.values() if len(sets) <= SETS or each is usual or fastest in each]
    if table.group.by == "framework":
        kept = [[row for row in each if row is fastest or row in _usual_modes(each)] for each in kept]
    return [row for each in kept for row in each]


def _usual_modes(rows: Sequence[Row]) -> list[Row]:
    """Returns a row of each framework: that of its usual compile mode and strategy, else its first."""
    usual: dict[str, Row] = {}
    for row in sorted(rows, key=lambda row: row.cell != row.cell.but(framework=row.cell.framework)):
        usual.setdefault(row.cell.framework, row)
    return list(usual.values())


def _verdict(table: Table, row: Row, cell: TimedCell) -> str:
    ratio = cell.ratio
    words = f"{ratio.value:.2f}x, {ratio.verdict or 'not tested'}" if ratio.value else "no ratio"
    if table.base.holds(row) and ratio.value == 1:
        words = "baseline"
    return f"{figure(cell.samples_per_s.median)} · {words}"


def training_times(learned: AccuracyComparison) -> Panel:
    """Returns bars of the time that all epochs took, with the final accuracy and its verdict."""
    group, frame = learned.group, learned.rows
    trained = [(row, each) for row, each in zip(group.rows, frame, strict=True) if training_histories(row)]
    settings = [name for name in naming.varying(group) if name != "run"]
    names = [naming.name_of(row, settings) for row, _ in trained]
    rows = Rows({float(y): row for y, (row, _) in enumerate(trained)}, names)
    seconds = {y: [course.train_s[-1] for course in training_histories(row)] for y, row in rows.places.items()}
    readings = {y: [(each, f"{figure(each)} s, one seed") for each in times] for y, times in seconds.items()}
    ends = {float(y): filter(None, [f"{each['accuracy']:.3f}", each["verdict"]]) for y, (_, each) in enumerate(trained)}
    epochs = max(len(course.epochs) for row, _ in trained for course in training_histories(row))
    return Panel(
        charts.rate_bars(rows, readings, "s"),
        Axis("seconds of training (lower is better)"),
        rows=rows,
        beside={y: f"{figure(median(seconds[y]))} s · {', '.join(each)}" for y, each in ends.items()},
        title=f"{naming.workload_name(group)}: time of {epochs} epoch{'s' * (epochs != 1)}, final accuracy",
        head=_head(group, map(len, seconds.values()), "seed"),
    )


def _curves(table: AccuracyComparison) -> Panel:
    chart = learning.first_epoch_loss(table) if shows_losses(table) else learning.accuracy_epochs(table)
    chart = chart or learning.accuracy_time(table)
    assert chart  # of a table with histories
    seeds = [len(courses) for row in table.group.rows if (courses := training_histories(row))]
    title = "training loss, first epoch" if shows_losses(table) else "test accuracy"
    words = f"{naming.workload_name(table.group)}: {title}"
    head = _head(table.group, seeds, "seed")
    (panel,) = chart.grid[0]
    traces = [
        replace(each, name=framework(each.group) if each.name and each.group else each.name) for each in panel.traces
    ]
    return replace(panel, traces=traces, title=words, head=head, key="inside", height=1.9, share=1.6)


def shows_losses(table: AccuracyComparison) -> bool:
    """Returns whether the curves are of the loss: of one seed or one epoch it tells more than the accuracy."""
    short = all(len(curve.seeds) == 1 or len(curve.x) < 2 for curve in learning.accuracies(table))
    return short and bool(learning.losses(table))


def _head(group: Group, n: Iterable[int], noun: str) -> str:
    shared = [name for name in ("precision", "batch") if name not in group.varying]
    settings = [fill(naming.VALUES[name], SETTINGS[name](group.rows[0])) for name in shared]
    recipes = [f"recipe {each}" for each in dict.fromkeys(row.cell.recipe for row in group.rows) if each]
    data = [] if group.data_kind == "real" else [group.data_words]
    return naming.plain(" · ".join([*data, f"{group.size} size", *settings, *recipes, f"n = {counts(n, noun)}"]), 80)


def _caption(
    timed: Sequence[Table], trained: Sequence[AccuracyComparison], grid: Sequence[Sequence[Panel]]
) -> list[str]:
    words = [f"Bar: median. Whisker: lowest to highest. Dot: one {'launch' if timed else 'seed'}."]
    if timed:
        shown = [row for each in timed for row in choose_rows(each)]
        n, count = len(shown), sum(bool(row.ok) for each in timed for row in each.group.rows)
        words += [
            charts.CROSSED * any(row.set_aside for row in shown),
            _ratios(timed),
            f"Bold: {FASTEST}" * any(panel.bold for row in grid for panel in row),
            f"Shown: usual settings, and those of the fastest cell ({n} of {count} cells)." * (n < count),
        ]
    elif any(row["verdict"] for each in trained for row in each.rows):
        same = f"and whether it is the same as {framework(trained[0].baseline)}'s within {100 * MARGIN:g} point."
        words.append(f"Accuracy: mean over seeds, {same}")
    if trained:
        words.append(learning.TURNS if shows_losses(trained[0]) else f"Thin line: one seed. {learning.ASIDE}")
        low = dict.fromkeys(
            row.cell.precision for each in trained for row in each.group.rows if row.cell.precision != "fp32"
        )
        words.append(f"Dashed: {listing(list(low))}." if low else "")
        words.append(learning.agreement_note([each for each in trained if shows_losses(each)]))
    return words


def _ratios(tables: Sequence[Table]) -> str:
    first = tables[0]
    base = f"{SETTING_NAMES.get(first.group.by, first.group.by)} {first.baseline} in the same framework"
    if first.group.by == "framework":
        base = f"{framework(first.baseline)} with the same settings"
    if not any(each.tested for each in tables):
        return f"x: ratio to {base}. With fewer than {BLOCKS_LEAST} launches nothing is tested."
    return (
        f"x: ratio to {base}. Faster, slower: the whole corrected interval is beyond the margin of {first.margin:.0%}; "
        "equal: within it; else inconclusive."
    )

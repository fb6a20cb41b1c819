"""One picture that answers a run at a glance: learning curves where there are any, and bars with their verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from suite.analysis.accuracy.comparison import MARGIN, AccuracyComparison, training_histories
from suite.analysis.rows.groups import SETTINGS, Group
from suite.analysis.rows.wording import fill, listing
from suite.analysis.statistics.inference import LEAST
from suite.plan.cell import FRAMEWORKS
from suite.report.format.names import SETTING_NAMES, counts, framework
from suite.report.plots.kinds import COMPARISON, kind
from suite.report.plots.kinds.bars import FASTEST
from suite.report.plots.kinds.learning import (
    ASIDE,
    TURNS,
    accuracy_lines,
    agreement_note,
    epochs_axes,
    loss_axes,
    loss_lines,
)
from suite.report.plots.style.bars import rate_bars
from suite.report.plots.style.canvas import Sheet, paper, rows_of
from suite.report.plots.style.look import INK, LETTERS, PALE, SMALL, WIDTH_IN, wide
from suite.report.plots.style.naming import VALUES, dates, explain_noted, plain, workload_short
from suite.report.plots.style.panels import Panel, throughputs, training_times
from suite.report.tables.frame import Table

#: Inches: margin, curves, the two lines over each panel, an axis with its label, and the space between two panels.
MARGIN_IN, CURVES_IN, HEAD_IN, AXIS_IN, BETWEEN_IN = 0.2, (3.7, 1.9), 0.45, 0.5, 0.25
#: The least width of bars, and what has to be left for them in half of the width: names need less than their room.
BARS_IN, LEFT_IN = 0.8, 0.5

#: How much wider bold letters are.
BOLD = 1.13

Cell = Panel | AccuracyComparison


@kind(
    "hero", "Overview: training throughput of the frameworks with verdicts, and learning curves if there are any",
    place=0, of=COMPARISON,
)  # fmt: skip
def hero(tables: Sequence[Table], learned: Sequence[AccuracyComparison] = ()) -> Figure | None:
    """A row per workload: curves where cells of it trained to the end, then bars of throughput with their verdicts.

    Without curves two workloads stand side by side. A workload that was only trained to the end has bars of the time
    that it took. Returns None if no launch succeeded.
    """
    timed = [each for each in tables if any(record.samples_per_s for row in each.group.rows for record in row.ok)]
    trained = [each for each in learned if any(training_histories(row) for row in each.group.rows)]
    panels = [throughputs(each) for each in timed]
    rows = _rows(panels, trained)
    if not rows:
        return None
    heights = [max(each.height if isinstance(each, Panel) else CURVES_IN[1] for each in row) for row in rows]
    total = sum(heights) + len(rows) * (HEAD_IN + AXIS_IN) + (len(rows) - 1) * BETWEEN_IN
    all_rows = [row for group in _groups(timed, trained) for row in group.rows]
    present = {row.cell.framework for row in all_rows if row.ok}
    machines = list(dict.fromkeys(row.machine for row in all_rows if row.machine))
    subjects = ["Learning curves"] if trained else []
    subjects.append("training throughput" if timed else "training time")
    words = listing(subjects)
    who = listing([framework(name) for name in FRAMEWORKS if name in present])
    sheet = paper(
        f"{words[0].upper()}{words[1:]} of {who}",
        [plain(" · ".join([*machines, dates(all_rows)]), 200)],
        _caption(timed, panels, trained),
        (WIDTH_IN - 2 * MARGIN_IN, total),
        left=MARGIN_IN,
        right=MARGIN_IN,
        beneath=0.05,
    )
    at = 0.0
    for row, height in zip(rows, heights, strict=True):
        whole = sheet.inside[0]
        first = whole if len(row) == 1 else CURVES_IN[0] if isinstance(row[0], AccuracyComparison) else whole / 2
        for each, x, width in zip(row, (0.0, first), (first, whole - first), strict=False):
            if isinstance(each, Panel):
                _bars(sheet, each, (x, at), (width, height))
            else:
                _curves(sheet, each, (x, at), (width, height))
        at += height + HEAD_IN + AXIS_IN + BETWEEN_IN
    return sheet.figure


def _groups(timed: Sequence[Table] | Sequence[Panel], trained: Sequence[AccuracyComparison]) -> list[Group]:
    return [*(each.group for each in timed), *(each.group for each in trained)]


def _rows(panels: Sequence[Panel], trained: Sequence[AccuracyComparison]) -> list[list[Cell]]:
    """Returns what stands side by side, from top to bottom."""
    rows: list[list[Cell]] = []
    for name in dict.fromkeys(group.workload for group in _groups(panels, trained)):
        curves: list[Cell] = [each for each in trained if each.group.workload == name]
        bars: list[Cell] = [each for each in panels if each.group.workload == name]
        bars = bars or [training_times(each) for each in trained if each.group.workload == name]
        rows += [[*curves[at : at + 1], each] for at, each in enumerate(bars)]
    if trained:
        return rows
    paired: list[list[Cell]] = []
    for each in (each for row in rows for each in row):
        beside = paired[-1] if paired and len(paired[-1]) == 1 else []
        if beside and all(isinstance(one, Panel) and _fits(one) for one in (beside[0], each)):
            beside.append(each)
        else:
            paired.append([each])
    return paired


def _fits(panel: Panel) -> bool:
    """Whether a panel's names and figures leave room for its bars in half of the width."""
    return sum(_sides(panel)) + LEFT_IN <= (WIDTH_IN - 2 * MARGIN_IN) / 2


def _sides(panel: Panel) -> tuple[float, float]:
    """The widths of the names to the left of a panel's bars, and of the figures to the right, in inches."""
    return 0.1 + wide(panel.names), 0.25 + wide(panel.words.values(), BOLD * SMALL)


def _bars(sheet: Sheet, panel: Panel, corner: tuple[float, float], space: tuple[float, float]) -> None:
    x, y = corner
    left, right = _sides(panel)
    axes = sheet.axes(x + left, y + HEAD_IN, max(BARS_IN, space[0] - left - right), min(space[1], 1.7 * panel.height))
    rows_of(axes, panel.places, panel.headings, panel.names)
    highest = rate_bars(axes, panel.places, panel.readings, "samples/s" if panel.noun == "launch" else "s")
    axes.set_xlim(0, 1.02 * highest)
    axes.xaxis.get_major_locator().set_params(nbins=4)
    axes.set_xlabel(panel.unit, size=SMALL)
    for place, words in panel.words.items():
        weight = "bold" if place in panel.bold else "normal"
        at = axes.get_yaxis_transform()
        axes.text(1.04, place, words, transform=at, va="center", size=SMALL, color=INK, weight=weight)
    n = [len(each) for each in panel.readings.values()]
    _head(sheet, corner, panel.group, panel.title, f"n = {counts(n, panel.noun)}")


def _curves(sheet: Sheet, table: AccuracyComparison, corner: tuple[float, float], space: tuple[float, float]) -> None:
    x, y = corner
    axes = sheet.axes(x + 0.62, y + HEAD_IN, space[0] - 1.05, space[1])
    if shows_losses(table):
        loss_axes(axes, loss_lines(table))
        title = "training loss, first epoch"
    else:
        epochs_axes(axes, table, accuracy_lines(table, "epochs"))
        title = "test accuracy"
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_size(SMALL)
    _head(
        sheet,
        corner,
        table.group,
        title,
        f"n = {counts([len(training_histories(row)) for row in table.group.rows if training_histories(row)], 'seed')}",
    )


def shows_losses(table: AccuracyComparison) -> bool:
    """Returns whether the curves are of the loss: of one seed or one epoch it tells more than the accuracy."""
    accuracies = accuracy_lines(table, "epochs")
    short = all(len(line.seeds) == 1 or len(line.x) < 2 for line in accuracies)
    return short and bool(loss_lines(table))


def _head(sheet: Sheet, corner: tuple[float, float], group: Group, title: str, n: str) -> None:
    """Write what a panel shows, and below it the settings that its rows share."""
    across, up = sheet.figure.get_size_inches()
    x, y = (sheet.left + corner[0]) / across, up - sheet.above - corner[1]
    shared = [name for name in ("precision", "batch") if name not in group.varying]
    settings = [fill(VALUES[name], SETTINGS[name](group.rows[0])) for name in shared]
    recipes = [recipe for recipe in dict.fromkeys(row.cell.recipe for row in group.rows) if recipe]
    kind = [] if group.data_kind == "real" else [group.data_words]
    words = " · ".join([*kind, f"{group.size} size", *settings, *(f"recipe {each}" for each in recipes), n])
    heading = f"{workload_short(group)}: {title}"
    sheet.figure.text(x, (y - 0.02) / up, heading, size=LETTERS, weight="bold", va="center", color=INK)
    sheet.figure.text(x, (y - 0.23) / up, plain(words, 80), size=SMALL, va="center", color=PALE)


def _caption(timed: Sequence[Table], panels: Sequence[Panel], trained: Sequence[AccuracyComparison]) -> list[str]:
    """Returns what bars, ratios and curves are, and of which runs."""
    dot = listing([*(["launch"] if timed else []), *(["seed"] if trained and not timed else [])])
    words = [f"Bar: median. Whisker: lowest to highest. Dot: one {dot}."]
    if timed:
        words += _ratios(timed)
        if any(panel.bold for panel in panels):
            words.append(f"Bold: {FASTEST}")
        shown = sum(len(panel.places) for panel in panels)
        count = sum(bool(row.ok) for each in timed for row in each.group.rows)
        if shown < count:
            words.append(f"Shown: usual settings, and those of the fastest cell ({shown} of {count} cells).")
    elif any(verdict for each in trained for verdict in each.frame["verdict"]):
        base = framework(trained[0].baseline)
        words.append(
            f"Accuracy: mean over seeds, and whether it is the same as {base}'s within {100 * MARGIN:g} point."
        )
    if trained:
        words.append(TURNS if shows_losses(trained[0]) else f"Thin line: one seed. {ASIDE}")
        words.append(agreement_note([each for each in trained if shows_losses(each)]))
    words.append(explain_noted([name for panel in panels for name in panel.names]))
    runs = dict.fromkeys(row.run for group in _groups(timed, trained) for row in group.rows)
    return [*words, f"Run{'s' if len(runs) > 1 else ''} {listing(list(runs))}."]


def _ratios(tables: Sequence[Table]) -> list[str]:
    """Returns what ratios are to, and what their verdicts mean."""
    first = tables[0]
    base = f"{SETTING_NAMES.get(first.group.by, first.group.by)} {first.baseline} in the same framework"
    if first.group.by == "framework":
        base = f"{framework(first.baseline)} with the same settings"
    if not any(each.tested for each in tables):
        return [f"x: ratio to {base}. With fewer than {LEAST} launches nothing is tested."]
    return [
        f"x: ratio to {base}. Faster, slower: the whole corrected interval is beyond the margin of "
        f"{first.margin:.0%}; equal: within it; else inconclusive."
    ]

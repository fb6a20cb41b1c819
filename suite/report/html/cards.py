"""The cards of a site's index: which framework is fastest, for each workload and machine, and what other runs found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

from suite.analysis.records.load import REPORT
from suite.analysis.rows.wording import NONE, figure, middle
from suite.catalog.frameworks import COMPILES
from suite.catalog.frameworks import FRAMEWORKS as DECLARED
from suite.catalog.setting import TEXT
from suite.plan.cell import FRAMEWORKS
from suite.record.text import clean
from suite.report.format.names import SETTING_NAMES, counts
from suite.report.format.names import framework as named
from suite.report.format.text import capital
from suite.report.format.view import View
from suite.report.html.stored import ACCURACY, FRAMEWORK, INFERENCE, UNNAMED, Entry, Figure, Summary
from suite.report.tables.columns import Column, grid
from suite.report.tables.legend import BADGES

#: What a card is of.
KINDS = {ACCURACY: "training to the end", INFERENCE: "inference"}

#: Runs in a trend, at most: the newest.
TREND_MOST = 8


@dataclass(frozen=True)
class Line:
    """What one run says."""

    date: str
    name: str
    n: str
    verdict: str
    flags: Sequence[str]
    address: str


@dataclass(frozen=True)
class Shown:
    """A framework in a picture: its colour, its highest value as text and as a share, and the shares of each cell."""

    name: str
    colour: str
    text: str
    best: float
    cells: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Picture:
    """Bars, or curves from ``low`` to ``high``; ``words`` say the same to readers who cannot see it.

    All are of one ``setting``.
    """

    unit: str
    words: str
    setting: str
    shown: Sequence[Shown]
    low: str = ""
    high: str = ""


@dataclass(frozen=True)
class Card:
    """The run that answers best which framework is fastest for a workload on a machine, and the others.

    ``further`` are the newest answers to other questions, ``trend`` has a row per run, the oldest first.
    """

    title: str
    machine: str
    best: Line
    picture: Picture | None
    further: Sequence[Line]
    others: Sequence[Line]
    trend: View | None


Answer = tuple[str, Summary, Entry]  # the run's folder, its summary, and one of its entries


def cards(runs: Iterable[tuple[str, Summary]]) -> list[Card]:
    """Returns a card for each kind of measurement, workload and machine, in the order of ``runs``: the newest first."""
    alike: dict[tuple[str, str, str], list[Answer]] = {}
    for folder, run in runs:
        for entry in run.entries:
            alike.setdefault((entry.kind, entry.workload, entry.machine), []).append((folder, run, entry))
    return list(map(_card, alike.values()))


def _card(answers: Sequence[Answer]) -> Card:
    best = max(answers, key=_rank)  # of equals the first, which is the newest
    entry = best[2]
    others = [each for each in answers if each is not best]
    questions: dict[str, Answer] = {}
    for each in others:
        if each[2].by != FRAMEWORK:
            questions.setdefault(each[2].by, each)
    rest = [each for each in others if each not in questions.values()]
    return Card(
        title=f"{capital(entry.title)}: {KINDS.get(entry.kind, 'training throughput')}",
        machine=entry.machine or UNNAMED,
        best=_line(*best),
        picture=_picture(entry),
        further=[_line(*each) for each in questions.values()],
        others=[_line(*each) for each in rest],
        trend=_trend(answers, entry),
    )


def badges(made: Iterable[Card]) -> dict[str, str]:
    """Returns what the badges of these cards say, by their names."""
    flags = {flag for card in made for line in (card.best, *card.further, *card.others) for flag in line.flags}
    return {name: words for name, words in BADGES.items() if any(flag.startswith(name) for flag in flags)}


def _choose_setting(entry: Entry) -> tuple[str, list[Figure]]:
    """Returns the first setting that most frameworks share, and its figures."""
    settings: dict[str, list[Figure]] = {}
    for each in entry.figures:
        settings.setdefault(each.setting or _words(each), []).append(each)
    setting, figures = max(settings.items(), key=lambda each: len({one.framework for one in each[1]}))
    return f"{setting}, one of {len(settings)} settings" if len(settings) > 1 else setting, figures


def _words(figure: Figure) -> str:
    """Returns a cell's id without what is a framework's own: its name and its compile mode."""
    return " ".join(word for word in figure.cell.split("-")[1:] if word not in (figure.framework, *COMPILES))


def _picture(entry: Entry) -> Picture | None:
    """Returns the highest median of each framework in one setting, or its accuracy by epoch; None without figures."""
    if not any(each.values for each in entry.figures):
        return None
    setting, figures = _choose_setting(entry)
    epochs = max(len(each.values) for each in figures)
    unit, count = ("test accuracy by epoch", epochs) if epochs > 1 else ("test accuracy after one epoch", 1)
    if entry.kind != ACCURACY:
        unit, count = "samples/s", 1
    every = [value for each in figures for value in each.values[:count]]
    low, top = (min(every), max(every)) if count > 1 else (0.0, max(every))
    shown = []
    for name in (name for name in FRAMEWORKS if any(each.framework == name for each in figures)):
        cells = [each.values[:count] for each in figures if each.framework == name]
        shares = [[(value - low) / ((top - low) or 1.0) for value in cell] for cell in cells]
        best = max(value for cell in cells for value in cell)
        shown.append(Shown(named(name), DECLARED[name].colour, figure(best), max(map(max, shares)), shares))
    words = ", ".join(f"{each.name} {each.text}" for each in shown)
    if count > 1:
        words = f"from {low:.2f} to {top:.2f}, {', '.join(each.name for each in shown)}"
    ends = (f"{low:.2f}", f"{top:.2f}") if count > 1 else ("", "")
    return Picture(unit, f"{unit}: {words}", setting, shown, *ends)


def _rank(answer: Answer) -> tuple[bool, int, int]:
    """Returns how well a run says which framework is fastest: whether it compares them, how many, and how often."""
    entry = answer[2]
    return entry.by == FRAMEWORK, len({each.framework for each in entry.figures}), entry.n[1]


def _line(folder: str, run: Summary, entry: Entry) -> Line:
    along = f"By {SETTING_NAMES.get(entry.by, entry.by)}: {entry.verdict}"
    return Line(
        date=run.dates[-1] if run.dates else "no date",
        name=clean(folder, 60),
        n=f"{counts(entry.n, 'seed' if entry.kind == ACCURACY else 'launch')} of each cell",
        verdict=capital(entry.verdict) if entry.by == FRAMEWORK else along,
        flags=entry.flags,
        address=f"{quote(folder, safe='')}/{REPORT}",
    )


def _trend(answers: Sequence[Answer], shown: Entry) -> View | None:
    """Returns the figures of the cells that most runs have, one cell per framework; None with fewer than two runs."""
    same = [each for each in answers if each[2].same == shown.same][:TREND_MOST]
    counts = Counter(each.cell for _, _, entry in same for each in entry.figures)
    chosen: dict[str, str] = {}
    for each in shown.figures:
        if counts[each.cell] > 1 and counts[each.cell] > counts[chosen.get(each.framework, "")]:
            chosen[each.framework] = each.cell
    runs = [each for each in reversed(same) if any(figure.cell in chosen.values() for figure in each[2].figures)]
    if not chosen or len(runs) < 2:
        return None
    columns = [Column("run", lambda run: middle(clean(run[0], 60)), TEXT), Column("suite", lambda run: run[2].suite)]
    columns += [Column(named(name), partial(_measured, chosen[name])) for name in FRAMEWORKS if name in chosen]
    unit = "final test accuracy" if shown.kind == ACCURACY else "samples/s"
    first, *others = (cell.split("-") for cell in chosen.values())
    setting = " ".join(word for word in first[1:] if all(word in other for other in others))
    caption = f"{unit} at {setting}, with each framework's version. Runs are not tested against each other."
    return View(caption, grid(columns, runs, drop_empty=True), ())


def _measured(cell: str, answer: Answer) -> str:
    """Returns the figure of a cell, and the framework's version."""
    found = next((each for each in answer[2].figures if each.cell == cell), None)
    if found is None:
        return NONE
    value = f"{found.values[-1]:.4f}" if answer[2].kind == ACCURACY else figure(found.values[0])
    package, _, number = found.version.rpartition(" ")
    version = number if package.startswith(("torch", "tensorflow", "jax")) else found.version
    return f"{value} ({version})" if version else value

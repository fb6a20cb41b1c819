"""A site's page of releases: what each release of a framework changed, and where the time of its steps goes.

A comparison that holds releases writes `releases.json` beside its report, and the page is made from these files.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Annotated, Any
from urllib.parse import quote

from msgspec import Meta

from suite.analysis.bottlenecks.causes import causes, costs
from suite.analysis.findings import EXPLAINED
from suite.analysis.records.load import REPORT
from suite.analysis.rows.wording import DASH, figure
from suite.analysis.statistics.changes import Step
from suite.analysis.statistics.inference import Estimate
from suite.catalog.setting import TEXT
from suite.record.text import clean
from suite.report.format.names import count, workload
from suite.report.format.names import framework as named
from suite.report.format.text import spread
from suite.report.html.document import GENERATOR, PageTable, render
from suite.report.html.stored import Rate, Text, short
from suite.report.tables.columns import NAME, Column, bounded, grid
from suite.report.tables.frame import Table
from suite.report.tables.releases import python_of, release_name

FILE, PAGE = "releases.json", "releases.html"

#: Lines of a file, releases of a line and categories of a step, at most; and the least share of a step that is named.
LINES_MOST, STEPS_MOST, NAMED_MOST, WORTH = 200, 100, 3, 0.05

Milliseconds = Annotated[float, Meta(gt=-1e9, lt=1e9)]


@dataclass(frozen=True)
class Change:
    """A ratio of throughputs with its bounds, and its verdict, which is empty where it was not tested."""

    ratio: tuple[Rate, Rate, Rate]
    verdict: Text


@dataclass(frozen=True)
class Measured:
    """A release. ``samples_per_s`` is the median over ``n`` launches, with the lowest and the highest.

    ``shares`` are the largest categories of its step, where it has a profile, and ``changed`` the milliseconds per step
    by which categories differ from the release before.
    """

    release: Text
    python: Text
    n: Annotated[int, Meta(ge=1, lt=10**6)]
    samples_per_s: tuple[Rate, Rate, Rate]
    to_before: Change | None = None
    to_oldest: Change | None = None
    shares: Annotated[tuple[tuple[Text, Rate], ...], Meta(max_length=NAMED_MOST)] = ()
    changed: Annotated[tuple[tuple[Text, Milliseconds], ...], Meta(max_length=NAMED_MOST)] = ()


@dataclass(frozen=True)
class Line:
    """The releases of a framework with one workload and one setting in one run, the oldest first."""

    workload: Text
    framework: Text
    cell: Text
    machine: Text
    date: Text
    releases: Annotated[tuple[Measured, ...], Meta(min_length=2, max_length=STEPS_MOST)]


@dataclass(frozen=True)
class Lines:
    """What a file holds."""

    lines: Annotated[tuple[Line, ...], Meta(min_length=1, max_length=LINES_MOST)]


@dataclass(frozen=True)
class Part:
    """A line on the page, with the address of its report."""

    id: str
    title: str
    about: str
    report: str
    table: PageTable


def text_of(tables: Iterable[Table]) -> str:
    """Returns the content of `releases.json`; empty where no framework ran in several releases."""
    lines = [_line(table, steps) for table in tables for steps in table.findings.releases]
    return json.dumps(asdict(Lines(tuple(lines[:LINES_MOST]))), indent=1) + "\n" if lines else ""


def page(found: Sequence[tuple[str, Lines]]) -> str:
    """Returns the page: a row for each line, the newest first, then all releases of each."""
    lines = [(folder, line) for folder, each in found for line in each.lines]
    lines.sort(key=lambda each: each[0])
    lines.sort(key=lambda each: each[1].date, reverse=True)
    overview = grid(OVERVIEW, (line for _, line in lines))
    caption = "The newest release of each framework by workload and setting, the newest run first."
    return render(
        "releases.html.jinja",
        title="Releases of the frameworks",
        generator=GENERATOR,
        counted=f"{count(len(lines), 'line')} of releases in {count(len(found), 'run')}",
        overview=PageTable("overview", caption, overview),
        parts=[_part(number, *each) for number, each in enumerate(lines)],
    )


def _line(table: Table, steps: Sequence[Step]) -> Line:
    row = steps[0].row
    days = [clean(record.started, 40)[:10] for step in steps for record in step.row.ok]
    return Line(
        workload(table.group), row.cell.framework, row.cell.but(release="").id, row.machine, max(days),
        tuple(map(_describe_step, steps, [None, *steps]))[-STEPS_MOST:],
    )  # fmt: skip


def _describe_step(step: Step, before: Step | None) -> Measured:
    rates = [rate for record in step.row.ok if (rate := record.samples_per_s)] or [0.0]
    known, others = costs(step.row), costs(before.row) if before else None
    shares, changed = [], []
    if known:
        ordered = sorted(known.seconds.items(), key=lambda each: -each[1])
        shares = [(name, short(seconds / known.step_s)) for name, seconds in ordered[:NAMED_MOST]]
    if known and others and step.to_before and step.to_before.verdict in EXPLAINED:
        why = causes(known, others)
        parts = [] if why.alike else [each for each in why.causes if each.certain is not False]
        changed = [(each.category, short(1e3 * (each.seconds - each.other_seconds))) for each in parts[:NAMED_MOST]]
    return Measured(
        release_name(step), python_of(step.row), len(step.row.ok),
        (short(median(rates)), short(min(rates)), short(max(rates))), _change(step.to_before), _change(step.to_oldest),
        tuple(each for each in shares if each[1] >= WORTH), tuple(changed),
    )  # fmt: skip


def _change(found: Estimate | None) -> Change | None:
    if found is None or not (found.value and found.low and found.high):
        return None
    return Change((short(found.value), short(found.low), short(found.high)), found.verdict)


def _changes(newest: Callable[[Any], Measured]) -> list[Column]:
    """Returns the columns of what a release changed."""
    return [
        *_change_of(lambda row: newest(row).to_before, "to the one before"),
        *_change_of(lambda row: newest(row).to_oldest, "to the oldest"),
    ]


def _change_of(read: Callable[[Any], Change | None], name: str) -> list[Column]:
    return [
        Column(name, lambda row: bounded(change.ratio) if (change := read(row)) else ""),
        _text("verdict", lambda row: change.verdict or "not tested" if (change := read(row)) else ""),
    ]


def _largest(line: Line) -> str:
    decided = [(each.to_before, each) for each in line.releases
               if each.to_before and each.to_before.verdict in ("faster", "slower")]  # fmt: skip
    largest = max(decided, key=lambda each: abs(math.log(each[0].ratio[0] or 1.0)), default=None)
    return f"{largest[1].release}: {largest[0].ratio[0]:.2f} ({largest[0].verdict})" if largest else "none decided"


def _text(name: str, read: Callable[[Any], str], where: tuple[str, ...] = (), most: int = 120) -> Column:
    return Column(name, lambda row: clean(read(row), most), TEXT, where=where)


OVERVIEW = (
    _text("workload", lambda line: line.workload, (NAME,)),
    _text("framework", lambda line: named(line.framework), (NAME,)),
    _text("releases", lambda line: f"{line.releases[0].release}{DASH}{line.releases[-1].release}"),
    *_changes(lambda line: line.releases[-1]),
    _text("largest change", _largest),
    _text("run", lambda line: line.date),
)

STEPS = (
    _text("release", lambda each: each.release, (NAME,)),
    _text("Python", lambda each: each.python),
    Column("n", lambda each: each.n),
    Column("samples/s", lambda each: spread(*each.samples_per_s)),
    *_changes(lambda each: each),
    _text("where the time goes", lambda each: ", ".join(f"{name} {100 * share:.0f} %" for name, share in each.shares),
          most=200),
    _text("change per step",
          lambda each: ", ".join(f"{name} {'+' if by > 0 else ''}{figure(by)} ms" for name, by in each.changed),
          most=200),
)  # fmt: skip


def _part(number: int, folder: str, line: Line) -> Part:
    title = f"{clean(named(line.framework), 40)}: {clean(line.workload, 80)}"
    about = " \u00b7 ".join(clean(text, 120) for text in (line.cell, line.machine, line.date) if text)
    caption = f"{title}, the newest release first."
    table = PageTable(f"line-{number}-rows", caption, grid(STEPS, reversed(line.releases)))
    return Part(f"line-{number}", title, about, f"{quote(folder, safe='')}/{REPORT}", table)

"""The sections of a report's page: a table under its heading, its notes, and what explains its ratios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from suite.analysis.findings import EXPLAINED
from suite.analysis.rows.groups import Group
from suite.analysis.statistics.accuracy import AccuracyComparison
from suite.report.format.names import workload
from suite.report.format.text import capital
from suite.report.format.view import View
from suite.report.html.document import PageTable
from suite.report.tables import accuracy, inference, releases, scaling, timed
from suite.report.tables.breakdowns import breakdowns
from suite.report.tables.frame import Table
from suite.report.text.why import PairExplanation, explain_sides, is_profiled


@dataclass(frozen=True)
class Section:
    """A table under its heading, with notes; below it scaling, inference and releases; folded, what explains ratios."""

    title: str
    subtitle: str
    table: PageTable
    notes: Sequence[str]
    why: Sequence[tuple[PairExplanation, Sequence[PairExplanation]]] = ()
    breakdowns: Sequence[Section] = ()
    scalings: Sequence[Section] = ()


def sections(tables: Sequence[Table], learned: Sequence[AccuracyComparison]) -> list[Section]:
    """Returns a section for each table, those of throughput first."""
    made = []
    for number, table in enumerate(tables):
        section = _section(f"table{number}", timed.view(table), table.group)
        scalings = _parts(f"table{number}-scaling", [*scaling.views(table), *releases.views(table)])
        scalings += _parts(f"table{number}-inference", inference.views(table))
        if is_profiled([table]):
            parts = _parts(f"table{number}-part", breakdowns(table))
            section = replace(section, why=explain_sides(table, EXPLAINED), breakdowns=parts)
        made.append(replace(section, scalings=scalings))
    for number, each in enumerate(learned, len(tables)):
        made.append(_section(f"learned{number}", accuracy.view(each), each.group))
    return made


def _section(identity: str, view: View, group: Group) -> Section:
    """Returns the section of a table. ``identity`` is its name within the page."""
    caption = "One row per cell; the best value of a column is marked." if view.grid.best else "One row per cell."
    kind = "training to the end" if group.rows[0].cell.recipe else "throughput"
    title = f"{capital(workload(group))}: {kind}"
    return Section(title, view.title, PageTable(identity, caption, view.grid), view.notes)


def _parts(identity: str, views: Iterable[View]) -> list[Section]:
    return [
        Section(view.title, "", PageTable(f"{identity}{number}", view.title, view.grid), view.notes)
        for number, view in enumerate(views)
    ]

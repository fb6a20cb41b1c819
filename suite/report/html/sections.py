"""The sections of a report's page: a table under its heading, its notes, and what explains its ratios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from suite.analysis.accuracy.comparison import AccuracyComparison
from suite.analysis.bottlenecks.explained_pairs import EXPLAINED
from suite.analysis.rows.groups import Group
from suite.report.format.names import workload
from suite.report.format.text import capital
from suite.report.format.view import View
from suite.report.html.document import PageTable
from suite.report.tables import accuracy, columns, inference, releases, scaling
from suite.report.tables.breakdowns import breakdowns
from suite.report.tables.frame import Table
from suite.report.text.why import PairExplanation, explain_sides, is_profiled

#: Columns that explain a result and do not decide it.
LESS = {"step ms", "loader efficiency", "pays after", "compile s", "epochs", "J to target*"}
LESS_PREFIXES = ("epochs to ",)


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
        section = _section(f"table{number}", columns.view(table), table.group)
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
    caption = "One row per cell; the best value of a column is marked." if view.whole.best else "One row per cell."
    kind = "training to the end" if group.rows[0].cell.recipe else "throughput"
    table = replace(_table(identity, caption, view), more=_more(view), narrow=_narrow(view, group))
    return Section(f"{capital(workload(group))}: {kind}", view.title, table, view.notes)


def _parts(identity: str, views: Iterable[View]) -> list[Section]:
    return [
        Section(view.title, "", _table(f"{identity}{number}", view.title, view), view.notes)
        for number, view in enumerate(views)
    ]


def _table(identity: str, caption: str, view: View) -> PageTable:
    grid = view.whole
    return PageTable(identity, caption, grid.headers, grid.rows, grid.align, grid.names, grid.best)


def _narrow(view: View, group: Group) -> frozenset[int]:
    """Returns the columns that a narrow screen hides at first, so that ratio and verdict are seen without scrolling."""
    headers = view.whole.headers
    if "verdict" not in headers:
        return frozenset()
    modes = {(row.cell.framework, row.cell.compile) for row in group.rows}
    shown = {"ratio", "verdict", *headers[: view.whole.names]}
    shown -= {"compile"} if len(modes) == len({name for name, _ in modes}) else set()
    return frozenset(place for place, header in enumerate(headers) if header not in shown)


def _more(view: View) -> frozenset[int]:
    """Returns the columns that are hidden at first: those of the monitor, and `LESS`."""
    measured, headers = len(view.grid.headers), view.whole.headers
    less = LESS | ({"samples/s"} if "test accuracy" in headers else set())  # where the time to an accuracy decides
    return frozenset(
        place
        for place, header in enumerate(headers)
        if place >= measured or header in less or header.endswith("MiB") or header.startswith(LESS_PREFIXES)
    )

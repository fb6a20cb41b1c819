"""The sections of a report's page: a table under its heading, its notes, and what explains its ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from suite.analysis.bottlenecks.explained import EXPLAINED
from suite.analysis.rows.groups import Group
from suite.report.format.names import workload
from suite.report.format.text import capital
from suite.report.format.view import View
from suite.report.html.document import PageTable
from suite.report.tables.breakdowns import breakdowns
from suite.report.tables.frame import Table
from suite.report.tables.scaling import views
from suite.report.text.why import Told, is_profiled, once

#: Columns that explain a result and do not decide it.
LESS = {"step ms", "loader efficiency", "pays after", "compile s", "epochs", "J to target*"}
LESS_PREFIXES = ("epochs to ",)


@dataclass(frozen=True)
class Section:
    """A table under its heading, with its notes; below it its scalings, and folded what explains its ratios."""

    title: str
    subtitle: str
    table: PageTable
    notes: Sequence[str]
    why: Sequence[tuple[Told, Sequence[Told]]] = ()
    breakdowns: Sequence[Section] = ()
    scalings: Sequence[Section] = ()


def section(identity: str, view: View, group: Group) -> Section:
    """Returns the section of a table. ``identity`` is its name within the page."""
    caption = "One row per cell; the best value of a column is marked." if view.whole.best else "One row per cell."
    table = _table(identity, caption, view, _more(view))
    kind = "training to the end" if group.rows[0].cell.recipe else "throughput"
    narrow = _narrow(view, group)
    return Section(f"{capital(workload(group))}: {kind}", view.title, replace(table, narrow=narrow), view.notes)


def _table(identity: str, caption: str, view: View, more: frozenset[int] = frozenset()) -> PageTable:
    grid = view.whole
    return PageTable(identity, caption, grid.headers, grid.rows, grid.align, grid.names, grid.best, more)


def scaled(section: Section, table: Table) -> Section:
    """Returns the section of a table of timed cells with its weak and strong scaling, if it has several devices."""
    found = enumerate(views(table))
    parts = [
        Section(view.title, "", _table(f"{section.table.id}-scaling{number}", view.title, view), view.notes)
        for number, view in found
    ]
    return replace(section, scalings=parts)


def explained(section: Section, table: Table) -> Section:
    """Returns the section of a table of timed cells with what explains it; without any profile nothing does."""
    if not is_profiled([table]):
        return section
    found = enumerate(breakdowns(table))
    parts = [
        Section(view.title, "", _table(f"{section.table.id}-part{number}", view.title, view), view.notes)
        for number, view in found
    ]
    return replace(section, why=once(table, EXPLAINED), breakdowns=parts)


def _narrow(view: View, group: Group) -> frozenset[int]:
    """Returns the columns that a narrow screen hides at first, so that ratio and verdict are seen without scrolling."""
    headers = view.whole.headers
    if "verdict" not in headers:
        return frozenset()
    modes = {(row.cell.framework, row.cell.compile) for row in group.rows}
    told = {"ratio", "verdict", *headers[: view.whole.names]}
    told -= {"compile"} if len(modes) == len({name for name, _ in modes}) else set()
    return frozenset(place for place, header in enumerate(headers) if header not in told)


def _more(view: View) -> frozenset[int]:
    """Returns the columns that are hidden at first: those of the monitor, and `LESS`."""
    measured, headers = len(view.grid.headers), view.whole.headers
    less = LESS | ({"samples/s"} if "test accuracy" in headers else set())  # where the time to an accuracy decides
    return frozenset(
        place
        for place, header in enumerate(headers)
        if place >= measured or header in less or header.endswith("MiB") or header.startswith(LESS_PREFIXES)
    )

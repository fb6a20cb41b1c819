"""Selects the rows that go into plots if a table has more than a plot can show."""

from __future__ import annotations

from dataclasses import replace

from suite.plan.cell import FRAMEWORKS
from suite.report.tables.frame import Table

#: A plot of more than ``MOST`` rows is unreadable and takes seconds to draw; then it shows only ``SHOWN``.
MOST, SHOWN = 60, 15


def excerpt(table: Table) -> Table:
    """Returns the table; of a large one the fastest rows of each framework, in order, with a heading that says so."""
    rows = table.group.rows
    if len(rows) <= MOST:
        return table
    frameworks = [name for name in FRAMEWORKS if any(row.cell.framework == name and row.ok for row in rows)]
    rates = [cell.samples_per_s.median or 0.0 for cell in table.cells]
    kept: list[int] = []
    for name in frameworks:
        candidates = [at for at, row in enumerate(rows) if row.cell.framework == name and row.ok]
        kept += sorted(candidates, key=lambda at: -rates[at])[: SHOWN // len(frameworks)]
    kept.sort()
    part = f"the {SHOWN // max(1, len(frameworks))} fastest rows of each framework; all {len(rows)} are in the table"
    group = replace(table.group, rows=tuple(rows[at] for at in kept), part=part)
    return replace(table, group=group, cells=tuple(table.cells[at] for at in kept))

"""How many launches would decide the ratios that are undecided: an estimate, from the scatter of those there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from suite.analysis.rows.wording import listing
from suite.analysis.statistics.inference import BLOCKS_MOST, INCONCLUSIVE
from suite.analysis.statistics.sequential import is_sequential
from suite.plan.measuring import LAST_LOOK
from suite.report.format.names import count, workload
from suite.report.format.text import capital
from suite.report.tables.frame import Table

ESTIMATED = "if they scatter as these do (an estimate)"


def lines(table: Table) -> list[str]:
    """Returns a note for each row that is undecided."""
    return [f"Undecided: {row}. {capital(of)} launches would decide it, {ESTIMATED}." for row, of in _rows(table)]


def summary(tables: Sequence[Table]) -> list[str]:
    """Returns the same of several tables in a line, by the number of launches; none if all is decided."""
    by_number: dict[str, list[str]] = {}
    for each in tables:
        for row, of in _rows(each):
            by_number.setdefault(of, []).append(f"{workload(each.group)} {row}")
    ordered = sorted(by_number, key=lambda of: (of[0], int(of.split()[-1])))
    words = [f"{of}: {listing(by_number[of]) if 'about' in of else count(len(by_number[of]), 'row')}" for of in ordered]
    return [f"Launches that would decide, {ESTIMATED}: {'; '.join(words)}"] if words else []


def _rows(table: Table) -> Iterator[tuple[str, str]]:
    for row in table.group.rows:
        if (ratio := table.ratios[row.key]).verdict == INCONCLUSIVE:
            most = LAST_LOOK if is_sequential([row]) else BLOCKS_MOST
            needed = f"about {ratio.blocks_to_decide}" if ratio.blocks_to_decide else f"more than {most}"
            yield table.group.label(row), needed

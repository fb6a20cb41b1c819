"""What each release of a framework changed: against the one before, and against the oldest.

A *line* holds the rows of one run that differ in nothing but the release, the oldest first. The environment that is
installed stands where its own version belongs. The ratios to the oldest are among the run's own comparisons, where that
is the usual release; all others are corrected together with those (`suite.analysis.statistics.multiple_testing`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from suite.analysis.identity.verdicts import Verdict
from suite.analysis.records.defects import release_of as of_record
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics.multiple_testing import NOTHING, Known, compare
from suite.analysis.statistics.ratios import Ratio
from suite.catalog.setting import VERSION, version_key
from suite.plan.measuring import MARGIN


@dataclass(frozen=True)
class Step:
    """A release of a line, with the ratios of its throughput to the one before and to the oldest.

    The oldest itself has neither; for the second both are the same.
    """

    row: Row
    to_before: Ratio | None = None
    to_oldest: Ratio | None = None

    @property
    def release(self) -> str:
        return release_of(self.row)


def release_of(row: Row) -> str:
    """The release that a row ran, which a record says where the cell does not; empty where neither does."""
    return row.cell.release or (of_record(row.ok[0]) if row.ok else "")


def release_lines(
    group: Group, verdicts: Mapping[RowKey, Verdict], margin: float = MARGIN, known: Known = NOTHING
) -> list[tuple[Step, ...]]:
    """The lines of a group with at least two releases that ended well, in the order of its rows.

    ``known`` are the ratios of the group's table.
    """
    lines: dict[tuple[RowKey, ...], list[Row]] = {}
    for row in group.rows:
        alike = [each for each in group.alike(row, "release") if each.run == row.run and each.ok]
        if row.ok and len(alike) > 1:
            ordered = sorted(alike, key=place_of)
            lines.setdefault(tuple(each.key for each in ordered), ordered)
    pairs = [
        pair for rows in lines.values() for before, row in pairwise(rows) for pair in ((row, before), (row, rows[0]))
    ]
    wanted = {(row.key, other.key): (row, other, 1.0) for row, other in pairs}
    found = compare(wanted, group, verdicts, margin, known)
    return [
        (
            Step(rows[0]),
            *(Step(row, found[row.key, before.key], found[row.key, rows[0].key]) for before, row in pairwise(rows)),
        )
        for rows in lines.values()
    ]


def place_of(row: Row) -> tuple[object, ...]:
    """Sorts rows by their release; those that name none come last."""
    match = re.match(VERSION, release_of(row))
    return (0, version_key(match[0])) if match else (1,)

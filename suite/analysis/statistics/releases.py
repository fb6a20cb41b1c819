"""What each release of a framework changed: against the one before, and against the oldest.

A *line* holds the rows of one run that differ in nothing but the release, the oldest first. The environment that is
installed stands where its own version belongs. All tests of a line are corrected together, by Holm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from suite.analysis.identity.verdicts import Verdict
from suite.analysis.records.defects import release_of as of_record
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics.inference import MARGIN, Paired
from suite.analysis.statistics.ratios import Ratio, decide_ratios, ratio_to
from suite.analysis.statistics.sequential import common
from suite.catalog.setting import VERSION, version_key

#: Which of its two ratios a step's test is of.
BEFORE, OLDEST = "before", "oldest"


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


def release_lines(group: Group, verdicts: Mapping[RowKey, Verdict], margin: float = MARGIN) -> list[tuple[Step, ...]]:
    """The lines of a group with at least two releases that ended well, in the order of its rows."""
    lines: dict[tuple[RowKey, ...], tuple[Row, ...]] = {}
    for row in group.rows:
        alike = [each for each in group.alike(row, "release") if each.run == row.run and each.ok]
        if row.ok and len(alike) > 1:
            ordered = tuple(sorted(alike, key=place_of))
            lines.setdefault(tuple(each.key for each in ordered), ordered)
    return [_test_steps(rows, group, verdicts, margin) for rows in lines.values()]


def _test_steps(
    rows: tuple[Row, ...], group: Group, verdicts: Mapping[RowKey, Verdict], margin: float
) -> tuple[Step, ...]:
    shared = common(group.rows)
    formed: dict[tuple[str, int], Ratio] = {}
    tests: dict[tuple[str, int], Paired] = {}
    for at, row in enumerate(rows[1:], 1):
        others = {BEFORE: rows[at - 1], **({OLDEST: rows[0]} if at > 1 else {})}
        for name, other in others.items():
            formed[name, at], test = ratio_to(row, other, verdicts, shared=shared)
            tests |= {(name, at): test} if test else {}
    formed |= decide_ratios(formed, tests, margin)
    found = {at: (formed[BEFORE, at], formed.get((OLDEST, at), formed[BEFORE, at])) for at in range(1, len(rows))}
    return tuple(Step(row, *found.get(at, ())) for at, row in enumerate(rows))


def place_of(row: Row) -> tuple[object, ...]:
    """Sorts rows by their release; those that name none come last."""
    match = re.match(VERSION, release_of(row))
    return (0, version_key(match[0])) if match else (1,)

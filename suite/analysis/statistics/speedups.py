"""What a setting, and what each release, changes within a framework, all else being the same.

A *line* of releases holds the rows of one run that differ in nothing but the release, the oldest first. The environment
that is installed stands where its own version belongs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.axes import AXES, Base, base
from suite.analysis.rows.blocks import release_of as of_record
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.multiple_testing import AXES_OF_GAINS, NOTHING, Known, compare, ratios
from suite.analysis.statistics.ratios import Pair, counterparts
from suite.catalog.setting import VERSION, version_key
from suite.plan.measuring import MARGIN


@dataclass(frozen=True)
class Speedup:
    """The throughput of a row over that of the row with the usual value, ``before``, of the axis."""

    axis: str
    row: Row
    before: Row
    ratio: Estimate

    @property
    def framework(self) -> str:
        return self.row.cell.framework

    @property
    def values(self) -> tuple[str, str]:
        value = AXES[self.axis].value
        return value(self.row), value(self.before)


@dataclass(frozen=True)
class Step:
    """A release of a line, with the ratios of its throughput to the one before and to the oldest.

    The oldest itself has neither; for the second both are the same.
    """

    row: Row
    to_before: Estimate | None = None
    to_oldest: Estimate | None = None

    @property
    def release(self) -> str:
        return release_of(self.row)


def find_speedups(group: Group, verdicts: Mapping[RowKey, Verdict], margin: float = MARGIN) -> list[Speedup]:
    """The gains along every setting that varies within a framework, with the figures of ``compare --by AXIS``."""
    found: list[Speedup] = []
    for along in (replace(group, by=name) for name in AXES_OF_GAINS if name in group.varying):
        at = base(AXES[along.by], group.rows, None)
        found += find_speedups_along(along, at, ratios(along, None, verdicts, margin))
    return found


def find_speedups_along(group: Group, at: Base, formed: Mapping[RowKey, Estimate]) -> list[Speedup]:
    return [
        Speedup(group.by, row, other, formed[row.key])
        for row, other in counterparts(group, at)
        if formed[row.key].value and other is not row
    ]


def release_of(row: Row) -> str:
    """The release that a row ran, which a record says where the cell does not; empty where neither does."""
    return row.cell.release or (of_record(row.ok[0]) if row.ok else "")


def release_lines(
    group: Group, verdicts: Mapping[RowKey, Verdict], margin: float = MARGIN, known: Known = NOTHING
) -> list[tuple[Step, ...]]:
    """The lines of a group with at least two releases that ended well, in the order of its rows."""
    lines: dict[tuple[RowKey, ...], list[Row]] = {}
    for row in group.rows:
        alike = [each for each in group.alike(row, "release") if each.run == row.run and each.ok]
        if row.ok and len(alike) > 1:
            ordered = sorted(alike, key=place_of)
            lines.setdefault(tuple(each.key for each in ordered), ordered)
    wanted = {
        (row.key, other.key): Pair(row, other)
        for rows in lines.values()
        for before, row in pairwise(rows)
        for other in (before, rows[0])
    }
    formed = compare(wanted, group, verdicts, margin, known)
    return [
        (
            Step(rows[0]),
            *(Step(row, formed[row.key, before.key], formed[row.key, rows[0].key]) for before, row in pairwise(rows)),
        )
        for rows in lines.values()
    ]


def place_of(row: Row) -> tuple[object, ...]:
    """Sorts rows by their release; those that name none come last."""
    match = re.match(VERSION, release_of(row))
    return (0, version_key(match[0])) if match else (1,)

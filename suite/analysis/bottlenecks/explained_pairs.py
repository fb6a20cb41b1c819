"""The pairs of a table that can be explained: two rows with a ratio, and what makes their steps differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from suite.analysis.bottlenecks.causes import Causes, causes
from suite.analysis.bottlenecks.costs import Costs, costs
from suite.analysis.rows.axes import Base
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics.fastest import FastestBySetting
from suite.analysis.statistics.ratios import Ratio, counterpart

#: Verdicts that a report explains; the empty one is that of a ratio that was not tested.
EXPLAINED = ("faster", "slower", "")


@dataclass(frozen=True)
class Pair:
    """A row, the one that it is compared with, and the ratio of their throughputs with its bounds and verdict.

    ``causes`` is None unless both have a profile; ``lacking`` are the rows without one.
    """

    row: Row
    other: Row
    value: float
    low: float
    high: float
    blocks: int
    verdict: str
    causes: Causes | None
    lacking: tuple[Row, ...] = ()


@dataclass(frozen=True)
class ComparedRows:
    """Rows that are compared with each other, the base first, and the costs of those that have a profile."""

    rows: tuple[Row, ...]
    costs: Mapping[RowKey, Costs]


def pairs(
    group: Group, at: Base, formed: Mapping[RowKey, Ratio], contests: Iterable[FastestBySetting] = ()
) -> list[Pair]:
    """Each row with its ratio to the base, then the other pairs of the fastest rows in these contests."""
    found: dict[frozenset[RowKey], Pair] = {}
    known = _costs(group)
    for row in group.rows:
        other, ratio = counterpart(row, group, at), formed[row.key]
        if other and other is not row and ratio.value and ratio.low and ratio.high:
            figures = (ratio.value, ratio.low, ratio.high, ratio.blocks, ratio.verdict)
            found[frozenset((row.key, other.key))] = _pair(row, other, figures, known)
    for contest in contests:
        rows = {row.cell.framework: row for row in contest.rows}
        for (first, second), gap in contest.gaps.items():
            row, other = rows[second], rows[first]
            both = gap.reverse
            if frozenset((row.key, other.key)) not in found and both.value and both.low and both.high:
                figures = (both.value, both.low, both.high, both.blocks, both.verdict)
                found[frozenset((row.key, other.key))] = _pair(row, other, figures, known)
    return list(found.values())


def group_by_base(group: Group, at: Base) -> list[ComparedRows]:
    """The rows with a profile by what they are compared with; rows without a counterpart stand alone."""
    known = _costs(group)
    sets: dict[RowKey, list[Row]] = {}
    for row in group.rows:
        if row.key in known:
            base = counterpart(row, group, at) or row
            sets.setdefault(base.key, []).append(row)
    return [
        ComparedRows(tuple(sorted(rows, key=lambda row, key=key: row.key != key)), known)  # type: ignore[misc]
        for key, rows in sets.items()
    ]


def _costs(group: Group) -> dict[RowKey, Costs]:
    return {row.key: found for row in group.rows if (found := costs(row))}


def _pair(row: Row, other: Row, figures: tuple[float, float, float, int, str], known: Mapping[RowKey, Costs]) -> Pair:
    mine, others = known.get(row.key), known.get(other.key)
    lacking = tuple(each for each, its in ((row, mine), (other, others)) if not its)
    return Pair(row, other, *figures, causes(mine, others) if mine and others else None, lacking)

"""What the tests of a group say, each finding made once, and the pairs of rows that profiles explain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from suite.analysis.bottlenecks.causes import Causes, Costs, causes, costs
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.axes import Base
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics.changes import Speedup, Step, find_speedups, find_speedups_along, release_lines
from suite.analysis.statistics.fastest import FastestBySetting, find_fastest
from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.multiple_testing import Known, compare, known_ratios
from suite.analysis.statistics.ratios import Pair, counterpart, counterparts, in_usual_mode
from suite.analysis.statistics.saving import SavingCost, savings
from suite.analysis.statistics.serving import Serving, servings
from suite.plan.measuring import MARGIN

#: Verdicts that a report explains; the empty one is that of a ratio that was not tested.
EXPLAINED = ("faster", "slower", "")


@dataclass(frozen=True)
class ExplainedPair:
    """A row, the one that it is compared with, and their ratio; without both profiles, there are no causes."""

    row: Row
    other: Row
    ratio: Estimate
    causes: Causes | None
    lacking: tuple[Row, ...] = ()


@dataclass(frozen=True)
class ComparedRows:
    """Rows that are compared with each other, the base first, and the costs of those that have a profile."""

    rows: tuple[Row, ...]
    costs: Mapping[RowKey, Costs]


def pairs(
    group: Group, at: Base, formed: Mapping[RowKey, Estimate], contests: Iterable[FastestBySetting] = ()
) -> list[ExplainedPair]:
    """Each row with its ratio to the base, then the other pairs of the fastest rows in these contests."""
    every = [(row, other, formed[row.key]) for row, other in counterparts(group, at) if other is not row]
    for contest in contests:
        rows = {row.cell.framework: row for row in contest.rows}
        every += [(rows[second], rows[first], gap.reverse) for (first, second), gap in contest.gaps.items()]
    found: dict[frozenset[RowKey], ExplainedPair] = {}
    known = _costs(group)
    for row, other, ratio in every:
        if (keys := frozenset((row.key, other.key))) not in found and ratio.value:
            sides = known.get(row.key), known.get(other.key)
            lacking = tuple(each for each, its in zip((row, other), sides, strict=True) if not its)
            why = causes(sides[0], sides[1]) if sides[0] and sides[1] else None
            found[keys] = ExplainedPair(row, other, ratio, why, lacking)
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


@dataclass(frozen=True)
class Findings:
    """The findings on a group, from its ratios to ``base`` on its axis and from whether its rows computed the same."""

    group: Group
    base: Base
    ratios: Mapping[RowKey, Estimate]
    identities: Mapping[RowKey, Verdict]
    margin: float = MARGIN

    @cached_property
    def known(self) -> Known:
        return known_ratios(self.group, self.base, self.ratios)

    @cached_property
    def contests(self) -> list[FastestBySetting]:
        """The fastest framework in each setting; none where ratios are not between frameworks."""
        if self.group.by != "framework":
            return []
        return find_fastest(self.group, self.identities, self.margin, self.known)

    @cached_property
    def gains(self) -> list[Speedup]:
        """What settings gain within a framework; along another axis these are the tests of the ratios themselves."""
        if self.group.by != "framework":
            return find_speedups_along(self.group, self.base, self.ratios)
        return find_speedups(self.group, self.identities, self.margin)

    @cached_property
    def modes(self) -> dict[RowKey, Estimate]:
        """The throughput of each row in another compile mode than its framework's usual one, over that."""
        others = {row.key: (row, other) for row in self.group.rows if (other := in_usual_mode(row, self.group))}
        wanted = {key: Pair(*rows) for key, rows in others.items()}
        return compare(wanted, self.group, self.identities, self.margin, self.known)

    @cached_property
    def servings(self) -> dict[RowKey, Serving]:
        return servings(self.group, self.base, self.identities, self.margin)

    @cached_property
    def savings(self) -> dict[tuple[RowKey, str], SavingCost]:
        return savings(self.group, self.base, self.identities, self.margin)

    @cached_property
    def releases(self) -> list[tuple[Step, ...]]:
        if "release" not in self.group.varying:
            return []
        return release_lines(self.group, self.identities, self.margin, self.known)

    @cached_property
    def pairs(self) -> list[ExplainedPair]:
        return pairs(self.group, self.base, self.ratios, self.contests)

    @cached_property
    def compared(self) -> list[ComparedRows]:
        return group_by_base(self.group, self.base)

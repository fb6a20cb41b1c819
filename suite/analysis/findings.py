"""What the tests of a group say. Each finding is made once, when an output first asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from suite.analysis.bottlenecks.explained_pairs import ComparedRows, Pair, group_by_base, pairs
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.axes import Base
from suite.analysis.rows.groups import Group, RowKey
from suite.analysis.statistics.fastest import FastestBySetting, find_fastest
from suite.analysis.statistics.multiple_testing import Known, known_ratios
from suite.analysis.statistics.ratios import Ratio
from suite.analysis.statistics.releases import Step, release_lines
from suite.analysis.statistics.serving import Serving, servings
from suite.analysis.statistics.speedups import Speedup, find_speedups, find_speedups_along
from suite.plan.measuring import MARGIN


@dataclass(frozen=True)
class Findings:
    """The findings on a group, from its ratios to ``base`` on its axis and from whether its rows computed the same."""

    group: Group
    base: Base
    ratios: Mapping[RowKey, Ratio]
    identities: Mapping[RowKey, Verdict]
    margin: float = MARGIN

    @cached_property
    def known(self) -> Known:
        """The ratios by the two rows that they are of."""
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
    def servings(self) -> dict[RowKey, Serving]:
        """How the trained models of its rows serve, where launches measured that."""
        return servings(self.group, self.base, self.identities, self.margin)

    @cached_property
    def releases(self) -> list[tuple[Step, ...]]:
        """What each release of a framework changed, where several were measured."""
        if "release" not in self.group.varying:
            return []
        return release_lines(self.group, self.identities, self.margin, self.known)

    @cached_property
    def pairs(self) -> list[Pair]:
        """Each two rows with a ratio, and what makes their steps differ."""
        return pairs(self.group, self.base, self.ratios, self.contests)

    @cached_property
    def compared(self) -> list[ComparedRows]:
        """The rows with a profile, by what they are compared with."""
        return group_by_base(self.group, self.base)

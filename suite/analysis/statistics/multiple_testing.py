"""All tests of a comparison that its answer rests on, with one correction over them.

A table corrects for its own tests. An answer reads several tables at once: one for each workload, pairs without the
baseline, and gains along each setting. With Holm's correction over all of them the probability that an answer calls
anything faster or slower where nothing is stays within `statistics.LEVEL`: 3.9 % of 1,000 simulated answers did, and
4.3 % with several compile modes, where lists that are corrected one by one do so in 9.7 and 17.9 %
(``python -m tests.studies.answers``). So an answer may leave undecided what a
table calls faster or slower, and never the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from suite.analysis.statistics import inference as statistics
from suite.analysis.statistics.fastest import FastestBySetting, PairRatio, ordered
from suite.analysis.statistics.inference import MARGIN, Paired
from suite.analysis.statistics.ratios import Ratio
from suite.analysis.statistics.speedups import Speedup

Tested = TypeVar("Tested", Ratio, PairRatio)


@dataclass(frozen=True)
class MultipleTesting:
    """``corrected`` has the p-value after Holm's correction for each one before it."""

    corrected: Mapping[float, float] = field(default_factory=dict)

    def decided(self, tested: Tested, margin: float = MARGIN) -> Tested:
        """The same ratio or gap with its verdict in this family; as it is if it was not tested."""
        if tested.raw is None or tested.value is None or tested.low is None or tested.high is None:
            return tested
        test = Paired(tested.value, tested.low, tested.high, tested.raw, tested.blocks)
        return replace(tested, verdict=statistics.verdict(test, self.corrected[tested.raw], margin))

    def contest(self, contest: FastestBySetting, margin: float = MARGIN) -> FastestBySetting:
        """The same contest with the verdicts of this family, in the order that they make."""
        return ordered(replace(contest, gaps={pair: self.decided(gap, margin) for pair, gap in contest.gaps.items()}))

    def gain(self, gain: Speedup, margin: float = MARGIN) -> Speedup:
        """The same gain with its verdict in this family."""
        return replace(gain, ratio=self.decided(gain.ratio, margin))


def correct_together(
    ratios: Iterable[Ratio], contests: Iterable[FastestBySetting] = (), gains: Iterable[Speedup] = ()
) -> MultipleTesting:
    """The tests of these tables' ratios, of contests (those that are in no table) and of gains, corrected together."""
    own = [gap.raw for contest in contests for gap in contest.gaps.values() if not gap.in_table]
    raw = [each.raw for each in ratios] + own + [gain.ratio.raw for gain in gains]
    values = [p for p in raw if p is not None]
    return MultipleTesting(dict(zip(values, statistics.holm(values), strict=True)))

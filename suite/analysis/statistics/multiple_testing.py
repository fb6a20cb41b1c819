"""All tests that an answer rests on, with one correction over them; and which of them a run has still to decide.

A table corrects for its own tests. An answer reads several tables at once: one for each workload, pairs without the
baseline, and gains along each setting. With Holm's correction over all of them the probability that an answer calls
anything faster or slower where nothing is stays within `statistics.LEVEL`: 3.9 % of 1,000 simulated answers did, and
4.3 % with several compile modes, where lists that are corrected one by one do so in 9.7 and 17.9 %
(``python -m tests.studies.answers``). So an answer may leave undecided what a
table calls faster or slower, and never the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from suite.analysis.identity.verdicts import verdicts
from suite.analysis.records.load import Launch
from suite.analysis.rows.axes import AXES, base
from suite.analysis.rows.groups import Group, group
from suite.analysis.statistics import inference as statistics
from suite.analysis.statistics.fastest import FastestBySetting, PairRatio, find_fastest, order_rows
from suite.analysis.statistics.inference import MARGIN, Paired
from suite.analysis.statistics.ratios import Ratio, counterpart, ratios
from suite.analysis.statistics.speedups import Speedup, find_speedups
from suite.plan.cell import Cell
from suite.plan.measuring import LEAST_TESTED
from suite.record.record import Record

Tested = TypeVar("Tested", Ratio, PairRatio)


@dataclass(frozen=True)
class MultipleTesting:
    """``corrected`` has the p-value after Holm's correction for each one before it."""

    corrected: Mapping[float, float] = field(default_factory=dict)

    def decide(self, tested: Tested, margin: float = MARGIN) -> Tested:
        """The same ratio or gap with its verdict in this family; as it is if it was not tested."""
        if tested.raw is None or tested.value is None or tested.low is None or tested.high is None:
            return tested
        test = Paired(tested.value, tested.low, tested.high, tested.raw, tested.blocks)
        return replace(tested, verdict=statistics.verdict(test, self.corrected[tested.raw], margin))

    def contest(self, contest: FastestBySetting, margin: float = MARGIN) -> FastestBySetting:
        """The same contest with the verdicts of this family, in the order that they make."""
        return order_rows(replace(contest, gaps={pair: self.decide(gap, margin) for pair, gap in contest.gaps.items()}))

    def gain(self, gain: Speedup, margin: float = MARGIN) -> Speedup:
        """The same gain with its verdict in this family."""
        return replace(gain, ratio=self.decide(gain.ratio, margin))


def correct_together(
    ratios: Iterable[Ratio], contests: Iterable[FastestBySetting] = (), gains: Iterable[Speedup] = ()
) -> MultipleTesting:
    """The tests of these tables' ratios, of contests (those that are in no table) and of gains, corrected together."""
    own = [gap.raw for contest in contests for gap in contest.gaps.values() if not gap.in_table]
    raw = [each.raw for each in ratios] + own + [gain.ratio.raw for gain in gains]
    values = [p for p in raw if p is not None]
    return MultipleTesting(dict(zip(values, statistics.holm(values), strict=True)))


UNDECIDED = "inconclusive"


@dataclass(frozen=True)
class Standing:
    """How many tests there are, how many are decided, and the cells that a test which is not needs more launches of."""

    tests: int
    decided: int
    cells: frozenset[Cell]


def standing(records: Sequence[Record], margin: float = MARGIN) -> Standing:
    """What is decided of a run, with one correction over all tests, as an answer makes it."""
    groups = group(Launch(record, str(record.run.get("id", "")), "") for record in records)
    found = [each for one in groups for each in _tests(one, margin)]
    tested = [(test, cells) for test, cells in found if test]
    words = statistics.verdicts([test for test, _ in tested], margin)
    left = [cells for word, (_, cells) in zip(words, tested, strict=True) if word == UNDECIDED]
    left += [cells for test, cells in found if not test]
    if not found:  # nothing to decide: as many launches as a fixed number has
        few = len({record.block for record in records}) < LEAST_TESTED
        return Standing(0, 0, frozenset(record.cell for record in records if few and record.outcome.ok))
    return Standing(len(found), len(found) - len(left), frozenset(cell for cells in left for cell in cells))


def _tests(one: Group, margin: float) -> Iterator[tuple[Paired | None, tuple[Cell, Cell]]]:
    """The tests of a group, each with the two cells that it compares; None where blocks are missing for one.

    So a launch that failed drops no cell. Pairs that may not be compared have no ratio, and are none of these.
    """
    for pair, cells in _pairs(one, margin):
        if pair.value and pair.low and pair.high and cells[0] != cells[1]:
            tested = pair.raw is not None
            yield Paired(pair.value, pair.low, pair.high, pair.raw or 0.0, pair.blocks) if tested else None, cells


def _pairs(one: Group, margin: float) -> Iterator[tuple[Ratio | PairRatio, tuple[Cell, Cell]]]:
    identities = verdicts({row.key: row.ok for row in one.rows})
    formed = ratios(one, None, identities, margin)
    at = base(AXES["framework"], one.rows, None)
    for row in one.rows:
        other = counterpart(row, one, at)
        if other:
            yield formed[row.key], (row.cell, other.cell)
    for contest in find_fastest(one, None, identities, formed, margin):
        by_name = {row.cell.framework: row.cell for row in contest.rows}
        for (first, second), gap in contest.gaps.items():
            if not gap.in_table:
                yield gap, (by_name[first], by_name[second])
    for gain in find_speedups(one, identities, margin):
        yield gain.ratio, (gain.row.cell, gain.before.cell)

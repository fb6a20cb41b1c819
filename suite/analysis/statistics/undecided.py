"""What a run that stops when it is decided has still to decide: the tests that its answer rests on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from suite.analysis.identity.verdicts import verdicts
from suite.analysis.records.load import Launch
from suite.analysis.rows.axes import AXES, base
from suite.analysis.rows.groups import Group, group
from suite.analysis.statistics import inference
from suite.analysis.statistics.fastest import PairRatio, find_fastest
from suite.analysis.statistics.inference import MARGIN, Paired
from suite.analysis.statistics.ratios import Ratio, counterpart, ratios
from suite.analysis.statistics.speedups import find_speedups
from suite.plan.cell import Cell
from suite.plan.measuring import LEAST_TESTED
from suite.record.record import Record

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
    words = inference.verdicts([test for test, _ in tested], margin)
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

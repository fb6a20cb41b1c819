"""What a table's verdicts stand on: the A/A control, which checks the method, and what the run could have shown.

A control is a second copy of a cell, in the same blocks. Where it comes out faster or slower than the cell itself, so
may any other row. It widens no margin; its scatter is the noise from which power is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from suite.analysis import statistics
from suite.analysis.axes import AXES, base
from suite.analysis.groups import Group, Row, RowKey
from suite.analysis.power import Noise, launches_for, noise, smallest_difference
from suite.analysis.ratios import Ratio, blockwise, by_block, counterpart
from suite.analysis.statistics import MARGIN, Paired


@dataclass(frozen=True)
class Control:
    """A row's second copy against it, by block; below `statistics.LEAST` blocks without test and verdict."""

    row: Row
    ratios: tuple[float, ...]
    test: Paired | None = None
    verdict: str = ""

    @property
    def sound(self) -> bool:
        """Whether the method passed, as far as it was tested."""
        return self.verdict not in ("faster", "slower")


@dataclass(frozen=True)
class Power:
    """What a table could have shown with 80 % power.

    ``noise`` is None where the launches are too few to tell. ``smallest`` is the least difference, as .05, that
    ``blocks`` blocks, the fewest behind a ratio of the table, show; ``launches`` are those that one of 5 % takes.
    """

    noise: Noise | None = None
    blocks: int = 0
    smallest: float | None = None
    launches: int | None = None


def controls(group: Group, margin: float = MARGIN) -> list[Control]:
    """The A/A control of every row that has one, with Holm over them."""
    formed = [
        Control(row, tuple(blockwise((launch.record for launch in row.control if launch.record.outcome.ok), row.ok)))
        for row in group.rows
    ]
    formed = [one for one in formed if one.ratios]
    tests = {one.row.key: test for one in formed if (test := statistics.paired(one.ratios))}
    words = dict(zip(tests, statistics.verdicts(list(tests.values()), margin), strict=True))
    return [replace(one, test=tests.get(one.row.key), verdict=words.get(one.row.key, "")) for one in formed]


def power(
    group: Group,
    baseline: str | None,
    formed: Mapping[RowKey, Ratio],
    aa: Iterable[Control],
    margin: float = MARGIN,
) -> Power:
    """What the ratios ``formed`` of a group could have shown, by the noise of its control, else of their own."""
    at = base(AXES[group.by], group.rows, baseline)
    pairs = [(row, counterpart(row, group, at)) for row in group.rows if formed[row.key].blocks]
    compared = [(row, other) for row, other in pairs if other and other is not row and other.run == row.run]
    if not compared:
        return Power()
    found = noise((one.ratios for one in aa), of_control=True) or noise(by_block(*pair) for pair in compared)
    if found is None:
        return Power()
    blocks, tests = min(formed[row.key].blocks for row, _ in compared), len(compared)
    smallest = smallest_difference(found.deviation, blocks, tests=tests, margin=margin)
    return Power(found, blocks, smallest, launches_for(found.deviation, tests=tests, margin=margin))


def doubtful(held: Iterable[Control]) -> list[Control]:
    """Those that came out as no copy of a cell may."""
    return [one for one in held if not one.sound]

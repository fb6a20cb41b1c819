"""How far a table's verdicts can be trusted: the A/A control, which checks the method, and the power of the tests.

A control is a second copy of a cell in the same blocks. If it comes out faster or slower than the cell itself, so may
any other row. It does not widen the margin; power is computed from its scatter and that of the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from suite.analysis.rows.axes import AXES, base
from suite.analysis.rows.disturbed import select_counting
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics import inference as statistics
from suite.analysis.statistics.inference import Paired
from suite.analysis.statistics.power import Noise, launches_for, noise, smallest_difference
from suite.analysis.statistics.ratios import Ratio, blockwise, by_block, counterpart
from suite.analysis.statistics.sequential import is_sequential
from suite.plan.measuring import MARGIN


@dataclass(frozen=True)
class Control:
    """The ratios of a row's second copy to the row, by block; with fewer than `statistics.LEAST` there is no test."""

    row: Row
    ratios: tuple[float, ...]
    test: Paired | None = None
    verdict: str = ""

    @property
    def sound(self) -> bool:
        """Whether the method passed the check, or was not tested."""
        return self.verdict not in ("faster", "slower")


@dataclass(frozen=True)
class Power:
    """What a table could have shown with 80 % power.

    ``noise`` is None if there are too few launches to estimate it, ``noise_range`` the 95 % interval of its deviation.
    ``blocks`` is the smallest number of blocks behind a ratio of the table, ``smallest`` the least difference that
    these show (.05 is 5 %), and ``launches`` the number that a difference of 5 % takes; their ranges are at the ends
    of ``noise_range``.
    """

    noise: Noise | None = None
    noise_range: tuple[float | None, float | None] = (None, None)
    blocks: int = 0
    smallest: float | None = None
    launches: int | None = None
    smallest_range: tuple[float | None, float | None] = (None, None)
    launches_range: tuple[int | None, int | None] = (None, None)


def controls(group: Group, margin: float = MARGIN) -> list[Control]:
    """The A/A control of every row that has one, with Holm's correction over them."""
    every = [
        Control(row, tuple(blockwise(select_counting(launch.record for launch in row.control), row.ok)))
        for row in group.rows
    ]
    with_ratios = [control for control in every if control.ratios]
    tests = {control.row.key: test for control in with_ratios if (test := statistics.run_t_test(control.ratios))}
    corrected = {key: test for key, (test, _) in zip(tests, statistics.correct([*tests.values()]), strict=True)}
    return [
        replace(control, test=test, verdict=statistics.verdict(test, margin))
        if (test := corrected.get(control.row.key))
        else control
        for control in with_ratios
    ]


def power(
    group: Group,
    baseline: str | None,
    formed: Mapping[RowKey, Ratio],
    aa: Iterable[Control],
    margin: float = MARGIN,
) -> Power:
    """The power of the ratios ``formed`` of a group, by their own noise and that of its A/A control."""
    at = base(AXES[group.by], group.rows, baseline)
    pairs = [(row, counterpart(row, group, at)) for row in group.rows if formed[row.key].blocks]
    compared = [(row, other) for row, other in pairs if other and other is not row and other.run == row.run]
    # A run that ends when it is decided was planned for no difference.
    compared = [(row, other) for row, other in compared if not is_sequential([row])]
    if not compared:
        return Power()
    scatter = noise((by_block(*pair) for pair in compared), (control.ratios for control in aa))
    if scatter is None:
        return Power()
    blocks = min(formed[row.key].blocks for row, _ in compared)
    tests = max(len(compared), *(formed[row.key].tests for row, _ in compared))
    deviations = (scatter.deviation, *scatter.interval)
    smallest, *smallest_ends = (smallest_difference(each, blocks, tests=tests, margin=margin) for each in deviations)
    launches, *launches_ends = (launches_for(each, tests=tests, margin=margin) for each in deviations)
    return Power(
        scatter,
        scatter.interval,
        blocks,
        smallest,
        launches,
        (smallest_ends[0], smallest_ends[1]),
        (launches_ends[0], launches_ends[1]),
    )


def doubtful(controls: Iterable[Control]) -> list[Control]:
    """The controls that came out faster or slower than their own cell."""
    return [control for control in controls if not control.sound]

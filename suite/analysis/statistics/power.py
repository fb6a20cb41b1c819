"""How far a table's verdicts can be trusted: the A/A control, and which differences a run could have shown.

A control is a second copy of a cell in the same blocks. If it comes out faster or slower than the cell itself, so may
any other row. It does not widen the margin.

The noise is the standard deviation of the logarithms of the blocks' ratios, pooled within the tested rows and the
control, with the interval of a chi-squared variable. Rows share the launches of their baseline, so that the variances
of two correlate by 1/4, which leaves k rows the degrees of freedom of k / (1 + (k - 1) / 4).

A row comes out `faster` where the mean of its n logarithms exceeds ``log(1 + margin) + t(1 - .025 / k) s / √n``, at the
first level of Holm over the k comparisons of the run. Given the standard deviation s the mean is normal, and s is a chi
variable, over which `power` sums. With one test it is the power of a one-sided t-test of superiority by a margin (S. A.
Julious, Sample sizes for clinical trials with normal data, Statistics in Medicine 23, 2004).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from suite.analysis.rows.axes import Base
from suite.analysis.rows.blocks import select_counting
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics.inference import BLOCKS_LEAST, LEVEL, Estimate, correct, run_t_test
from suite.analysis.statistics.ratios import blockwise, counterparts
from suite.analysis.statistics.sequential import is_sequential
from suite.plan.measuring import MARGIN

POWER = 0.8
#: The difference that a run is planned for.
DIFFERENCE = 0.05
#: The most launches that are proposed, and the largest ratio that is considered.
LAUNCHES_MOST, RATIO_MOST = 1000, 100.0

#: With fewer degrees of freedom the scatter says too little about the noise.
FREEDOM_LEAST = 3

_SHARES = (np.arange(400) + 0.5) / 400  # the quantiles of the chi distribution that are summed


@dataclass(frozen=True)
class Noise:
    """The standard deviation of the logarithm of one block's ratio, its degrees of freedom, and its source.

    ``of_control`` says whether the A/A control is part of it.
    """

    deviation: float
    freedom: float
    of_control: bool = False

    @property
    def interval(self) -> tuple[float, float]:
        ends = (special.chdtri(self.freedom, chance) for chance in (LEVEL / 2, 1 - LEVEL / 2))
        low, high = (self.deviation * math.sqrt(self.freedom / float(end)) for end in ends)
        return low, high


@dataclass(frozen=True)
class Control:
    """The ratios of a row's second copy to the row, by block, and their test; None with too few blocks."""

    row: Row
    ratios: tuple[float, ...]
    test: Estimate | None = None

    @property
    def sound(self) -> bool:
        return not self.test or self.test.verdict not in ("faster", "slower")


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
    copies = {row.key: select_counting(launch.record for launch in row.control) for row in group.rows}
    every = {row.key: Control(row, tuple(blockwise(copies[row.key], row.ok))) for row in group.rows}
    tests = {key: test for key, each in every.items() if (test := run_t_test(each.ratios))}
    corrected = dict(zip(tests, correct([*tests.values()], margin), strict=True))
    return [Control(each.row, each.ratios, corrected.get(key)) for key, each in every.items() if each.ratios]


def find_power(
    group: Group, at: Base, formed: Mapping[RowKey, Estimate], aa: Iterable[Control], margin: float = MARGIN
) -> Power:
    """The power of the ratios ``formed`` to the base ``at``, by their own noise and that of the A/A control."""
    compared = [
        (row, other)
        for row, other in counterparts(group, at)
        if formed[row.key].blocks and other is not row and other.run == row.run
        if not is_sequential([row])  # a run that ends when it is decided was planned for no difference
    ]
    ratios = (blockwise(row.ok, other.ok) for row, other in compared)
    scatter = noise(ratios, (control.ratios for control in aa)) if compared else None
    if scatter is None:
        return Power()
    blocks = min(formed[row.key].blocks for row, _ in compared)
    tests = max(len(compared), *(formed[row.key].tests for row, _ in compared))
    deviations = (scatter.deviation, *scatter.interval)
    smallest = [smallest_difference(each, blocks, tests=tests, margin=margin) for each in deviations]
    launches = [launches_for(each, tests=tests, margin=margin) for each in deviations]
    ranges = (smallest[1], smallest[2]), (launches[1], launches[2])
    return Power(scatter, scatter.interval, blocks, smallest[0], launches[0], *ranges)


def noise(rows: Iterable[Sequence[float]], control: Iterable[Sequence[float]] = ()) -> Noise | None:
    copies = [ratios for ratios in control if len(ratios) > 1]
    logs = [np.log(ratios) for ratios in (*rows, *copies) if len(ratios) > 1]
    freedom = sum(len(each) - 1 for each in logs)
    if freedom < FREEDOM_LEAST:
        return None
    squares = math.fsum(float(((each - each.mean()) ** 2).sum()) for each in logs)
    return Noise(math.sqrt(squares / freedom), freedom / (1 + (len(logs) - 1) / 4), bool(copies))


def power(ratio: float, deviation: float, launches: int, *, tests: int = 1, margin: float = MARGIN) -> float:
    """The chance that a row of this true ratio, above 1, is called faster if no other of the ``tests`` rows differs."""
    if launches < BLOCKS_LEAST:
        return 0.0
    freedom, error = launches - 1, max(deviation, 1e-12) / math.sqrt(launches)
    scatter = np.sqrt(2 * special.gammaincinv(freedom / 2, _SHARES) / freedom) * error  # of the estimated error
    beyond = math.log1p(margin) + float(special.stdtrit(freedom, 1 - LEVEL / 2 / tests)) * scatter
    return float(special.ndtr((math.log(ratio) - beyond) / error).mean())


def smallest_difference(deviation: float, launches: int, *, tests: int = 1, margin: float = MARGIN) -> float | None:
    """The least difference (.05 is 5 %) that so many launches show with 80 % power; None if they show none at all."""
    low, high = 1 + margin, RATIO_MOST
    if power(high, deviation, launches, tests=tests, margin=margin) < POWER:
        return None
    while high - low > 1e-5 * low:
        middle = math.sqrt(low * high)
        enough = power(middle, deviation, launches, tests=tests, margin=margin) >= POWER
        low, high = (low, middle) if enough else (middle, high)
    return high - 1


def launches_for(
    deviation: float, difference: float = DIFFERENCE, *, tests: int = 1, margin: float = MARGIN
) -> int | None:
    """The fewest launches that show this difference with 80 % power; None if it takes too many, or no number does."""

    def enough(launches: int) -> bool:
        return power(1 + difference, deviation, launches, tests=tests, margin=margin) >= POWER

    if difference <= margin or not enough(LAUNCHES_MOST):
        return None
    low, high = BLOCKS_LEAST - 1, LAUNCHES_MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high

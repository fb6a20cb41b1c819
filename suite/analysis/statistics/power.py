"""The power of a table's verdicts: which differences a run could have shown at its own noise.

The noise is the standard deviation of the logarithms of the blocks' ratios, pooled within rows: those that are tested,
and those of the A/A control. The control alone would leave it to five or ten degrees of freedom, and to the scatter of
one framework. Its interval is that of a chi-squared variable. Rows share the launches of their baseline, so that two of
them correlate by 1/2 and their variances by 1/4, which leaves k rows the degrees of freedom of k / (1 + (k - 1) / 4).

A row comes out `faster` where the mean of its n logarithms exceeds ``log(1 + margin) + t(1 - .025 / k) s / √n``: its
interval is beyond the margin at the first level of Holm, which is Bonferroni's over the k comparisons of the run, since
the row may be the only one that differs. Given the standard deviation s
the mean is normal, and s is a chi variable, over which `power` sums. With one test it is the power of a one-sided
t-test of superiority by a margin, by the noncentral t distribution (S. A. Julious, Sample sizes for clinical trials
with normal data, Statistics in Medicine 23, 2004).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from suite.analysis.statistics.inference import LEAST, LEVEL
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
        """The 95 % interval of the deviation."""
        ends = (special.chdtri(self.freedom, chance) for chance in (LEVEL / 2, 1 - LEVEL / 2))
        low, high = (self.deviation * math.sqrt(self.freedom / float(end)) for end in ends)
        return low, high


def noise(rows: Iterable[Sequence[float]], control: Iterable[Sequence[float]] = ()) -> Noise | None:
    """The noise pooled within ``rows`` and those of the A/A control, ratios by block; None if they are too few."""
    copies = [ratios for ratios in control if len(ratios) > 1]
    logs = [np.log(ratios) for ratios in (*rows, *copies) if len(ratios) > 1]
    freedom = sum(len(each) - 1 for each in logs)
    if freedom < FREEDOM_LEAST:
        return None
    squares = math.fsum(float(((each - each.mean()) ** 2).sum()) for each in logs)
    return Noise(math.sqrt(squares / freedom), freedom / (1 + (len(logs) - 1) / 4), bool(copies))


def power(ratio: float, deviation: float, launches: int, *, tests: int = 1, margin: float = MARGIN) -> float:
    """The chance that a row of this true ratio, above 1, is called faster if no other of the ``tests`` rows differs."""
    if launches < LEAST:
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
    low, high = LEAST - 1, LAUNCHES_MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high

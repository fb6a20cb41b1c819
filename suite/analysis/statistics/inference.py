"""Is a ratio more than noise? A paired test on the ratios of blocks, its interval, and a verdict with a margin.

A block holds one launch of each cell, so whatever slows the machine for all cancels out in a block's ratio. The
logarithms of these ratios are tested by Student's one-sample t-test against 0, after outliers were cut
(`suite.analysis.statistics.estimates.outliers`). The margin is fixed before the run. Of
several tests each has its interval at the level at which Holm's step-down correction tested it: it excludes 1 exactly
where the test is significant after the correction. A row is *faster* or *slower* if this whole interval is beyond the
margin, *equal* if it is within the margin, and *inconclusive* otherwise. So noise alone decides nothing: it leaves a
row undecided, and more launches decide it. These intervals tell each ratio from 1; they do not promise that all of them
hold the true ratios at once.

Shown by simulation with the noise of this project's own launches (``python -m tests.studies.significance``, 1,000
tables of six rows for each figure):

- By the noise of run 0005, of tables without any difference 2.6 to 2.8 % have a row that is called faster or slower, at
  six launches; 3.1 to 3.8 % where the machine slows by 20 % meanwhile, and at most 1.8 % with outliers (one launch in
  twenty is 30 % slow). At twenty launches it is at most 0.5 %.
- A margin that was the A/A noise (the former rule) called a true difference of 5 % equal in 41 and 65 % of
  rows at ten launches (CNN and LSTM), in 99 and 98 % at forty. The fixed one never did, and finds 10 % at ten launches
  in 99.9 and 93 %.
- The launches that tables name for 5 % (`suite.analysis.statistics.power`), 22 for run 0005's CNN, 39 for its LSTM, 80
  and 32 for the CNN of runs 0010 and 0011, find it in 82, 84, 87 and 81 % where one row of six differs (1,500 tables
  each). What outliers cost is power: with them forty launches find 37 % (CNN) and not 98 %.
- With six launches neither a sign test nor Wilcoxon's can fall below p = .031, so that Holm's correction over a few
  rows would never let anything be significant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from suite.analysis.statistics.estimates.outliers import cut_outliers, widen
from suite.plan.measuring import MARGIN

#: With fewer blocks a ratio is shown but not tested.
LEAST = 6
LEVEL = 0.05


@dataclass(frozen=True)
class Paired:
    """The geometric mean of ratios, its interval, and the p-value before any correction.

    The interval is that of ``level``; ``ends`` returns value, low and high for another one. ``stops`` says that there
    are as many blocks as it took to decide it.
    """

    value: float
    low: float
    high: float
    p: float
    blocks: int
    level: float = LEVEL
    stops: bool = False
    ends: Callable[[float], tuple[float, float, float]] | None = field(default=None, compare=False, repr=False)

    def at(self, level: float) -> Paired:
        """The same test with its interval at another level."""
        value, low, high = self.ends(level) if self.ends else (self.value, self.low, self.high)
        return replace(self, value=value, low=low, high=high, level=level)


def run_t_test(ratios: Sequence[float]) -> Paired | None:
    """The test of a table's row, from its ratios by block; None with fewer than `LEAST` blocks."""
    if len(ratios) < LEAST:
        return None
    logs = np.log(ratios)
    (off,), _ = cut_outliers(logs[None])
    return _test_mean(logs - off, int(np.count_nonzero(off)))


def interval(ratios: Sequence[float]) -> Paired | None:
    """The same for two blocks or more, where only the interval decides; with few blocks it is honestly wide.

    No outlier is cut: of two or three values, none can be told to be one.

    The range of few launches is no substitute: that of two misses the true mean in every second case, of five in 6 %.
    """
    if len(ratios) < 2:
        return None
    return _test_mean(np.log(ratios))


def _test_mean(logs: NDArray[np.float64], cut: int = 0) -> Paired:
    """Student's t-test of logarithms of which so many were cut."""
    if np.ptp(logs) < 1e-12:  # no scatter at all, which only generated figures have
        value = math.exp(float(logs[0]))
        return Paired(value, value, value, 1.0 if abs(logs[0]) < 1e-12 else 0.0, len(logs))
    error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs)) * float(widen(len(logs), cut))
    return _student(float(logs.mean()), error, len(logs) - 1, len(logs))


def welch(new: Sequence[float], base: Sequence[float]) -> Paired:
    """The same for values that share no blocks, as of two runs: Welch's t-test on logarithms, at least two each.

    ``blocks`` is the smaller number of values.
    """
    new_logs, base_logs = np.log(new), np.log(base)
    value, blocks = math.exp(float(new_logs.mean() - base_logs.mean())), min(len(new), len(base))
    if max(float(np.ptp(new_logs)), float(np.ptp(base_logs))) < 1e-12:
        return Paired(value, value, value, 1.0 if abs(math.log(value)) < 1e-12 else 0.0, blocks)
    # The squared standard errors of both means, and the degrees of freedom by Welch and Satterthwaite.
    new_square, base_square = (float(np.var(logs, ddof=1)) / len(logs) for logs in (new_logs, base_logs))
    square = new_square + base_square
    freedom = square**2 / (new_square**2 / (len(new_logs) - 1) + base_square**2 / (len(base_logs) - 1))
    return _student(math.log(value), math.sqrt(square), freedom, blocks)


def _student(mean: float, error: float, freedom: float, blocks: int) -> Paired:
    """Value, interval and two-sided p-value by Student's t, from the mean of logarithms and its standard error.

    It uses `scipy.special`, since importing `scipy.stats` takes longer than most comparisons.
    """
    p = 2 * float(special.stdtr(freedom, -abs(mean) / error))

    def ends(level: float) -> tuple[float, float, float]:
        half_width = _quantile(freedom, level) * error
        return math.exp(mean), math.exp(mean - half_width), math.exp(mean + half_width)

    return Paired(*ends(LEVEL), p, blocks, ends=ends)


def _quantile(freedom: float, level: float = LEVEL) -> float:
    return float(special.stdtrit(freedom, 1 - level / 2))


def holm(values: Sequence[float]) -> list[float]:
    """p-values after Holm's step-down correction, in their order (Holm, Scandinavian Journal of Statistics 6, 1979)."""
    adjusted, running = [0.0] * len(values), 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        running = max(running, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = running
    return adjusted


def correct(tests: Sequence[Paired]) -> list[tuple[Paired, float]]:
    """Each test with its interval at the level at which Holm's correction over all of them tested it, and p after it.

    The test with the k-th smallest of m p-values is rejected at LEVEL / (m - k + 1); those that are not have all been
    tested at the level of the first of them.
    """
    adjusted = holm([test.p for test in tests])
    rejected = sum(p < LEVEL for p in adjusted)
    found: dict[int, tuple[Paired, float]] = {}
    for rank, index in enumerate(sorted(range(len(tests)), key=lambda index: tests[index].p)):
        found[index] = tests[index].at(LEVEL / (len(tests) - min(rank, rejected))), adjusted[index]
    return [found[index] for index in range(len(tests))]


def verdict(test: Paired, margin: float = MARGIN) -> str:
    """`faster` or `slower` where the whole interval is beyond the margin, `equal` within it, else `inconclusive`.

    The margin is chosen before the run, and no noise widens it.
    """
    if test.low > 1 + margin:
        return "faster"
    if test.high < 1 / (1 + margin):
        return "slower"
    return "equal" if 1 / (1 + margin) <= test.low and test.high <= 1 + margin else "inconclusive"


def verdicts(tests: Sequence[Paired], margin: float = MARGIN) -> list[str]:
    """The verdicts of tests that are corrected together."""
    return [verdict(test, margin) for test, _ in correct(tests)]


def blocks_to_decide(paired: Paired, margin: float = MARGIN, most: int = 100) -> int | None:
    """How many blocks would move the interval out of the margin if the scatter stays the same; None if none would.

    A table that is inconclusive needs more launches, and this is how many.
    """
    mean = abs(math.log(paired.value))
    if mean <= math.log1p(margin):
        return None
    half_width = (math.log(paired.high) - math.log(paired.low)) / 2
    deviation = half_width / _quantile(paired.blocks - 1, paired.level) * math.sqrt(paired.blocks)
    for blocks in range(paired.blocks + 1, most + 1):
        if mean - _quantile(blocks - 1, paired.level) * deviation / math.sqrt(blocks) > math.log1p(margin):
            return blocks
    return None


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """The 25th, 50th and 75th percentile, linear between neighbours; for a few values ten times as fast as NumPy."""
    ordered = sorted(values)
    last = len(ordered) - 1

    def at(share: float) -> float:
        below = int(share * last)
        rest = share * last - below
        low, high = ordered[below], ordered[min(below + 1, last)]
        return low + (high - low) * rest if rest < 0.5 else high - (high - low) * (1 - rest)

    return at(0.25), at(0.5), at(0.75)

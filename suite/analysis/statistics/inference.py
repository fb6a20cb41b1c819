"""Is a ratio more than noise? The one type of every estimate, the paired test behind it, and its verdict.

A block holds one launch of each cell, so whatever slows the machine for all cancels out in a block's ratio. The
logarithms of these ratios are tested by Student's one-sample t-test against 0, after outliers were cut
(`suite.analysis.statistics.noise`). Of several tests each has its interval at the level at which Holm's step-down
correction tested it. A row is *faster* or *slower* if this whole interval is beyond the margin, *equal* if it is within
the margin, which is fixed before the run, and *inconclusive* otherwise. The intervals tell each ratio from 1; they do
not promise that all of them hold the true ratios at once.

How often tables are wrong, and what they find, is simulated by ``python -m tests.studies.significance``: with run
0005's noise 2.6 to 2.8 % of tables without any difference have a row that is called faster or slower, at six launches;
3.1 to 3.8 % where the machine slows by 20 % meanwhile, and at most 1.8 % where one launch in twenty is 30 % slow. With
six launches neither a sign test nor Wilcoxon's can fall below p = .031, which no correction would leave significant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from suite.analysis.statistics.noise import cut_outliers, widen
from suite.plan.measuring import MARGIN

Key = TypeVar("Key", bound=Hashable)

#: With fewer blocks a ratio is shown but not tested.
BLOCKS_LEAST = 6
LEVEL = 0.05
#: The most blocks that an undecided ratio is said to need.
BLOCKS_MOST = 100

OPPOSITE = {"faster": "slower", "slower": "faster"}
INCONCLUSIVE = "inconclusive"

#: Two rows whose whole interval lies within this factor of 1 cannot be told apart. It is the difference that six to ten
#: launches of the published runs show nearly always: a wider interval says only that more launches are needed.
CLOSE_TO_ONE = 1.1
#: How an inconclusive ratio stands: close to 1; beyond the margin before the correction only; anywhere.
CLOSE, PROBABLE, OPEN = "close", "probable", "open"


@dataclass(frozen=True)
class Estimate:
    """``value`` and its bounds over ``blocks`` blocks; if ``value`` is None, ``reason`` says why there is none.

    ``caveat`` names the conditions in which the two rows differ and that change the speed, not the numbers.

    With a test these are the geometric mean and its interval at ``level``, at which Holm's correction over ``tests``
    comparisons tested it; ``p`` is the p-value after that correction (``raw`` before it), and the ``verdict`` follows
    from the interval. ``alone_low`` and ``alone_high`` are the ends of the 95 % interval before the correction; where
    that lies beyond the margin and the corrected one does not, ``probably`` says the direction. Without a test they are
    the median, the lowest and the highest.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    blocks: int = 0
    baseline: str = ""
    reason: str = ""
    caveat: str = ""
    p: float | None = None
    verdict: str = ""
    blocks_to_decide: int | None = None
    raw: float | None = None
    level: float | None = None
    tests: int = 0
    alone_low: float | None = None
    alone_high: float | None = None
    probably: str = ""

    @property
    def doubt(self) -> str:
        """How a ratio stands that no verdict decides: `CLOSE`, `PROBABLE` or `OPEN`; empty for all others."""
        if self.verdict != INCONCLUSIVE or not self.low or not self.high:
            return ""
        if self.low >= 1 / CLOSE_TO_ONE and self.high <= CLOSE_TO_ONE:
            return CLOSE
        return PROBABLE if self.probably else OPEN

    @property
    def reverse(self) -> Estimate:
        if not self.value or not self.low or not self.high:
            return self
        low, high = self.alone_low and 1 / self.alone_low, self.alone_high and 1 / self.alone_high
        return replace(
            self, value=1 / self.value, low=1 / self.high, high=1 / self.low, alone_low=high, alone_high=low,
            verdict=OPPOSITE.get(self.verdict, self.verdict), probably=OPPOSITE.get(self.probably, ""),
        )  # fmt: skip


@dataclass(frozen=True)
class Paired(Estimate):
    """A test before any correction: the geometric mean of ratios, its interval at ``level``, and the p-value.

    ``ends`` returns value, low and high for another level. ``blocks_ahead``, of a run that stops when it is decided,
    returns how many blocks would decide it at a level, with a margin.
    """

    value: float = 1.0
    low: float = 1.0
    high: float = 1.0
    p: float = 1.0
    level: float = LEVEL
    blocks_ahead: Callable[[float, float], int | None] | None = field(default=None, compare=False, repr=False)
    ends: Callable[[float], tuple[float, float, float]] | None = field(default=None, compare=False, repr=False)

    def corrected(self, level: float, p: float, tests: int, margin: float) -> Estimate:
        """The finding, with its interval at the level at which a correction over so many tests tested it."""
        value, low, high = self.ends(level) if self.ends else (self.value, self.low, self.high)
        done = Estimate(
            value, low, high, self.blocks, self.baseline, self.reason, self.caveat, p, raw=self.p, level=level,
            tests=tests, alone_low=self.low, alone_high=self.high,
        )  # fmt: skip
        word = verdict(done, margin)
        if word != INCONCLUSIVE:
            return replace(done, verdict=word)
        needed = self.blocks_ahead(level, margin) if self.blocks_ahead else blocks_to_decide(done, margin)
        alone = verdict(self, margin)
        return replace(done, verdict=word, blocks_to_decide=needed, probably=alone if alone in OPPOSITE else "")


def run_t_test(ratios: Sequence[float]) -> Paired | None:
    """The test of ratios by block; None with fewer than `BLOCKS_LEAST` blocks."""
    if len(ratios) < BLOCKS_LEAST:
        return None
    logs = np.log(ratios)
    (off,), _ = cut_outliers(logs[None])
    return _test_mean(logs - off, int(np.count_nonzero(off)))


def interval(ratios: Sequence[float]) -> Paired | None:
    """The same for two blocks or more, where only the interval decides; no outlier is cut, as few values tell none."""
    return _test_mean(np.log(ratios)) if len(ratios) > 1 else None


def _test_mean(logs: NDArray[np.float64], cut: int = 0) -> Paired:
    error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs)) * float(widen(len(logs), cut))
    mean = float(logs.mean() if np.ptp(logs) >= 1e-12 else logs[0])
    return _student(mean, error, len(logs) - 1, len(logs), scatters=bool(np.ptp(logs) >= 1e-12))


def welch(new: Sequence[float], base: Sequence[float]) -> Paired:
    """The same for values that share no blocks, as of two runs: Welch's t-test on logarithms, at least two each."""
    sides = new_logs, base_logs = np.log(new), np.log(base)
    # The squared standard errors of both means, and the degrees of freedom by Welch and Satterthwaite.
    squares = [float(np.var(logs, ddof=1)) / len(logs) for logs in sides]
    scatters = max(float(np.ptp(logs)) for logs in sides) >= 1e-12
    parts = sum(square**2 / (len(logs) - 1) for square, logs in zip(squares, sides, strict=True))
    mean = float(new_logs.mean() - base_logs.mean())
    freedom = sum(squares) ** 2 / parts if scatters else 1.0
    return _student(mean, math.sqrt(sum(squares)), freedom, min(len(new), len(base)), scatters=scatters)


def _student(mean: float, error: float, freedom: float, blocks: int, *, scatters: bool) -> Paired:
    """Value, interval and two-sided p-value by Student's t, from the mean of logarithms and its standard error.

    Only generated figures have no scatter. `scipy.special`, since importing `scipy.stats` takes longer than most
    comparisons.
    """
    if not scatters:
        value = math.exp(mean)
        return Paired(value, value, value, blocks, p=float(abs(mean) < 1e-12))

    def ends(level: float) -> tuple[float, float, float]:
        half_width = _quantile(freedom, level) * error
        return math.exp(mean), math.exp(mean - half_width), math.exp(mean + half_width)

    return Paired(*ends(LEVEL), blocks, p=2 * float(special.stdtr(freedom, -abs(mean) / error)), ends=ends)


def _quantile(freedom: float, level: float = LEVEL) -> float:
    return float(special.stdtrit(freedom, 1 - level / 2))


def mean_test(values: Sequence[float], margin: float = 0.0) -> tuple[float, float, float, float, float]:
    """The mean of values, its 95 % interval, and the p-values of no difference and of one beyond a margin.

    By Student's t; the second are two one-sided tests (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics,
    1987).
    """
    mean, freedom = math.fsum(values) / len(values), len(values) - 1
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    if error <= 1e-12 * abs(mean):  # no scatter at all, which hardly any but generated figures have
        return mean, mean, mean, float(abs(mean) < 1e-12), float(abs(mean) >= margin)
    half_width = _quantile(freedom) * error
    differs = 2 * float(special.stdtr(freedom, -abs(mean) / error))
    beyond = float(special.stdtr(freedom, (abs(mean) - margin) / error))
    return mean, mean - half_width, mean + half_width, differs, beyond


def holm(values: Sequence[float]) -> list[float]:
    adjusted, running = [0.0] * len(values), 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        running = max(running, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = running
    return adjusted


def correct(tests: Sequence[Paired], margin: float = MARGIN) -> Iterator[Estimate]:
    """The verdict on each test, with its interval at the level at which Holm's correction over all of them tested it.

    The test with the k-th smallest of m p-values is rejected at LEVEL / (m - k + 1); those that are not have all been
    tested at the level of the first of them.
    """
    adjusted = holm([test.p for test in tests])
    rejected = sum(p < LEVEL for p in adjusted)
    ranks = {at: rank for rank, at in enumerate(sorted(range(len(tests)), key=lambda at: tests[at].p))}
    levels = [LEVEL / (len(tests) - min(ranks[at], rejected)) for at in range(len(tests))]
    corrected = zip(tests, levels, adjusted, strict=True)
    return (test.corrected(level, p, len(tests), margin) for test, level, p in corrected)


def decide(
    formed: Mapping[Key, Estimate], margin: float = MARGIN, others: Sequence[Paired] = ()
) -> dict[Key, Estimate]:
    """All estimates; those that have a test with their verdict after a correction over these and ``others``."""
    tests = {key: each for key, each in formed.items() if isinstance(each, Paired)}
    return {**formed, **dict(zip(tests, correct([*tests.values(), *others], margin), strict=False))}


def verdict(test: Estimate, margin: float = MARGIN) -> str:
    """`faster` or `slower` where the whole interval is beyond the margin, `equal` within it, else `inconclusive`."""
    assert test.low is not None
    assert test.high is not None
    if test.low > 1 + margin:
        return "faster"
    if test.high < 1 / (1 + margin):
        return "slower"
    return "equal" if 1 / (1 + margin) <= test.low and test.high <= 1 + margin else INCONCLUSIVE


def blocks_to_decide(test: Estimate, margin: float = MARGIN, most: int = BLOCKS_MOST) -> int | None:
    """How many blocks would move the interval out of the margin if the scatter stays the same; None if none would."""
    assert test.value
    assert test.low
    assert test.high
    level = test.level or LEVEL
    mean = abs(math.log(test.value))
    if mean <= math.log1p(margin):
        return None
    half_width = (math.log(test.high) - math.log(test.low)) / 2
    deviation = half_width / _quantile(test.blocks - 1, level) * math.sqrt(test.blocks)
    for blocks in range(test.blocks + 1, most + 1):
        if mean - _quantile(blocks - 1, level) * deviation / math.sqrt(blocks) > math.log1p(margin):
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

"""Is a ratio more than noise? A paired test on the ratios of blocks, its interval, and a verdict with a margin.

A block holds one launch of each cell, so that what slows the machine for all cancels out in its ratio. The logarithms
of these ratios are tested by Student's one-sample t-test against 0. It was chosen by simulation (``python -m
tests.significance``): with six launches neither a sign test nor Wilcoxon's can fall below p = .031, so that Holm's
correction over a few rows would never let anything be significant. The t-test can decide there, and with the margin on
top no more than a few in ten thousand rows without a difference are called faster, with drift and outliers too. What
outliers cost is power: where one launch in twenty is 30 % slow, a ratio of 1.30 is found in half of the rows only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

#: Fewer blocks are shown and not tested.
LEAST = 6
LEVEL = 0.05
#: Ratios closer to 1 than this are equal for every practical purpose.
MARGIN = 0.02


@dataclass(frozen=True)
class Paired:
    """The geometric mean of the ratios with its 95 % interval, and the p-value before any correction."""

    value: float
    low: float
    high: float
    p: float
    blocks: int


def paired(ratios: Sequence[float]) -> Paired | None:
    """The test; None with fewer than `LEAST` blocks."""
    if len(ratios) < LEAST:
        return None
    logs = np.log(ratios)
    if np.ptp(logs) < 1e-12:  # no scatter at all, which only generated figures have
        value = math.exp(float(logs[0]))
        return Paired(value, value, value, 1.0 if abs(logs[0]) < 1e-12 else 0.0, len(ratios))
    found = stats.ttest_1samp(logs, 0.0)
    low, high = found.confidence_interval(1 - LEVEL)
    return Paired(math.exp(float(logs.mean())), math.exp(low), math.exp(high), float(found.pvalue), len(ratios))


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down correction of p-values, in their order (Holm, Scandinavian Journal of Statistics 6, 1979)."""
    adjusted, running = [0.0] * len(values), 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        running = max(running, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = running
    return adjusted


def margin(control: Sequence[float]) -> float:
    """How far from 1 a ratio may lie and mean nothing: 2 %, or more where two copies of one cell differ by more.

    ``control`` holds the A/A ratios: the same cell against itself, in the same blocks. Theirs is the 95th percentile of
    what lies between single launches, so that it is a careful margin.
    """
    if not control:
        return MARGIN
    return max(MARGIN, math.expm1(float(np.percentile(np.abs(np.log(control)), 95))))


def verdict(found: Paired, p: float, apart: float) -> str:
    """`faster` or `slower` outside of the margin and significant, `equal` within it, else `inconclusive`.

    ``p`` is the corrected p-value of ``found``, and ``apart`` the margin.
    """
    if p < LEVEL and found.low > 1 + apart:
        return "faster"
    if p < LEVEL and found.high < 1 / (1 + apart):
        return "slower"
    return "equal" if 1 / (1 + apart) <= found.low and found.high <= 1 + apart else "inconclusive"


def blocks_to_decide(found: Paired, apart: float, most: int = 100) -> int | None:
    """How many blocks would take the interval out of the margin if the scatter stays as it is; None if none would.

    For a table that cannot decide: the way out is more launches, and this is how many.
    """
    mean = abs(math.log(found.value))
    if mean <= math.log1p(apart):
        return None
    half = (math.log(found.high) - math.log(found.low)) / 2
    deviation = half / float(stats.t.ppf(1 - LEVEL / 2, found.blocks - 1)) * math.sqrt(found.blocks)
    for blocks in range(found.blocks + 1, most + 1):
        if mean - float(stats.t.ppf(1 - LEVEL / 2, blocks - 1)) * deviation / math.sqrt(blocks) > math.log1p(apart):
            return blocks
    return None

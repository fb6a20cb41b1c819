"""The masks that a dropout leaves, and how far what is drawn scatters by chance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from workloads.data.dataset import Array

#: Of a share that differs by chance: so many standard deviations, and as much in any case.
DEVIATIONS, LEAST_SHARE = 6.0, 0.02
#: The largest relative difference that is of rounding, in float32 too.
ROUNDING = 1e-5


@dataclass(frozen=True, eq=False)
class Mask:
    """A dropout right before a layer: ``of`` what, what it keeps (passes, samples, ...), and by which factor.

    ``kept`` is NaN where there was nothing to drop.
    """

    of: str
    kept: Array
    scale: float

    @cached_property
    def share(self) -> float:
        """What it drops."""
        return 1 - float(np.nanmean(self.kept))

    @cached_property
    def count(self) -> int:
        return int(np.count_nonzero(~np.isnan(self.kept)))

    @property
    def drops(self) -> bool:
        return self.share > 0 or abs(self.scale - 1) > ROUNDING

    @property
    def rate(self) -> float:
        """The rate that scales by 1 / (1 - rate); 0 where the share that is dropped is not near it."""
        rate = 1 - 1 / self.scale if self.drops and self.scale > 1 else 0.0
        return rate if abs(rate - self.share) < 0.1 else 0.0

    def __str__(self) -> str:
        return f"drops {self.rate or self.share:.1%} of {self.of}" if self.drops else "drops nothing"


def find_mask(of: str, base: Array, value: Array) -> Mask | None:
    """The dropout that makes ``value`` of ``base``: zeros, and one multiple everywhere else."""
    there = np.abs(base) > 1e-6 * np.abs(base).max(initial=0.0)
    if not there.any() or np.abs(value[~there]).max(initial=0.0) > 1e-4 * np.abs(base).max():
        return None
    ratios = np.divide(value, base, out=np.full(base.shape, np.nan), where=there)
    kept = np.where(there, np.abs(ratios) > ROUNDING, np.nan)
    rest = ratios[kept == 1]
    scale = float(np.median(rest)) if rest.size else 1.0
    return Mask(of, kept, scale) if np.abs(rest - scale).max(initial=0.0) <= ROUNDING * abs(scale) else None


def correlate_vectors(near: Array, axis: int) -> tuple[float, float] | None:
    """The mean correlation of vectors (samples, ..., n) of all pairs along an axis, and what it scatters by chance.

    That is at least what independent vectors scatter by, and what leaving out one sample after the other shows.
    """
    total, squares, counts = near.sum(axis), (near**2).sum(-1), near.any(-1).sum(axis)
    own = squares.sum(axis)

    def correlate(total: Array, own: Array, counts: Array) -> tuple[float, int]:
        pairs = counts * (counts - 1)
        some = pairs > 0
        return float((((total**2).sum(-1) - own)[some] / pairs[some]).mean()) if some.any() else 0.0, int(pairs.sum())

    value, pairs = correlate(total, own, counts)
    if not pairs:
        return None
    without = [value]
    if len(near) > 2:
        there = np.asarray(near.any(-1))
        without = [
            correlate(total - near[at], own - squares[at], counts - there[at])[0] if axis == 0
            else correlate(*(np.delete(each, at, 0) for each in (total, own, counts)))[0]
            for at in range(len(near))
        ]  # fmt: skip
    return value, max(float(np.std(without) * len(without) ** 0.5), float(1 / np.sqrt(near.shape[-1] * pairs / 4)))


def find_bound(one: float, other: float, count: int) -> float:
    """How far two shares of so many values may lie apart by chance."""
    variance = max(one * (1 - one), other * (1 - other), 1e-3)
    return max(DEVIATIONS * float(np.sqrt(2 * variance / count)), LEAST_SHARE)

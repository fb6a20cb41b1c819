"""What launches scatter by: cells and blocks, outliers, and the noise that the rows of a table share.

A launch that lies far from what its cell and its block lead to expect is moved to a bound before it is tested, so that
one bad launch does not ruin a comparison: winsorised residuals, as in Huber's M-estimate by pseudo-values (P. J. Huber,
Robust Statistics, 1981, section 7.8), where cells and blocks are fitted by medians (J. W. Tukey's median polish,
Exploratory Data Analysis, 1977).

The bound was fixed before the data, by simulation. It is `SCALES` deviations, the table's or the cell's own, whichever
is larger: a cell that scatters more than others is no outlier. It is never less than `LEAST_CUT`, since processes of
one program run at two speeds 17 to 26 % apart: a lower bound takes one of the speeds for the outlier, and up to 36 % of
simulated answers were wrong. Leaving launches out instead made up to 16 % wrong.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy import special

Scores = NDArray[np.float64]

#: How many robust standard deviations a launch may lie from what was expected.
SCALES = 2.5
#: How far in logarithms it may lie in any case: 22 % slower, or 28 % faster.
LEAST_CUT = 0.25
#: The median absolute deviation of normal values, and what it is stretched by for few values from none on
#: (C. Croux and P. J. Rousseeuw, Computational Statistics 1, 1992).
_NORMAL = 1.4826
_FEW = np.array([1.0, 1.0, 1.196, 1.495, 1.363, 1.206, 1.200, 1.140, 1.129, 1.107])


def cut_outliers(logs: Scores) -> tuple[Scores, Scores]:
    """What is taken off the logarithms of throughputs (..., cells, blocks), mostly 0, and how far they lie off.

    Missing ones are NaN, and nothing is taken off them. With one cell the values are ratios, which have no effects of
    blocks left in them.
    """
    known = ~np.isnan(logs)
    rest = logs - _median(logs, -1)
    if logs.shape[-2] > 1:
        rest = rest - _median(rest, -2)
        rest = rest - _median(rest, -1)
    scale = SCALES * _deviation(rest, known)
    # Of two launches in a block each is expected half-way between: it has half of an outlier, and half of the variance.
    of_two = (logs.shape[-2] > 1) & (known.sum(axis=-2, keepdims=True) == 2)
    bound = np.where(of_two, np.maximum(scale / np.sqrt(2), LEAST_CUT / 2), np.maximum(scale, LEAST_CUT))
    beyond: Scores = np.where(known, rest - np.clip(rest, -bound, bound), 0.0)
    return beyond, rest


def widen(count: int, cut: Scores | float) -> Scores | float:
    """The factor of a mean's standard error where so many of its launches were cut.

    It is that of a winsorised mean (J. W. Tukey and D. H. McLaughlin, Sankhya A 25, 1963).
    """
    return count / np.maximum(count - cut, 1)


def _deviation(rest: Scores, known: NDArray[np.bool_]) -> Scores:
    counts, cells = known.sum(axis=-1, keepdims=True), (known.any(axis=-1)).sum(axis=-1)[..., None, None]
    values = known.sum(axis=(-1, -2))[..., None, None]
    blocks = known.any(axis=-2).sum(axis=-1)[..., None, None] if rest.shape[-2] > 1 else 1
    sizes = np.abs(rest)
    flat = sizes.reshape(*sizes.shape[:-2], 1, -1)
    freedom = np.maximum(values - cells - blocks + 1, 1)
    table = _NORMAL * np.sqrt(values / freedom) * _median(flat, -1)
    few = np.where(counts < len(_FEW), _FEW[np.minimum(counts, len(_FEW) - 1)], counts / np.maximum(counts - 0.8, 1))
    own = _NORMAL * few * np.sqrt(cells / np.maximum(cells - 1, 1)) * _median(sizes, -1)
    larger: Scores = np.fmax(table, own)
    return larger


def _median(values: Scores, axis: int) -> Scores:
    ordered = np.sort(values, axis=axis)  # those that are missing come last
    count = (~np.isnan(values)).sum(axis=axis, keepdims=True)
    low, high = (np.take_along_axis(ordered, np.maximum(at, 0), axis) for at in ((count - 1) // 2, count // 2))
    middle: Scores = (low + high) / 2
    return middle


@dataclass(frozen=True)
class Fit:
    """The mean score of each cell without the effects of blocks, and the noise of one launch.

    ``means`` (cells,) is NaN for a cell without any score, ``counts`` (cells,) the scores of each. ``deviation`` is NaN
    while there are no degrees of freedom.
    """

    means: Scores
    counts: NDArray[np.int64]
    deviation: float
    freedom: int

    def errors(self, cell: int) -> Scores:
        """The standard errors (cells,) of the differences to this cell, for cells of the same blocks."""
        errors: Scores = self.deviation * np.sqrt(1 / np.maximum(self.counts, 1) + 1 / self.counts[cell])
        return errors

    def reach(self, chance: float) -> float:
        """How many standard errors a one-sided bound of this chance lies away."""
        return float(special.stdtrit(self.freedom, 1 - chance)) if self.freedom else math.inf

    def best(self, alive: NDArray[np.bool_]) -> int:
        return int(np.nanargmax(np.where(alive, self.means, np.nan)))


def fit(scores: Scores) -> Fit:
    """The least-squares fit of cells and blocks, for any pattern of missing scores."""
    known = ~np.isnan(scores)
    weights = known.astype(float)
    values = np.where(known, scores, 0.0)
    counts, of_blocks = known.sum(axis=0), weights.sum(axis=1)
    safe = np.maximum(counts, 1)
    # The normal equations with the cells eliminated: as many unknowns as blocks, whose sum is left open.
    matrix = np.diag(of_blocks) - (weights / safe) @ weights.T
    right = values.sum(axis=1) - weights @ (values.sum(axis=0) / safe)
    effects = np.linalg.pinv(matrix, hermitian=True) @ right
    means = (values - effects[:, None] * weights).sum(axis=0) / safe
    rest = (values - means - effects[:, None]) * weights
    freedom = max(0, int(counts.sum()) - int((counts > 0).sum()) - int((of_blocks > 0).sum()) + 1)
    deviation = math.sqrt(float((rest**2).sum()) / freedom) if freedom else math.nan
    return Fit(np.where(counts > 0, means, np.nan), counts, deviation, freedom)


@dataclass(frozen=True)
class PairNoise:
    """The variance of a logarithm in all pairs of a table after a block, and what is cut off outliers by block."""

    variance: float
    cut: Mapping[int, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class TableNoise:
    """The same of all rows of a table, after each block, by row and block of the launch."""

    variance: Mapping[int, float]
    cut: Mapping[int, Mapping[Hashable, Mapping[int, float]]]

    def of_pair(self, row: Hashable, other: Hashable) -> dict[int, PairNoise]:
        noise = {}
        for block, variance in self.variance.items():
            one, another = (self.cut[block].get(key, {}) for key in (row, other))
            cut = {at: (one.get(at, 0.0), another.get(at, 0.0)) for at in {*one, *another}}
            noise[block] = PairNoise(variance, cut)
        return noise


def measure_noise(logs: Scores, keys: Sequence[Hashable], blocks: Sequence[int]) -> TableNoise:
    """The noise of a table from the logarithms (rows, blocks) of its rows' throughputs, NaN where there is none."""
    variances: dict[int, float] = {}
    cuts: dict[int, dict[Hashable, dict[int, float]]] = {}
    for at, block in enumerate(blocks):
        so_far = logs[:, : at + 1]
        beyond, rest = cut_outliers(so_far)
        # Outliers say nothing of the noise: those that were cut are as expected here, and do not count.
        counted = np.count_nonzero(~np.isnan(so_far))
        share = counted / (counted - np.count_nonzero(beyond))
        deviation = fit(np.where(beyond, so_far - rest, so_far).T).deviation
        variances[block] = 0.0 if math.isnan(deviation) else 2 * deviation**2 * share
        cuts[block] = {
            key: {blocks[int(place)]: float(off[place]) for place in np.flatnonzero(off)}
            for key, off in zip(keys, beyond, strict=True)
            if off.any()
        }
    return TableNoise(variances, cuts)

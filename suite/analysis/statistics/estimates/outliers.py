"""Cuts single bad launches off before they are tested, so that one of them does not ruin a comparison.

A launch that lies far from what its cell and its block lead to expect is moved to a bound: winsorised residuals, as in
Huber's M-estimate by pseudo-values (P. J. Huber, Robust Statistics, 1981, section 7.8), where cells and blocks are
fitted by medians (J. W. Tukey's median polish, Exploratory Data Analysis, 1977). What lies within the bound stays as it
is, so that clean launches are tested as ever.

The bound was fixed before the data, by simulation. It is `SCALES` deviations, the table's or the cell's own, whichever
is larger: a cell that scatters more than others is no outlier. It is never less than `LEAST_CUT`, since processes of
one program run at two speeds 17 to 26 % apart: a lower bound takes one of the speeds for the outlier, and up to 36 % of
simulated answers were wrong. Launches are moved and not left out, since of a cell that is often slow they are a
property: leaving them out made up to 16 % of simulated answers wrong.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

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

    It is that of a winsorised mean (J. W. Tukey and D. H. McLaughlin, Sankhya A 25, 1963). With its power 3/4, and
    bounds of two deviations, 7.7 % of simulated answers were wrong where one cell scatters much more than others.
    """
    return count / np.maximum(count - cut, 1)


def _deviation(rest: Scores, known: NDArray[np.bool_]) -> Scores:
    """The robust standard deviation (..., cells, 1) of a launch: the table's, or the cell's own if that is larger."""
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
    """The median along an axis, which stays, without the missing values; much faster than NumPy's for many tables."""
    ordered = np.sort(values, axis=axis)  # those that are missing come last
    count = (~np.isnan(values)).sum(axis=axis, keepdims=True)
    low, high = (np.take_along_axis(ordered, np.maximum(at, 0), axis) for at in ((count - 1) // 2, count // 2))
    middle: Scores = (low + high) / 2
    return middle

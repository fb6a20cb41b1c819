"""Which cells of a race can go: sequential elimination with Student bounds, and how much risk that spends.

Scores are logarithms of an objective, higher is better, one row per block and one column per cell; NaN where a cell was
not launched, or failed. The noise is of one scale and estimated from all cells at once, which lets a race drop cells
after two launches each. From the second block on a cell goes if it is more than the margin behind the best one and
significantly worse: a one-sided bound by Student's t, with Bonferroni's correction over the cells that are left, at the
look's share of `LEVEL`: the alpha spending of group-sequential trials (Lan and DeMets, Biometrika 70, 1983) in a race
(Maron and Moore, NIPS 6, 1994; successive elimination: Even-Dar, Mannor and Mansour, JMLR 7, 2006).

The method and the constants were chosen by simulation with the noise of committed launches (docs/lab/search.md), which
``python -m tests.studies.tune`` repeats for this method.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from suite.analysis.statistics.noise import Fit, Scores, fit

#: The risk that a race drops the best cell, over all its looks.
LEVEL = 0.05
#: The share of the level that the first test spends; each later one spends this share of what is left.
FIRST = 0.3

Flags = NDArray[np.bool_]


def share(look: int) -> float:
    """The share of the level that a test spends, counted from 1: a geometric series, whose sum is 1."""
    return float(FIRST * (1 - FIRST) ** (look - 1))


def spent(looks: int) -> float:
    """The risk that so many tests spent together."""
    return LEVEL * (1 - float((1 - FIRST) ** looks))


def find_eliminated(scores: Scores, alive: Flags, margin: float, judges: Flags | None = None) -> Flags:
    """The cells (cells,) that go after the last block of ``scores``; ``alive`` are those that ran in it.

    They are compared with the best of ``judges`` (cells,), by default of all: a cell that may still turn out to break a
    limit must not drop others.
    """
    fitted = fit(scores)
    alive = alive & (fitted.counts > 0)
    best = alive if judges is None else alive & judges
    if alive.sum() < 2 or not best.any():
        return np.zeros_like(alive)
    top = fitted.best(best)
    behind = fitted.means[top] - fitted.means
    return alive & exceeds_bound(behind, fitted, top, rivals=int(alive.sum()) - 1, look=len(scores) - 1, margin=margin)


def exceeds_bound(behind: Scores, fitted: Fit, top: int, *, rivals: int, look: int, margin: float) -> Flags:
    """Which differences to the cell ``top`` are significant at this look among so many rivals and beyond the margin."""
    if not fitted.freedom:
        return np.zeros(len(behind), dtype=bool)
    bound = fitted.reach(LEVEL * share(look) / rivals) * fitted.errors(top)
    return np.asarray(behind > np.maximum(bound, math.log1p(margin)))


def all_tie(scores: Scores, alive: Flags, margin: float) -> bool:
    """Whether each cell that is left is shown to lie within the margin of the best, by bounds of `LEVEL`."""
    if alive.sum() < 2:
        return True
    fitted = fit(scores)
    if not fitted.freedom or (fitted.counts[alive] == 0).any():
        return False
    top = fitted.best(alive)
    bound = fitted.means[top] - fitted.means + fitted.reach(LEVEL / (int(alive.sum()) - 1)) * fitted.errors(top)
    bound[top] = 0.0
    return bool((bound[alive] <= math.log1p(margin)).all())


def find_dominated(scores: list[Scores], alive: Flags, margin: float, judges: Flags | None = None) -> Flags:
    """The cells that go where two objectives are asked for: those that another one beats.

    To beat is to be significantly better beyond the margin in one objective, and in the other either that too, or not
    to be worse beyond the margin by any bound.
    """
    fits = [fit(each) for each in scores]
    for fitted in fits:
        alive = alive & (fitted.counts > 0)
    gone = np.zeros_like(alive)
    rivals, look = int(alive.sum()) - 1, len(scores[0]) - 1
    best = alive if judges is None else alive & judges
    if rivals < 1 or not all(fitted.freedom for fitted in fits):
        return gone
    for top in np.flatnonzero(best):
        behind = [fitted.means[top] - fitted.means for fitted in fits]
        better = [
            exceeds_bound(each, fitted, int(top), rivals=rivals**2, look=look, margin=margin)
            for each, fitted in zip(behind, fits, strict=True)
        ]
        chance = LEVEL * share(look) / rivals**2
        no_worse = [
            each - fitted.reach(chance) * fitted.errors(int(top)) >= -math.log1p(margin)
            for each, fitted in zip(behind, fits, strict=True)
        ]
        beats = (better[0] & (better[1] | no_worse[1])) | (better[1] & no_worse[0])
        beats[top] = False
        gone |= alive & beats
    return gone

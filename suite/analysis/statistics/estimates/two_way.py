"""Cells and blocks: the scores of launches without what a block has in common, and the noise of one launch."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

Scores = NDArray[np.float64]


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
        """How many standard errors a one-sided bound of this chance lies away; infinite without any freedom."""
        return float(special.stdtrit(self.freedom, 1 - chance)) if self.freedom else math.inf

    def best(self, alive: NDArray[np.bool_]) -> int:
        """The column of the best cell that is left."""
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

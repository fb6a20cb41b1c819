"""The noise that the rows of a table share after each block, and what is cut off their outliers."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from suite.analysis.statistics.estimates.outliers import cut_outliers
from suite.analysis.statistics.estimates.two_way import fit

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PairNoise:
    """What a table says of a pair after a block: the variance of a logarithm that all its pairs share, and outliers.

    ``cut`` is what is taken off the logarithms of the pair's two launches of a block, where either is an outlier.
    """

    variance: float
    cut: Mapping[int, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class TableNoise:
    """The same of all rows of a table, after each block; what is cut off launches is by their row's key and block."""

    variance: Mapping[int, float]
    cut: Mapping[int, Mapping[Hashable, Mapping[int, float]]]

    def of_pair(self, row: Hashable, other: Hashable) -> dict[int, PairNoise]:
        """What the table says of the rows with these keys after each block."""
        noise = {}
        for block, variance in self.variance.items():
            one, another = (self.cut[block].get(key, {}) for key in (row, other))
            cut = {at: (one.get(at, 0.0), another.get(at, 0.0)) for at in {*one, *another}}
            noise[block] = PairNoise(variance, cut)
        return noise


def measure_noise(logs: Array, keys: Sequence[Hashable], blocks: Sequence[int]) -> TableNoise:
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

"""The evidence of identity in every record: ten training steps that all frameworks take from the same weights.

The steps use the cell's framework, precision and compile mode, but a fixed small batch and no dropout (no two
frameworks draw the same mask), so that the fingerprints of all cells of a workload and precision can be compared.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from suite.record.record import Identity
from workloads.data.augment import Batches, batches_digest
from workloads.data.dataset import Array, DataSet
from workloads.spec import WorkloadSpec, weights_digest

STEPS = 10
BATCH = 8
SEED = 20210501  # of weights and batches; the same in all runs, so that fingerprints of different runs compare

#: How many of the measured loader's first batches go into the record's digest.
DIGESTED_BATCHES = 3


def proof(spec: WorkloadSpec) -> WorkloadSpec:
    """The spec at the rate at which fingerprints train."""
    return replace(spec, optimizer=replace(spec.optimizer, learning_rate=spec.proof_learning_rate))


def fixed_batches(data: DataSet, length: int | None) -> list[tuple[Array, Array]]:
    """The batches that every fingerprint trains on."""
    source = Batches(data, BATCH, SEED, length)
    return [source[number] for number in range(STEPS)]


def identity(
    before: dict[str, Array], after: dict[str, Array], losses: list[float], delivered: list[tuple[Array, Array]]
) -> Identity:
    """The record's evidence, from the weights before and after the steps, their losses, and the loader's batches."""
    return Identity(
        weights=weights_digest(before),
        batches=batches_digest(delivered),
        losses=tuple(losses),
        updates={name: _update(before[name], after[name]) for name in before},
    )


def _update(before: Array, after: Array) -> float:
    """``|after - before| / |before|``, or the plain norm where the tensor started at zero."""
    start = float(np.linalg.norm(before.astype(np.float64)))
    moved = float(np.linalg.norm(after.astype(np.float64) - before.astype(np.float64)))
    return moved / start if start else moved

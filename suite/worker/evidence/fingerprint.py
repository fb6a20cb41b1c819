"""Fingerprints: a few training steps that all frameworks take from the same weights on the same batches.

They use a fixed small batch or the cell's own, and no dropout (no two frameworks draw the same mask), so that the
fingerprints of all cells of a workload and precision can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from workloads.data.augment import Batches
from workloads.data.dataset import Array, DataSet
from workloads.data.tokenizer import FIRST_WORD, VOCABULARY
from workloads.spec import WorkloadSpec

STEPS = 6
BATCH = 8
OWN_STEPS = 2  # at the cell's own batch: momentum counts, and rounding is not yet amplified
SEED = 20210501  # of weights and batches; the same in all runs, so that fingerprints of different runs compare

#: How many of the measured loader's first batches go into the record's digest.
DIGESTED_BATCHES = 3


def proof(spec: WorkloadSpec) -> WorkloadSpec:
    """The spec at the rate at which fingerprints train."""
    return replace(spec, optimizer=replace(spec.optimizer, learning_rate=spec.proof_learning_rate))


def fixed_batches(
    data: DataSet, length: int | None, batch: int = BATCH, steps: int = STEPS
) -> list[tuple[Array, Array]]:
    """The batches that every fingerprint trains on."""
    source = Batches(data, batch, SEED, length)
    return [source[number] for number in range(steps)]


def drawn_from(data: DataSet, length: int | None, batch: int) -> tuple[Array, Array]:
    """The batch on which dropout is drawn: noise, so that the spread is the same with any data.

    Of images it is any; of reviews, so many words as there are, each as likely as another. Of inputs from outside noise
    may be none, so it is a batch of theirs.
    """
    if data.batch_form == "images":
        shape = (batch, *data.train.inputs.shape[1:])
        noise = np.random.default_rng(SEED).integers(0, 256, shape, dtype=np.uint8)
        return noise, np.zeros(batch, np.int32)
    if data.name == "imdb":
        words = np.random.default_rng(SEED).integers(FIRST_WORD, VOCABULARY, (batch, length or 0), dtype=np.int32)
        return words, np.zeros(batch, np.int32)
    return fixed_batches(data, length, batch, 1)[0]


def movement(before: Mapping[str, Array], after: Mapping[str, Array]) -> dict[str, float]:
    """How far every tensor moved: ``|after - before| / |before|``, or the plain norm where it started at zero."""
    return {name: _relative_movement(before[name], after[name]) for name in before}


def _relative_movement(before: Array, after: Array) -> float:
    norm = float(np.linalg.norm(before.astype(np.float64)))
    distance = float(np.linalg.norm(after.astype(np.float64) - before.astype(np.float64)))
    return distance / norm if norm else distance

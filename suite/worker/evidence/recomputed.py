"""The evidence of gradient checkpointing: what a forward pass keeps, and whether the gradients stayed the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from suite.plan.cell import USUAL_COMPILE
from suite.record.evidence import Recomputed
from suite.worker.evidence.fingerprint import BATCH, SEED, fixed_batches, proof
from workloads.data.dataset import Array


def recomputed(subject: Any) -> Recomputed:
    """What checkpointing changes for a `suite.worker.evidence.subject.Subject`, in its precision and usual compile
    mode.

    Both models start from the same random state, so that other dropout masks in the second pass of a block would show.
    """
    host = fixed_batches(subject.data, subject.length, BATCH, 1)[0]
    usual = subject.cell.but(batch=BATCH, accumulate=1, compile=USUAL_COMPILE[subject.cell.framework])
    kept, gradients = {}, {}
    for checkpointing in ("off", "on"):
        subject.tools.seeded(SEED)
        cell = usual.but(checkpointing=checkpointing)
        training = subject.training(cell, proof(subject.spec), dropout=subject.dropout)
        batch = training.put(host)
        _, gradients[checkpointing] = training.gradients(batch)
        kept[checkpointing] = subject.tools.kept(training, batch)
    return Recomputed(BATCH, kept["on"], kept["off"], deviation(gradients["on"], gradients["off"]))


def deviation(found: dict[str, Array], expected: dict[str, Array]) -> float:
    """The largest relative distance of a tensor from the expected one; 0 if all are equal to the last bit."""
    return max(_distance(found[name].astype(np.float64), expected[name].astype(np.float64)) for name in expected)


def _distance(found: Array, expected: Array) -> float:
    distance, norm = float(np.linalg.norm(found - expected)), float(np.linalg.norm(expected))
    return distance / norm if norm else distance

"""Dropout by its draws: masks cannot match between frameworks, but how far they scatter the logits must."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from suite.plan.cell import USUAL_COMPILE
from suite.record.evidence import Draws
from suite.worker.fingerprint import drawn_from
from suite.worker.outcome import check
from suite.worker.subject import Subject
from workloads.data.dataset import Array
from workloads.spec import specification

#: Forward passes with dropout, and images in each, every one with masks of its own. Of the spread that they show, one
#: standard deviation is 0.6 % (n = 26 groups of 16 passes). Size small draws by the same code and at the same rates as
#: the full one, whose passes took as long as eight training steps.
DRAWS, DRAWS_BATCH, DRAWS_SIZE = 20, 32, "small"
#: Passes of a model that has one logit, which says less than a hundred.
DRAWS_OF = {"imdb_transformer": 80}
#: Steps on one batch of so many images, whose losses must differ.
DRAWN_STEPS, DRAWN_BATCH = 2, 4


def draws(subject: Subject) -> Draws:
    """Dropout at fixed weights, on noise, so that the spread is the same with any data."""
    spec = subject.spec if subject.spec.size == DRAWS_SIZE else specification(subject.spec.name, DRAWS_SIZE)
    frozen = replace(spec, optimizer=replace(spec.optimizer, learning_rate=0.0))
    compile_mode = USUAL_COMPILE[subject.cell.framework]
    cell = subject.cell.but(batch=DRAWN_BATCH, accumulate=1, compile=compile_mode, size=DRAWS_SIZE, devices=1)
    training = subject.training(cell, frozen, dropout=True)
    noise, labels = drawn_from(subject.data, getattr(spec, "length", None), DRAWS_BATCH)
    passes = DRAWS_OF.get(spec.name, DRAWS)
    logits = subject.tools.draws(training, training.put((noise, labels)), passes)
    drawn = noise[:DRAWN_BATCH], labels[:DRAWN_BATCH]
    if subject.team:  # every device takes the same samples, and no two of them draw the same masks either
        devices = subject.cell.devices
        training = subject.training(cell.but(devices=devices, strategy=subject.cell.strategy), frozen, dropout=True)
        drawn = subject.mine((np.concatenate([drawn[0]] * devices), np.concatenate([drawn[1]] * devices)))
    batch = training.put(drawn)
    training.compile(batch)
    pending = [training.step(batch) for _ in range(DRAWN_STEPS)]
    losses = check(pending, training, "the steps with dropout")
    if subject.team:
        losses = training.each(pending)
    return Draws(spread(logits), tuple(losses), shared(logits))


def spread(logits: Array) -> float:
    """The standard deviation of each logit over draws, (draws, b, classes), as root mean square over all of them."""
    return float(np.sqrt(np.var(logits, axis=0, ddof=1).mean()))


def shared(logits: Array) -> float:
    """The variance of a batch's mean logits over draws, (draws, b, classes), in shares of that of independent masks.

    That is 1, and b where all samples of a batch share one mask. 0 where nothing is drawn.
    """
    single = float(np.var(logits, axis=0, ddof=1).mean())
    mean = float(np.var(logits.mean(axis=1), axis=0, ddof=1).mean())
    return mean * logits.shape[1] / single if single else 0.0

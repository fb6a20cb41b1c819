"""Dropout by its draws: masks cannot match between frameworks, but how far they scatter logits and layers must."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from suite.plan.cell import USUAL_COMPILE
from suite.record.parts.evidence import Draws
from suite.worker.evidence.fingerprint import dropout_batch
from suite.worker.evidence.owners import owners
from suite.worker.evidence.subject import Subject
from suite.worker.launch.outcome import check
from workloads.data.dataset import Array

#: Forward passes with dropout, and samples in each, every one with masks of its own. Of the spread that images show,
#: one standard deviation is 0.6 % (n = 26 groups of 16 passes of the small CNN). Texts are fewer, since the full
#: Transformer takes a tenth of a second for one.
DRAWS, DRAWS_OF_TEXTS = (20, 32), (10, 8)
#: Spreads of a layer's input below this are of rounding: there is nothing drawn before it.
LEAST = 1e-4
#: Steps on one batch of so many images, whose losses must differ.
DRAWN_STEPS, DRAWN_BATCH = 2, 4


def draws(subject: Subject) -> Draws:
    """Dropout at fixed weights, on noise, so that the spread is the same with any data."""
    spec = subject.spec
    frozen = replace(spec, optimizer=replace(spec.optimizer, learning_rate=0.0))
    compile_mode = USUAL_COMPILE[subject.cell.framework]
    cell = subject.cell.but(batch=DRAWN_BATCH, accumulate=1, compile=compile_mode, checkpointing="off", devices=1)
    training = subject.training(cell, frozen, dropout=True)
    passes, samples = DRAWS_OF_TEXTS if subject.data.batch_form == "tokens" else DRAWS
    noise, labels = dropout_batch(subject.data, subject.length, samples)
    logits, inputs = subject.tools.draws(training, training.put((noise, labels)), passes)
    layers = _by_tensor(inputs, subject.tools.parameters_by_layer(training), training.weights()) if inputs else {}
    drawn = noise[:DRAWN_BATCH], labels[:DRAWN_BATCH]
    if subject.team:  # every device takes the same samples, and no two of them draw the same masks either
        devices = subject.cell.devices
        training = subject.training(cell.but(devices=devices, strategy=subject.cell.strategy), frozen, dropout=True)
        drawn = subject.take_share((np.concatenate([drawn[0]] * devices), np.concatenate([drawn[1]] * devices)))
    batch = training.put(drawn)
    training.compile(batch)
    pending = [training.step(batch) for _ in range(DRAWN_STEPS)]
    losses = check(pending, training, "the steps with dropout")
    if subject.team:
        losses = training.each(pending)
    whole = [each for each in (*inputs.values(), logits) if each.shape[1] == samples]
    return Draws(spread(logits), tuple(losses), max(map(share_of_variance, whole)), spec.size, layers)


def _by_tensor(inputs: dict[str, Array], owned: dict[str, list[Array]], weights: dict[str, Array]) -> dict[str, float]:
    """The spread of each layer's input (draws, b, ...) by the name of its kernel, relative to the input itself.

    It is seen before a residual addition too, where nothing is zero.
    """
    kernels = {name: array for name, array in weights.items() if array.ndim > 1}  # those of biases are alike
    called = [(path, None, None) for path in inputs]
    found = {}
    for path, names in owners(owned, kernels, called).items():
        drawn = inputs[path].astype(np.float64)
        size = float(np.sqrt(np.mean(drawn**2)))
        relative = spread(drawn) / size if size else 0.0
        found[names[0]] = relative if relative > LEAST else 0.0
    return found


def spread(logits: Array) -> float:
    """The standard deviation of each number over draws, (draws, b, ...), as root mean square over all of them."""
    return float(np.sqrt(np.var(logits, axis=0, ddof=1).mean()))


def share_of_variance(drawn: Array) -> float:
    """The variance of a batch's mean over draws, (draws, b, ...), in shares of that of independent masks.

    That is 1, and b where all samples of a batch share one mask. 0 where nothing is drawn.
    """
    drawn = drawn.astype(np.float64)
    single = float(np.var(drawn, axis=0, ddof=1).mean())
    mean = float(np.var(drawn.mean(axis=1), axis=0, ddof=1).mean())
    return mean * drawn.shape[1] / single if single else 0.0

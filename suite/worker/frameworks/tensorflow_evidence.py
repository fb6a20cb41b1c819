"""What TensorFlow's `Training` shows of itself for the evidence in a record; nothing here is timed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.data.dataset import Array


def on_host() -> AbstractContextManager[Any]:
    """A context in which a `Training` on ``cpu`` computes there, in float64 if its cell asks for it."""
    return tf.device("/CPU:0")  # a function's operations would be placed on a GPU where there is one


def programs_kept(folder: str) -> AbstractContextManager[Any]:
    """A context in which compiled programs are kept in the folder and taken from there."""
    del folder  # TensorFlow traces and optimises a graph in well under a second, and keeps none
    return nullcontext()


def adopt(training: Any, other: Any) -> None:
    """Reuse what another `Training` of exactly the same program has compiled, if it can be shared."""
    del training, other  # a trace holds the variables of its own model


def explained_step(training: Any, batch: Any) -> tuple[float, dict[str, Array]]:
    """One update as `Training.step` makes it; returns the loss before it and its gradient, in canonical layout."""
    loss, gradients = training.explained(*batch)
    names = training.module.variables(training.model)
    return float(loss), {name: gradient.numpy() for name, gradient in zip(names, gradients, strict=True)}


def draws(training: Any, batch: Any, count: int) -> Array:
    """The logits of ``count`` forward passes in training mode, each with new dropout masks: (count, b, classes)."""
    forward = tf.function(lambda inputs: tf.cast(training.model(inputs, training=True), tf.float64))
    return np.stack([forward(batch[0]).numpy() for _ in range(count)])

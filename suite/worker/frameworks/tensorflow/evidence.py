"""What TensorFlow's `Training` shows of itself for the evidence in a record; nothing here is timed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from suite.worker.evidence.owners import once, part
from suite.worker.frameworks.tensorflow.constants import exact
from suite.worker.frameworks.tensorflow.proof import calls, parameters_by_layer  # noqa: F401 - for the spread at each layer
from workloads.data.dataset import Array
from workloads.defaults.tensorflow import join
from workloads.dropout.tensorflow import turn_off


@contextmanager
def on_host() -> Iterator[dict[str, float]]:
    """A context in which a `Training` on ``cpu`` computes there, in float64 if its cell asks for it.

    It gives the constants that are rounded elsewhere (`suite.worker.frameworks.tensorflow.constants`).
    """
    # A function's operations would be placed on a GPU where there is one.
    with tf.device("/CPU:0"), programs_kept("", "quickly"), exact() as rounded:
        yield rounded


@contextmanager
def programs_kept(folder: str, how: str) -> Iterator[None]:
    """A context in which compiled programs are kept in the folder and taken from there; TensorFlow keeps none.

    Where it is to be ``quickly`` graphs are not optimised, which takes longer than a few steps of a small one.
    """
    del folder
    options = tf.config.optimizer
    previous = options.get_experimental_options().get("disable_meta_optimizer", False)
    try:
        options.set_experimental_options({"disable_meta_optimizer": how == "quickly" or previous})
        yield
    finally:
        options.set_experimental_options({"disable_meta_optimizer": previous})


def without_dropout(training: Any) -> None:
    """Train without dropout from now on, by the same program, where its workload's file has that in the state."""
    turn_off(training.model.layers)


def explain_step(training: Any, batch: Any) -> tuple[float, dict[str, Array]]:
    """One update as `Training.step` makes it; returns the loss before it and its gradient, in canonical layout."""
    scale = float(getattr(training.optimizer, "dynamic_scale", 1.0))
    loss, gradients = training.explained(*batch)
    return float(loss), {name: gradient / scale for name, gradient in training.named(gradients).items()}


def updates(training: Any) -> int | None:
    """How many steps the optimizer of a `Training` has counted itself; None where it keeps no count."""
    optimizer = getattr(training.optimizer, "inner_optimizer", training.optimizer)
    return min(int(each.iterations.numpy()) for each in getattr(optimizer, "own", [optimizer]))


def draws(training: Any, batch: Any, count: int) -> tuple[Array, dict[str, Array]]:
    """The logits of ``count`` forward passes in training mode, each with new dropout masks: (count, b, classes).

    And the input of each layer that is called once, of as many samples as `part` takes.
    """

    def forward(inputs: tf.Tensor) -> Any:
        with calls(training, of=lambda x: tf.cast(part(x), tf.float32) if isinstance(x, tf.Tensor) else None) as called:
            logits = tf.cast(join(training.model(inputs, training=True)), tf.float64)
        return logits, once(called)

    compiled = tf.function(forward, autograph=False)
    passes = [compiled(batch[0]) for _ in range(count)]
    inputs = {path: np.stack([each[path].numpy() for _, each in passes]) for path in passes[0][1]}
    return np.stack([logits.numpy() for logits, _ in passes]), inputs


def seed_draws(seed: int) -> None:
    """Start the generator that dropout draws from anew."""
    keras.utils.set_random_seed(seed)


def count_kept_bytes(training: Any, batch: Any) -> int:
    """Bytes that a forward pass keeps for the backward pass, besides weights, statistics and the batch.

    They are what the graph's operations of the forward pass give to those of the backward pass. The pass itself runs
    for the tensors whose shape no graph knows, such as the space that a fused normalisation reserves.
    """

    def traced(inputs: tf.Tensor, labels: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = training.module.loss(training.model, inputs, labels)
        forward = {operation.name for operation in loss.graph.get_operations()}
        tape.gradient(loss, training.model.trainable_variables)
        given = {
            tensor.name: tensor
            for each in loss.graph.get_operations() if each.name not in forward for tensor in each.inputs
            if tensor.op.name in forward and tensor.op.type not in ("ReadVariableOp", "Placeholder", "Const")
        }  # fmt: skip
        return [tf.size(tensor, tf.int64) * tensor.dtype.size for tensor in given.values()]

    return sum(int(size) for size in tf.function(traced, autograph=False)(*batch))

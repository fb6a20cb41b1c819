"""Defaults of a workload's `tensorflow.py`: import those that fit, and write the others."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from workloads.data.dataset import Array
from workloads.spec import Numbers, WorkloadSpec


def loss(model: keras.Model, inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """The mean over the batch of the softmax cross entropy of logits (b, classes)."""
    logits = tf.cast(model(inputs, training=True), model.layers[-1].variable_dtype)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def scores(model: keras.Model, inputs: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Of every sample the loss (b,), and whether the largest logit is the label's (b,); of the model in evaluation."""
    logits = tf.cast(model(inputs, training=False), model.layers[-1].variable_dtype)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return losses, tf.argmax(logits, 1, output_type=labels.dtype) == labels


def kernels(spec: WorkloadSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    """Which implementation of a layer runs, where there is a choice: none."""
    del spec, numbers, device, kernel
    return {}


def import_weights(model: keras.Model, weights: dict[str, Array]) -> None:
    """Set every tensor from canonical weights."""
    for name, variable in variables(model).items():
        variable.assign(weights[name].astype(variable.dtype))


def export_weights(model: keras.Model) -> dict[str, Array]:
    """A copy of every tensor in canonical layout, on the host."""
    return {name: np.array(variable.numpy()) for name, variable in variables(model).items()}


def variables(model: keras.Model) -> dict[str, keras.Variable]:
    """Canonical name to variable, in the order of ``model.trainable_variables``; the layouts are the canonical ones."""
    named = {}
    for variable in model.trainable_variables:
        *_, layer, name = variable.path.split("/")
        named[f"{layer}/{_NAMES.get(name, name)}"] = variable
    return named


#: Canonical names that Keras spells otherwise.
_NAMES = {"embeddings": "table", "gamma": "scale", "beta": "bias"}

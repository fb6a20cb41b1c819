"""Defaults of a workload's `tensorflow.py`: import those that fit, and write the others."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from workloads.data.dataset import Array
from workloads.defaults import Part, cut
from workloads.defaults.keras import import_weights, variables
from workloads.spec import Numbers, WorkloadSpec

__all__ = (
    "BatchNormalization", "Unpack", "export_weights", "import_weights", "join", "kernels", "loss", "scores",
    "squared_loss", "squared_scores", "variables",
)  # fmt: skip


def loss(model: keras.Model, inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """The mean over the batch of the softmax cross entropy of logits (b, classes)."""
    logits = tf.cast(model(inputs, training=True), model.layers[-1].variable_dtype)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def scores(model: keras.Model, inputs: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Of every sample the loss (b,), and whether the largest logit is the label's (b,); of the model in evaluation."""
    logits = tf.cast(model(inputs, training=False), model.layers[-1].variable_dtype)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return losses, tf.argmax(logits, 1, output_type=labels.dtype) == labels


def squared_loss(model: keras.Model, inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """For regression in place of `loss`: the mean squared error of outputs (b, ...) with as many labels."""
    return tf.reduce_mean(tf.square(_off(model, inputs, labels, training=True)))


def squared_scores(model: keras.Model, inputs: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Of every sample the mean squared error (b,), and whether all outputs are within 0.5 of their labels (b,)."""
    off = _off(model, inputs, labels, training=False)
    return tf.reduce_mean(tf.square(off), 1), tf.reduce_all(tf.abs(off) < 0.5, 1)


def _off(model: keras.Model, inputs: tf.Tensor, labels: tf.Tensor, training: bool) -> tf.Tensor:
    output = tf.cast(model(inputs, training=training), model.layers[-1].variable_dtype)
    output = tf.reshape(output, (tf.shape(labels)[0], -1))
    return output - tf.cast(tf.reshape(labels, tf.shape(output)), output.dtype)


class Unpack(keras.layers.Layer):
    """The inputs that `workloads.data.own.pack` made one of, by the shape of a sample and the type of each."""

    def __init__(self, parts: tuple[Part, ...], **options: Any) -> None:
        super().__init__(**options)
        self.parts = parts

    def call(self, inputs: tf.Tensor) -> list[tf.Tensor]:
        each = [(tf.reshape(inputs[:, place], (-1, *shape)), dtype) for place, _, shape, dtype in cut(self.parts)]
        return [tf.bitcast(array, dtype) for array, dtype in each]


class BatchNormalization(keras.layers.BatchNormalization):
    """Keras' layer, but that its running variance takes the unbiased one of the batch, as PyTorch's does."""

    def call(self, inputs: tf.Tensor, training: bool | None = None, mask: Any = None) -> tf.Tensor:
        before = tf.identity(self.moving_variance)
        output = super().call(inputs, training=training, mask=mask)
        if training:
            after = tf.convert_to_tensor(self.moving_variance)
            values = tf.cast(tf.size(inputs) // inputs.shape[self.axis], after.dtype)
            self.moving_variance.assign_add((after - self.momentum * before) / (values - 1))
        return output


def join(output: Any) -> tf.Tensor:
    """A model's output as one tensor: several, in a tuple or list, as (b, numbers)."""
    several = isinstance(output, tuple | list)
    return tf.concat([tf.reshape(each, (tf.shape(each)[0], -1)) for each in output], 1) if several else output


def kernels(spec: WorkloadSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    """Which implementation of a layer runs, where there is a choice: none."""
    del spec, numbers, device, kernel
    return {}


def export_weights(model: keras.Model) -> dict[str, Array]:
    """A copy of every tensor in canonical layout, on the host."""
    return {name: np.array(variable.numpy()) for name, variable in variables(model).items()}

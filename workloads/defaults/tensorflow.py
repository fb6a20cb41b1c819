"""Defaults of a workload's `tensorflow.py`: import those that fit, and write the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from workloads import defaults
from workloads.data.dataset import Array
from workloads.defaults.keras import import_weights, policy, variables

__all__ = (
    "BatchNormalization", "Dropout", "Recomputed", "Unpack", "binary_loss", "binary_scores", "by_sample",
    "export_weights", "import_weights", "join", "kernels", "loss", "policy", "scores", "squared_loss", "squared_scores",
    "turn_off", "variables",
)  # fmt: skip

Compared = Callable[[Any, tf.Tensor], tf.Tensor]

#: Which implementation of a layer runs, where there is a choice: none.
kernels = defaults.kernels


def by_sample(losses: Compared, right: Compared) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def loss(model: keras.Model, inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(losses(_output(model, inputs, training=True), labels))

    def scores(model: keras.Model, inputs: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        output = _output(model, inputs, training=False)
        return losses(output, labels), right(output, labels)

    return loss, scores


def _output(model: keras.Model, inputs: tf.Tensor, training: bool) -> Any:
    def one(each: tf.Tensor) -> tf.Tensor:
        flat = tf.squeeze(each, 1) if each.shape.rank == 2 and each.shape[1] == 1 else each
        return tf.cast(flat, model.layers[-1].variable_dtype)

    return tf.nest.map_structure(one, model(inputs, training=training))


def _off(output: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    off = output - tf.cast(tf.reshape(labels, tf.shape(output)), output.dtype)
    return tf.reshape(off, (tf.shape(off)[0], -1))


#: The softmax cross entropy of logits (b, classes); a sample is right if the largest logit is the label's.
loss, scores = by_sample(
    lambda logits, labels: tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits),
    lambda logits, labels: tf.argmax(logits, 1, output_type=labels.dtype) == labels,
)
#: The binary cross entropy of logits (b,); a sample is right if the logit's sign is the label's.
binary_loss, binary_scores = by_sample(
    lambda logits, labels: tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(labels, logits.dtype), logits),
    lambda logits, labels: (logits > 0) == (labels > 0),
)
#: The mean squared error of outputs (b, ...), for a regression; right if all are within 0.5 of their labels.
squared_loss, squared_scores = by_sample(
    lambda output, labels: tf.reduce_mean(tf.square(_off(output, labels)), 1),
    lambda output, labels: tf.reduce_all(tf.abs(_off(output, labels)) < 0.5, 1),
)


class Unpack(keras.layers.Layer):
    """The inputs that `workloads.data.own.pack` made one of, by the shape of a sample and the type of each."""

    def __init__(self, parts: tuple[defaults.Part, ...], **options: Any) -> None:
        super().__init__(**options)
        self.parts = parts

    def call(self, inputs: tf.Tensor) -> list[tf.Tensor]:
        each = [
            (tf.reshape(inputs[:, place], (-1, *shape)), dtype) for place, _, shape, dtype in defaults.cut(self.parts)
        ]
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
    several = isinstance(output, tuple | list)
    return tf.concat([tf.reshape(each, (tf.shape(each)[0], -1)) for each in output], 1) if several else output


def export_weights(model: keras.Model) -> dict[str, Array]:
    """A copy of every tensor in canonical layout, on the host."""
    return {name: np.array(variable.numpy()) for name, variable in variables(model).items()}


class Recomputed(keras.layers.Layer):
    """A block of layers, itself a Keras model, whose activations the backward pass computes again in training.

    `tf.recompute_grad` runs the block twice, with all that it changes. So the block runs as a pure function here, in
    Keras' stateless scope: what it draws and what statistics start from is read before, and set once after it.
    A block of two inputs gets the second as ``beside``.
    """

    def __init__(self, block: keras.Model, dtype: str) -> None:
        super().__init__(dtype=dtype)
        self.block = block

    def call(self, x: tf.Tensor, beside: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        inputs = [x] if beside is None else [x, beside]
        if not training:
            return self.block(inputs if beside is not None else x, training=training)
        state = [(variable, tf.convert_to_tensor(variable.value)) for variable in self.block.non_trainable_variables]
        statistics = [variable for variable, value in state if value.dtype.is_floating]

        def forward(*inputs: tf.Tensor) -> list[tf.Tensor]:
            with keras.StatelessScope(state_mapping=state) as scope:
                y = self.block(list(inputs) if len(inputs) > 1 else inputs[0], training=True)
            return [y, *(tf.stop_gradient(scope.get_current_value(variable)) for variable in statistics)]

        y, *after = tf.recompute_grad(forward)(*inputs)
        for variable, value in zip(statistics, after, strict=True):
            variable.assign(value)
        for layer in self.block.layers:
            if hasattr(layer, "seed_generator"):
                layer.seed_generator.next()  # as the draw of the block's dropout, which the scope has undone
        return y


class Dropout(keras.layers.Layer):
    """`keras.layers.Dropout` by the same operations, so that equal seeds draw equal masks; with rate 0 nothing."""

    def __init__(self, rate: float, **options: Any) -> None:
        super().__init__(**options)
        self.rate = rate
        if rate:
            self.seed_generator = keras.random.SeedGenerator()

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"rate": self.rate}

    def build(self, shape: tuple[int, ...]) -> None:
        del shape
        if self.rate:
            start = keras.initializers.Constant(self.rate)
            self.variable = self.add_weight((), start, trainable=False, autocast=False, name="rate")

    def compute_output_spec(self, x: keras.KerasTensor, **_: Any) -> keras.KerasTensor:
        """Of the input's shape and type."""
        return keras.KerasTensor(x.shape, self.compute_dtype)

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if not training or not self.rate:
            return x
        rate = tf.cast(tf.convert_to_tensor(self.variable), x.dtype)
        seed = tf.math.floormod(self.seed_generator.next(), tf.int32.max - 1)  # int32 is what XLA takes
        drawn = tf.random.stateless_uniform(tf.shape(x), tf.cast(seed, tf.int32), dtype=x.dtype)
        return tf.where(drawn >= rate, x * (1 / (1 - rate)), tf.zeros((), x.dtype))

    def turn_off(self) -> None:
        """Drop nothing from now on, and draw as before."""
        if self.rate:
            self.variable.assign(0)


def turn_off(layers: list[keras.layers.Layer]) -> None:
    """Turn the dropout of a model with these layers off, and of the blocks among them."""
    for outer in layers:
        for layer in outer._flatten_layers():
            if isinstance(layer, Dropout):
                layer.turn_off()

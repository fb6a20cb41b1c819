"""Gradient checkpointing in TensorFlow, by `tf.recompute_grad` around a block of Keras layers."""

from __future__ import annotations

import keras
import tensorflow as tf


class Recomputed(keras.layers.Layer):
    """A block of layers, itself a Keras model, whose activations the backward pass computes again in training.

    `tf.recompute_grad` runs the block twice, with all that it changes. So the block runs as a pure function here, in
    Keras' stateless scope: what it draws and what statistics start from is read before, and set once after it.
    """

    def __init__(self, block: keras.Model, dtype: str) -> None:
        super().__init__(dtype=dtype)
        self.block = block

    def call(self, x: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if not training:
            return self.block(x, training=training)
        state = [(variable, tf.convert_to_tensor(variable.value)) for variable in self.block.non_trainable_variables]
        statistics = [variable for variable, value in state if value.dtype.is_floating]

        def forward(x: tf.Tensor) -> list[tf.Tensor]:
            with keras.StatelessScope(state_mapping=state) as scope:
                y = self.block(x, training=True)
            return [y, *(tf.stop_gradient(scope.get_current_value(variable)) for variable in statistics)]

        y, *after = tf.recompute_grad(forward)(x)
        for variable, value in zip(statistics, after, strict=True):
            variable.assign(value)
        for layer in self.block.layers:
            if hasattr(layer, "seed_generator"):
                layer.seed_generator.next()  # as the draw of the block's dropout, which the scope has undone
        return y

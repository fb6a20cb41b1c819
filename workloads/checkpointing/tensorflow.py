"""Gradient checkpointing in TensorFlow, by `tf.recompute_grad` around a block of Keras layers."""

from __future__ import annotations

import keras
import tensorflow as tf


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

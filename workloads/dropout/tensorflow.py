"""Dropout in TensorFlow at a rate that is a variable; Keras' own layer has a constant."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


class Dropout(keras.layers.Layer):
    """`keras.layers.Dropout` by the same operations, so that equal seeds draw equal masks; with rate 0 nothing."""

    def __init__(self, rate: float, **options: Any) -> None:
        super().__init__(**options)
        self.rate = rate
        if rate:
            self.seed_generator = keras.random.SeedGenerator()

    def get_config(self) -> dict[str, Any]:
        """What makes another layer like this."""
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

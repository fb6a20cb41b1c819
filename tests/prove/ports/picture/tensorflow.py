from __future__ import annotations

import keras
import tensorflow as tf

from workloads.defaults.tensorflow import BatchNormalization, export_weights, import_weights, kernels, variables
from workloads.defaults.tensorflow import squared_loss as loss
from workloads.defaults.tensorflow import squared_scores as scores

from .spec import CHANNELS, EPSILON, MOMENTUM

__all__ = ("build", "export_weights", "import_weights", "kernels", "loss", "scores", "variables")


class Grey(keras.layers.Layer):
    """A weight-normalised convolution of 1 x 1, then the larger of its channels."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(1, 1, shape[-1], 2), name="kernel")
        self.length = self.add_weight(shape=(2,), name="length")
        self.bias = self.add_weight(shape=(2,), name="bias")

    def call(self, x):
        kernel = self.kernel[0, 0] / tf.norm(self.kernel[0, 0], axis=0) * self.length
        return tf.reduce_max(tf.matmul(x, kernel) + self.bias, -1)


def build(spec, numbers, dropout=True, device="cpu", kernel="auto"):
    layers, dtype = keras.layers, numbers.weights
    model = keras.Sequential(
        [
            keras.Input((8, 8, 3), dtype="float32"),
            layers.ZeroPadding2D(1, dtype=dtype),
            layers.Conv2D(CHANNELS, 3, 2, use_bias=False, name="down", dtype=dtype),
            BatchNormalization(momentum=1 - MOMENTUM, epsilon=EPSILON, name="middle", dtype=dtype),
            layers.ReLU(dtype=dtype),
            layers.Conv2DTranspose(4, 4, 2, padding="same", name="up", dtype=dtype),
            layers.LayerNormalization(epsilon=EPSILON, name="norm", dtype=dtype),
            Grey(name="grey", dtype=dtype),
        ]
    )
    model.canonical_names = {"grey/length": "grey/scale"}
    return model

from __future__ import annotations

import keras

from workloads.defaults.tensorflow import BatchNormalization, export_weights, import_weights, kernels, variables
from workloads.defaults.tensorflow import squared_loss as loss
from workloads.defaults.tensorflow import squared_scores as scores

from .spec import CHANNELS, EPSILON, MOMENTUM

__all__ = ("build", "export_weights", "import_weights", "kernels", "loss", "scores", "variables")


def build(spec, numbers, dropout=True, device="cpu", kernel="auto"):
    layers, dtype = keras.layers, numbers.weights
    return keras.Sequential(
        [
            keras.Input((8, 8, 3), dtype="float32"),
            layers.ZeroPadding2D(1, dtype=dtype),
            layers.Conv2D(CHANNELS, 3, 2, use_bias=False, name="down", dtype=dtype),
            BatchNormalization(momentum=1 - MOMENTUM, epsilon=EPSILON, name="middle", dtype=dtype),
            layers.ReLU(dtype=dtype),
            layers.Conv2DTranspose(4, 4, 2, padding="same", name="up", dtype=dtype),
            layers.LayerNormalization(epsilon=EPSILON, name="norm", dtype=dtype),
            layers.Conv2D(1, 1, name="grey", dtype=dtype),
        ]
    )

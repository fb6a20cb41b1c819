"""`cifar100_cnn` in Keras on any backend, channels last: the layers that the interface `keras` trains."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from workloads.cifar100_cnn.spec import CLASSES, DEVIATION, IMAGE, KERNEL, MEAN, CnnSpec
from workloads.defaults import kernels
from workloads.defaults.keras import export_weights, import_weights, policy, variables
from workloads.spec import Numbers

__all__ = ("build", "export_weights", "import_weights", "kernels", "loss", "scores", "variables")


class Normalise(keras.layers.Layer):
    """uint8 images to standardised floats, in the weights' type; the layers after it cast to the compute type."""

    def call(self, images: Any) -> Any:
        mean, deviation = (
            keras.ops.convert_to_tensor(np.array(values, self.variable_dtype)) for values in (MEAN, DEVIATION)
        )
        return (keras.ops.cast(images, self.variable_dtype) - mean) / deviation


def build(
    spec: CnnSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto"
) -> keras.Model:
    dtype = policy(numbers)
    layers = keras.layers
    stack: list[keras.layers.Layer] = [keras.Input(IMAGE, dtype="uint8"), Normalise(dtype=dtype)]
    names = iter(spec.layers)
    for rate in spec.dropout:
        (first, _, outputs, _), (second, *_) = next(names), next(names)
        stack += [
            layers.Conv2D(outputs, KERNEL, padding="same", activation="relu", name=first, dtype=dtype),
            layers.Conv2D(outputs, KERNEL, padding="valid", activation="relu", name=second, dtype=dtype),
            layers.MaxPooling2D(2, dtype=dtype),
            layers.Dropout(rate if dropout else 0, dtype=dtype),
        ]
    stack += [
        layers.Flatten(dtype=dtype),
        layers.Dense(spec.hidden, activation="relu", name="hidden", dtype=dtype),
        layers.Dropout(spec.hidden_dropout if dropout else 0, dtype=dtype),
        layers.Dense(CLASSES, name="logits", dtype=dtype),
    ]
    return keras.Sequential(stack)


def loss(dtype: str) -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, dtype=dtype)


def scores(logits: Any, labels: Any) -> tuple[Any, Any]:
    losses = keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    return losses, keras.ops.argmax(logits, 1) == keras.ops.cast(labels, "int32")

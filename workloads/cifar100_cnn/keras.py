"""`cifar100_cnn` in Keras on any backend, channels last: the layers that the interface `keras` trains."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from workloads.cifar100_cnn.spec import CLASSES, DEVIATION, IMAGE, KERNEL, MEAN, CnnSpec
from workloads.data.dataset import Array
from workloads.spec import Numbers


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
    """The model, its weights not yet set: uint8 images (batch, 32, 32, 3) to logits (batch, 100)."""
    dtype = numbers.compute if numbers.compute == numbers.weights else f"mixed_{numbers.compute}"
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
    """Softmax cross entropy of logits (b, 100) and int labels (b,), averaged over the batch, in this type."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True, dtype=dtype)


def scores(logits: Any, labels: Any) -> tuple[Any, Any]:
    """Of every sample the loss (b,), and whether the largest logit is the label's (b,)."""
    losses = keras.ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    return losses, keras.ops.argmax(logits, 1) == keras.ops.cast(labels, "int32")


def kernels(spec: CnnSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    """Which implementation of a layer runs, where there is a choice."""
    return {}


def import_weights(model: keras.Model, weights: dict[str, Array]) -> None:
    """Set every tensor from canonical weights."""
    for name, variable in variables(model).items():
        variable.assign(weights[name].astype(variable.dtype))


def export_weights(model: keras.Model) -> dict[str, Array]:
    """A copy of every tensor in canonical layout, on the host."""
    tensors = {name: keras.ops.copy(variable) for name, variable in variables(model).items()}
    return {name: np.array(keras.ops.convert_to_numpy(tensor)) for name, tensor in tensors.items()}


def variables(model: keras.Model) -> dict[str, keras.Variable]:
    """Canonical name to variable, in the order of ``model.trainable_variables``; the layouts are the canonical ones."""
    return {"/".join(variable.path.split("/")[-2:]): variable for variable in model.trainable_variables}

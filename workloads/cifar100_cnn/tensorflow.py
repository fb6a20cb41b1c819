"""`cifar100_cnn` in TensorFlow: Keras 3 layers, channels last, which is the canonical layout."""

from __future__ import annotations

import keras
import tensorflow as tf

from workloads.cifar100_cnn.spec import CLASSES, DEVIATION, IMAGE, KERNEL, MEAN, CnnSpec
from workloads.defaults.tensorflow import (
    Dropout,
    Recomputed,
    export_weights,
    import_weights,
    kernels,
    loss,
    policy,
    scores,
    variables,
)
from workloads.spec import Numbers

__all__ = (
    "DROPOUT_IN_STATE", "FIRST_STAGE", "Normalise", "build", "export_weights", "import_weights", "kernels",
    "loss", "scores", "stages", "variables",
)  # fmt: skip

#: Layers of the first of two stages: up to the first convolution of the second block. In the full size these have 405
#: of 770 MFLOP.
FIRST_STAGE = 6

#: Whether dropout is in a training's state, so that what is timed can train without it.
DROPOUT_IN_STATE = True


class Normalise(keras.layers.Layer):
    """uint8 images to standardised floats, in the weights' type; the layers after it cast to the compute type."""

    def compute_output_spec(self, images: keras.KerasTensor) -> keras.KerasTensor:
        """Of the images' shape; said here, as Keras would trace the layer to find out."""
        return keras.KerasTensor(images.shape, self.variable_dtype)

    def call(self, images: tf.Tensor) -> tf.Tensor:
        mean, deviation = (tf.constant(values, self.variable_dtype) for values in (MEAN, DEVIATION))
        return (tf.cast(images, self.variable_dtype) - mean) / deviation


def build(
    spec: CnnSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    checkpointing: bool = False,
) -> keras.Model:  # fmt: skip
    dtype = policy(numbers)
    layers = keras.layers
    stack: list[keras.layers.Layer] = [keras.Input(IMAGE, dtype="uint8"), Normalise(dtype=dtype)]
    names = iter(spec.layers)
    for rate in spec.dropout:
        (first, _, outputs, _), (second, *_) = next(names), next(names)
        block = [
            layers.Conv2D(outputs, KERNEL, padding="same", activation="relu", name=first, dtype=dtype),
            layers.Conv2D(outputs, KERNEL, padding="valid", activation="relu", name=second, dtype=dtype),
            layers.MaxPooling2D(2, dtype=dtype),
            Dropout(rate if dropout else 0, dtype=dtype),
        ]
        stack += [Recomputed(keras.Sequential(block), dtype)] if checkpointing else block
    stack += [
        layers.Flatten(dtype=dtype),
        layers.Dense(spec.hidden, activation="relu", name="hidden", dtype=dtype),
        Dropout(spec.hidden_dropout if dropout else 0, dtype=dtype),
        layers.Dense(CLASSES, name="logits", dtype=dtype),
    ]
    return keras.Sequential(stack)


def stages(model: keras.Model) -> list[list[keras.layers.Layer]]:
    return [model.layers[:FIRST_STAGE], model.layers[FIRST_STAGE:]]

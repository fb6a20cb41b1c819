"""The custom training loop of TensorFlow's guide: one `tf.function`, with Keras' own layers, losses and optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from workloads.cifar100_cnn.spec import CLASSES, DEVIATION, IMAGE, KERNEL, MEAN, CnnSpec
from workloads.data.dataset import Array
from workloads.imdb_lstm.spec import VOCABULARY, LstmSpec


def plain(spec: CnnSpec | LstmSpec, batches: list[tuple[Array, Array]], device: str) -> Callable[[int], None]:
    """A function that trains for a number of steps on the given batches in turn."""
    del device  # Keras takes a GPU where there is one
    layers, settings = keras.layers, spec.optimizer
    optimizer: Any
    loss: Any
    if isinstance(spec, CnnSpec):
        variance = [value**2 for value in DEVIATION]
        stack: list[Any] = [keras.Input(IMAGE), layers.Normalization(mean=MEAN, variance=variance)]
        for outputs, rate in zip(spec.channels, spec.dropout, strict=True):
            stack += [
                layers.Conv2D(outputs, KERNEL, padding="same", activation="relu"),
                layers.Conv2D(outputs, KERNEL, activation="relu"),
                layers.MaxPooling2D(2),
                layers.Dropout(rate),
            ]
        stack += [layers.Flatten(), layers.Dense(spec.hidden, activation="relu"), layers.Dropout(spec.hidden_dropout)]
        stack += [layers.Dense(CLASSES)]
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer = keras.optimizers.SGD(settings.learning_rate, momentum=getattr(settings, "momentum", 0.0))
    else:
        stack = [keras.Input((spec.length,), dtype="int32"), layers.Embedding(VOCABULARY, spec.embedding)]
        stack += [layers.LSTM(spec.units), layers.Dense(1)]
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
        optimizer = keras.optimizers.Adam(settings.learning_rate)
    model = keras.Sequential(stack)
    inputs, labels = (tf.stack(arrays) for arrays in zip(*batches, strict=True))
    dataset = iter(tf.data.Dataset.from_tensor_slices((inputs, labels)).repeat().prefetch(tf.data.AUTOTUNE))

    @tf.function
    def step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            value = loss(labels, model(inputs, training=True))
        optimizer.apply_gradients(
            zip(tape.gradient(value, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return value

    def steps(count: int) -> None:
        for _ in range(count):
            last = step(*next(dataset))
        last.numpy()

    return steps

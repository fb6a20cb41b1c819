from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from .spec import CLASSES, EPSILON, HEADS, SMOOTHING, UNITS, WIDTH


def build(spec, numbers, dropout=True, device="cpu", kernel="auto"):
    layers, types = keras.layers, {"dtype": numbers.weights}
    images = keras.Input((8, 8, 3), dtype="uint8")
    x = layers.Rescaling(1 / 127.5, -1.0, **types)(images)
    x = layers.Conv2D(4, 3, padding="same", activation="relu", name="conv1", **types)(x)
    x = layers.MaxPooling2D(3, 2, **types)(layers.ZeroPadding2D(1, **types)(x))
    x = layers.Conv2D(4, 3, padding="same", name="conv2", **types)(x)
    x = layers.BatchNormalization(momentum=1.0, epsilon=EPSILON, name="norm", **types)(x)
    x = layers.LeakyReLU(negative_slope=0.2, **types)(x)
    x = layers.Conv2DTranspose(WIDTH, 3, 2, padding="valid", name="up", **types)(x)
    x = layers.Cropping2D(((1, 0), (1, 0)), **types)(x)
    x = layers.ZeroPadding2D(((1, 0), (1, 0)), **types)(x)
    ones = np.pad(np.ones((1, 8, 8, 1), numbers.weights), ((0, 0), (1, 0), (1, 0), (0, 0)))
    there = tf.nn.avg_pool2d(ones, 3, 2, "VALID")
    x = layers.AveragePooling2D(3, 2, **types)(x) / there
    x = layers.Reshape((16, WIDTH), **types)(x)
    attention = layers.MultiHeadAttention(HEADS, WIDTH // HEADS, name="attention", **types)
    x = layers.RMSNormalization(epsilon=1e-6, name="root", **types)(layers.Add(**types)([x, attention(x, x)]))
    x = layers.LSTM(UNITS, return_sequences=True, name="lstm1", **types)(x)
    x = layers.LSTM(UNITS, name="lstm2", **types)(x)
    x = layers.Dense(WIDTH, activation="gelu", name="hidden", **types)(x)
    return keras.Model(images, layers.Dense(CLASSES, name="logits", **types)(x))


def loss(model, images, labels):
    logits = model(images, training=True)
    options = {"from_logits": True, "label_smoothing": SMOOTHING, "dtype": logits.dtype.name}
    return keras.losses.CategoricalCrossentropy(**options)(tf.one_hot(labels, CLASSES, dtype=logits.dtype), logits)


def scores(model, images, labels):
    logits = model(images, training=False)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return losses, tf.argmax(logits, 1, output_type=labels.dtype) == labels


def kernels(spec, numbers, device, kernel):
    return {}


def import_weights(model, weights):
    for name, variable in variables(model).items():
        variable.assign(weights[name].astype(variable.dtype))


def export_weights(model):
    return {name: np.array(variable.numpy()) for name, variable in variables(model).items()}


def variables(model):
    names = {"gamma": "scale", "beta": "shift", "recurrent_kernel": "recurrent"}
    named = {}
    for variable in model.trainable_variables:
        path = [part.replace("attention_output", "out") for part in variable.path.split("/")]
        start = 0 if path[0] == "attention" else -2 if path[-2] != "lstm_cell" else -3
        kept = [part for part in path[start:] if part != "lstm_cell"]
        named["/".join([*kept[:-1], names.get(kept[-1], kept[-1])])] = variable
    return named

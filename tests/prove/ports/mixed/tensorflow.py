from __future__ import annotations

import keras
import tensorflow as tf

from workloads.defaults.tensorflow import Unpack, export_weights, import_weights, kernels, variables

from .spec import BAG, CLASSES, NUMBERS, PARTS, WIDTH, WORDS

__all__ = ("build", "export_weights", "import_weights", "kernels", "loss", "scores", "variables")


class Tied(keras.layers.Layer):
    """States to a logit for each word, by the embedding's own table."""

    def __init__(self, embedding, **options):
        super().__init__(**options)
        self.embedding = embedding

    def call(self, x):
        return tf.matmul(x, tf.convert_to_tensor(self.embedding.embeddings), transpose_b=True)


def build(spec, numbers, dropout=True, device="cpu", kernel="auto"):
    layers, dtype = keras.layers, numbers.weights
    inputs = keras.Input((4 * (NUMBERS + PARTS[0][0][0]),), dtype="uint8")
    words, values = Unpack(PARTS, dtype=dtype)(inputs)
    embedding = layers.Embedding(WORDS, WIDTH, name="words", dtype=dtype)
    x = embedding(words)
    state = layers.GRU(WIDTH, name="gru", dtype=dtype)(x)
    state = layers.RMSNormalization(epsilon=1e-6, name="norm", dtype=dtype)(state)
    both = x
    for number, lasting in enumerate((True, False)):
        lstm = layers.LSTM(WIDTH // 2, return_sequences=lasting, name=f"lstm_{number}", dtype=dtype)
        both = layers.Bidirectional(lstm, name=f"both_{number}", dtype=dtype)(both)
    bag = layers.Embedding(WORDS, BAG, name="bag", dtype=dtype)(words)
    bag = layers.GlobalAveragePooling1D(dtype=dtype)(bag)
    features = layers.Concatenate(dtype=dtype)([state, both, bag, values])
    head = layers.Dense(CLASSES, name="head", dtype=dtype)(features)
    value = layers.Dense(1, name="value", dtype=dtype)(features)
    return keras.Model(inputs, [head, Tied(embedding, dtype=dtype)(state), value])


def loss(model, inputs, labels):
    return tf.reduce_mean(_losses(model(inputs, training=True), labels))


def scores(model, inputs, labels):
    outputs = model(inputs, training=False)
    return _losses(outputs, labels), tf.argmax(outputs[0], 1) == tf.cast(labels[:, 0], tf.int64)


def _losses(outputs, labels):
    kind, word, value = outputs
    kinds, words = tf.cast(labels[:, 0], tf.int32), tf.cast(labels[:, 1], tf.int32)
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    return entropy(kinds, kind) + entropy(words, word) + tf.square(value[:, 0] - tf.cast(labels[:, 2], value.dtype))

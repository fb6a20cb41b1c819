"""The custom training loop of TensorFlow's guide: one `tf.function`, with Keras' own layers, losses and optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from workloads.cifar100_cnn.spec import CLASSES, DEVIATION, IMAGE, KERNEL, MEAN, CnnSpec
from workloads.data.dataset import Array
from workloads.gpt_small.spec import EPSILON, GptSpec
from workloads.imdb_lstm.spec import VOCABULARY, LstmSpec
from workloads.imdb_transformer.spec import PADDING, TransformerSpec

Spec = CnnSpec | LstmSpec | TransformerSpec | GptSpec


def train(spec: Spec, batches: list[tuple[Array, Array]], device: str) -> Callable[[int], None]:
    """A function that trains for a number of steps on the given batches in turn."""
    del device  # Keras takes a GPU where there is one
    settings: Any = spec.optimizer
    optimizer: Any
    binary = isinstance(spec, LstmSpec | TransformerSpec)
    losses = keras.losses
    loss: Any = (losses.BinaryCrossentropy if binary else losses.SparseCategoricalCrossentropy)(from_logits=True)
    if isinstance(spec, CnnSpec):
        optimizer = keras.optimizers.SGD(settings.learning_rate, momentum=settings.momentum)
    elif isinstance(spec, LstmSpec):
        optimizer = keras.optimizers.Adam(settings.learning_rate)
    else:
        betas = settings.beta1, settings.beta2
        optimizer = keras.optimizers.AdamW(settings.learning_rate, settings.decay, *betas)
    model = network(spec)
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


def serve(spec: Spec, inputs: list[Array], device: str) -> Callable[[int], None]:
    """A function that passes the given inputs through the model in turn, a number of times; of a GPT the last word."""
    del device
    on_device = [tf.constant(array) for array in inputs]
    model, last = network(spec), {"last": True} if isinstance(spec, GptSpec) else {}
    forward = tf.function(lambda tokens: model(tokens, training=False, **last))

    def steps(count: int) -> None:
        for step in range(count):
            logits = forward(on_device[step % len(on_device)])
        logits.numpy()

    return steps


def decode(spec: GptSpec, words: Array, device: str) -> Callable[[int], None]:
    """A function that writes a window after words (b, 1), a number of times, with the keys and values of all before."""
    del device
    model, first = network(spec), tf.constant(words)
    shape = (len(words), spec.length, spec.heads, spec.width // spec.heads)
    caches = [(tf.Variable(tf.zeros(shape)), tf.Variable(tf.zeros(shape))) for _ in model.blocks]
    places = [tf.constant([at]) for at in range(spec.length)]

    @tf.function
    def step(tokens: tf.Tensor, at: tf.Tensor) -> tf.Tensor:
        return tf.argmax(model.write(tokens, at, caches), -1, tokens.dtype)[:, None]

    def steps(count: int) -> None:
        for _ in range(count):
            tokens = first
            for at in places:
                tokens = step(tokens, at)
        tokens.numpy()

    return steps


def network(spec: Spec) -> keras.Model:
    """The model of a workload."""
    layers = keras.layers
    if isinstance(spec, GptSpec):
        model = Gpt(spec)
        model(tf.zeros((1, spec.length), tf.int32))  # which makes the variables
        return model
    if isinstance(spec, TransformerSpec):
        return _encoder(spec)
    if isinstance(spec, LstmSpec):
        stack: list[Any] = [keras.Input((spec.length,), dtype="int32"), layers.Embedding(VOCABULARY, spec.embedding)]
        return keras.Sequential([*stack, layers.LSTM(spec.units), layers.Dense(1)])
    stack = [keras.Input(IMAGE), layers.Normalization(mean=MEAN, variance=[value**2 for value in DEVIATION])]
    for outputs, rate in zip(spec.channels, spec.dropout, strict=True):
        stack += [
            layers.Conv2D(outputs, KERNEL, padding="same", activation="relu"),
            layers.Conv2D(outputs, KERNEL, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(rate),
        ]
    stack += [layers.Flatten(), layers.Dense(spec.hidden, activation="relu"), layers.Dropout(spec.hidden_dropout)]
    return keras.Sequential([*stack, layers.Dense(CLASSES)])


def _encoder(spec: TransformerSpec) -> keras.Model:
    """Tokens (batch, length) to logits (batch, 1): the mean of the words after blocks of attention without a bias."""
    layers = keras.layers
    tokens = keras.Input((spec.length,), dtype="int32")
    behind = [[0, 0], [0, spec.positions - spec.length]]
    padded = layers.Lambda(lambda tokens: tf.pad(tokens, behind, constant_values=PADDING))(tokens)
    there = layers.Lambda(lambda tokens: tokens != PADDING)(padded)
    places = layers.Embedding(spec.positions, spec.width)(tf.range(spec.positions))
    x = layers.Dropout(spec.dropout)(layers.Embedding(VOCABULARY, spec.width)(padded) + places)
    for _ in range(spec.layers):
        y = layers.LayerNormalization(epsilon=EPSILON)(x)
        attention = layers.MultiHeadAttention(spec.heads, spec.width // spec.heads, use_bias=False)
        x = x + layers.Dropout(spec.dropout)(attention(y, y, attention_mask=there[:, None]))
        y = layers.Dense(spec.hidden, activation="gelu")(layers.LayerNormalization(epsilon=EPSILON)(x))
        x = x + layers.Dropout(spec.dropout)(layers.Dense(spec.width)(y))
    x = layers.LayerNormalization(epsilon=EPSILON)(x)
    return keras.Model(tokens, layers.Dense(1)(layers.GlobalAveragePooling1D()(x, mask=there)))


class Gpt(keras.Model):
    """Tokens (batch, n) to the logits of the word after each, (batch, n, vocabulary); of the last with ``last``."""

    def __init__(self, spec: GptSpec) -> None:
        super().__init__()
        layers = keras.layers

        def norm() -> keras.layers.Layer:
            return layers.LayerNormalization(epsilon=EPSILON, center=False)

        self.words, self.positions = layers.Embedding(VOCABULARY, spec.width), layers.Embedding(spec.length, spec.width)
        self.blocks = [
            [
                norm(),
                Attention(spec.heads, spec.width // spec.heads, use_bias=False),
                norm(),
                layers.Dense(spec.hidden, activation="gelu", use_bias=False),
                layers.Dense(spec.width, use_bias=False),
            ]
            for _ in range(spec.layers)
        ]
        self.norm = norm()

    def call(self, tokens: tf.Tensor, last: bool = False) -> tf.Tensor:
        x = self.words(tokens) + self.positions(tf.range(tokens.shape[1]))
        for norm1, attention, norm2, hidden, output in self.blocks:
            y = norm1(x)
            x = x + attention(y, y, use_causal_mask=True)
            x = x + output(hidden(norm2(x)))
        x = self.norm(x[:, -1] if last else x)
        return tf.matmul(x, tf.convert_to_tensor(self.words.embeddings), transpose_b=True)

    def write(self, tokens: tf.Tensor, at: tf.Tensor, caches: list[tuple[tf.Variable, tf.Variable]]) -> tf.Tensor:
        """The logits after a word (batch, 1) at this place (1,), (batch, vocabulary)."""
        x = self.words(tokens) + self.positions(at)
        for (norm1, attention, norm2, hidden, output), cache in zip(self.blocks, caches, strict=True):
            x = x + attention.write(norm1(x), at, cache)
            x = x + output(hidden(norm2(x)))
        x = self.norm(x[:, -1])
        return tf.matmul(x, tf.convert_to_tensor(self.words.embeddings), transpose_b=True)


class Attention(keras.layers.MultiHeadAttention):
    """Keras' attention, which also keeps the keys and values of the words before, in variables."""

    def write(self, x: tf.Tensor, at: tf.Tensor, cache: tuple[tf.Variable, tf.Variable]) -> tf.Tensor:
        """What a word (batch, 1, width) learns from those before it; the cache gets its key and value."""
        for kept, new in zip(cache, (self._key_dense(x), self._value_dense(x)), strict=True):
            kept[:, at[0] : at[0] + 1].assign(new)
        key, value = cache
        scores = tf.einsum("bqhd,bkhd->bhqk", self._query_dense(x) * self._inverse_sqrt_key_dim, key)
        scores = tf.where(tf.range(key.shape[1]) <= at, scores, -np.inf)
        return self._output_dense(tf.einsum("bhqk,bkhd->bqhd", tf.nn.softmax(scores), value))

"""`gpt_small` in TensorFlow: a Keras 3 model; the attention is the formula, since TensorFlow has no fused kernel.

See `workloads/imdb_transformer/tensorflow.py` on that.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from workloads.defaults.tensorflow import Recomputed, export_weights, import_weights, policy, variables
from workloads.gpt_small.spec import EPSILON, IGNORED, VOCABULARY, GptSpec
from workloads.imdb_transformer.tensorflow import gelu, join_heads, kernels, plain_attention, split_heads
from workloads.spec import Numbers

__all__ = (
    "Gpt", "answers", "build", "decode", "export_weights", "import_weights", "kernels", "loss", "prefill", "scores",
    "variables",
)  # fmt: skip


class Block(keras.Model):
    """Adds to ``x`` (batch, positions, width) what words learn from those before them, then what each learns by itself.

    The sum stays in the weights' type, which is this model's own; the layers compute in another.
    A ``cache`` (2, batch, heads, length, head width) with their keys and values is returned too. With ``at``, its
    place, ``x`` is one word behind those that the cache has, which is then a variable and is changed.
    """

    def __init__(self, spec: GptSpec, numbers: Numbers, name: str) -> None:
        super().__init__(dtype=numbers.weights, autocast=False, name=name)
        dtype = policy(numbers)

        def norm(part: str) -> keras.layers.Layer:
            return keras.layers.LayerNormalization(epsilon=EPSILON, center=False, name=f"{name}_{part}", dtype=dtype)

        def dense(width: int, part: str) -> keras.layers.Layer:
            return keras.layers.Dense(width, use_bias=False, name=f"{name}_{part}", dtype=dtype)

        self.heads, self.length, self.wide = spec.heads, spec.length, numbers.weights
        self.norm1 = norm("norm1")
        self.attention = dense(3 * spec.width, "attention")
        self.projection = dense(spec.width, "projection")
        self.norm2 = norm("norm2")
        self.hidden = dense(spec.hidden, "hidden")
        self.output_ = dense(spec.width, "output")

    def call(self, x: tf.Tensor, cache: Any = None, at: tf.Tensor | None = None) -> Any:
        y, cache = self.attend(self.attention(self.norm1(x)), cache, at)
        x = x + tf.cast(self.projection(y), x.dtype)
        x = x + tf.cast(self.output_(gelu(self.hidden(self.norm2(x)))), x.dtype)
        return x if cache is None else (x, cache)

    def attend(self, projected: tf.Tensor, cache: Any, at: tf.Tensor | None) -> Any:
        """Attention over (batch, positions, 3 * width), from each position to itself and those before it; the cache."""
        positions, parts = projected.shape[1], split_heads(projected, self.heads)
        query, key, value = tf.unstack(parts)
        before = tf.constant(np.tri(positions, dtype=bool))
        if cache is not None and at is None:
            cache = tf.pad(parts[1:], [[0, 0]] * 3 + [[0, self.length - positions], [0, 0]])
        elif cache is not None and at is not None:
            place = tf.constant(np.arange(self.length), at.dtype)
            cache[:, :, :, at : at + 1].assign(parts[1:])
            key, value, before = cache[0], cache[1], place <= at
        attended = plain_attention(query, key, value, before, self.wide)
        return join_heads(attended), cache


class Gpt(keras.Model):
    """int tokens (batch, length) to the logits of the word after each, (batch, length, vocabulary)."""

    def __init__(self, spec: GptSpec, numbers: Numbers, checkpointing: bool = False) -> None:
        # In the weights' type: a narrower one of the whole model would be that of all tensors in it. Without autocast,
        # which would make float32 of a cache.
        super().__init__(dtype=numbers.weights, autocast=False, name="gpt")
        wide, self.compute = numbers.weights, numbers.compute
        self.words = keras.layers.Embedding(VOCABULARY, spec.width, name="words", dtype=wide)
        self.positions = keras.layers.Embedding(spec.length, spec.width, name="positions", dtype=wide)
        blocks = [Block(spec, numbers, name) for name in spec.blocks]
        self.blocks = [Recomputed(block, wide) for block in blocks] if checkpointing else blocks
        self.norm = keras.layers.LayerNormalization(epsilon=EPSILON, center=False, name="norm", dtype=policy(numbers))

    def build(self, shape: tuple[int | None, ...]) -> None:
        self.positions.build()  # whose table is added as a whole, without a call
        super().build(shape)

    def call(
        self, tokens: tf.Tensor, last: bool = False, caches: list[tf.Tensor] | None = None, at: tf.Tensor | None = None
    ) -> Any:
        places = tf.convert_to_tensor(self.positions.embeddings)[: tokens.shape[1]]
        x, after = self.words(tokens) + (places if at is None else self.positions(at)), []
        blocks: list[Any] = self.blocks
        for block in blocks if caches is None else ():
            x = block(x)
        for block, cache in zip(blocks, caches or (), strict=False):
            x, filled = getattr(block, "block", block)(x, cache=cache, at=at)  # with checkpointing, the one inside
            after.append(filled)
        if last:  # the word after the whole window alone, (batch, vocabulary)
            x = x[:, -1]
        x, table = self.norm(x), tf.cast(tf.convert_to_tensor(self.words.embeddings), self.compute)
        # As one product of matrices: the gradient of a batch of them would be a table for each sample.
        logits = tf.matmul(tf.reshape(x, (-1, x.shape[-1])), table, transpose_b=True)
        logits = tf.reshape(logits, (-1, *x.shape[1:-1], logits.shape[-1]))
        return logits if caches is None else (logits, after)


def build(
    spec: GptSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    checkpointing: bool = False,
) -> Gpt:  # fmt: skip
    del dropout  # there is none
    kernels(spec, numbers, device, kernel)
    model = Gpt(spec, numbers, checkpointing)
    model(keras.Input((spec.length,), dtype="int64" if device == "cuda" else "int32"))  # which makes the variables
    return model


def loss(model: keras.Model, tokens: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    logits = tf.cast(model(tokens, training=True), model.variable_dtype)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def scores(model: keras.Model, tokens: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    logits = tf.cast(model(tokens, training=False), model.variable_dtype)
    counted = labels > IGNORED
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.where(counted, labels, tf.zeros_like(labels)), logits)
    counts = tf.cast(counted, logits.dtype)
    right = tf.cast(tf.argmax(logits, -1, labels.dtype) == labels, logits.dtype)
    count = tf.reduce_sum(counts, 1)
    return tf.reduce_sum(losses * counts, 1) / count, tf.reduce_sum(right, 1) / count


def answers(model: keras.Model, tokens: tf.Tensor) -> tf.Tensor:
    """The logits of the word after each window, (b, vocabulary)."""
    return model(tokens, training=False, last=True)


def prefill(model: keras.Model, tokens: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The logits of the word after tokens (b, n), (b, vocabulary), and the caches of all blocks, for `decode`."""
    empty = [tf.zeros((), model.compute)] * len(model.blocks)
    return model(tokens, training=False, last=True, caches=empty)


def decode(
    model: keras.Model, tokens: tf.Tensor, caches: list[tf.Variable], at: tf.Tensor
) -> tuple[tf.Tensor, list[tf.Variable]]:
    """The same after one more token each, (b,), whose place is ``at``; the caches are changed."""
    return model(tokens[:, None], training=False, last=True, caches=caches, at=at)

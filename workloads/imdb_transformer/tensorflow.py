"""`imdb_transformer` in TensorFlow: Keras 3 layers; the attention is the formula, since TensorFlow has no fused kernel.

Keras' own MultiHeadAttention would project queries, keys and values one by one; a dense layer for all three is one
product, as in both other files.
"""

from __future__ import annotations

import math

import keras
import numpy as np
import tensorflow as tf

from workloads.defaults.tensorflow import Dropout, Recomputed, export_weights, import_weights, policy, variables
from workloads.defaults.tensorflow import binary_loss as loss
from workloads.defaults.tensorflow import binary_scores as scores
from workloads.imdb_transformer.spec import EPSILON, PADDING, TILE, VOCABULARY, TransformerSpec
from workloads.spec import Numbers, UnavailableKernelError, WorkloadSpec

__all__ = (
    "DROPOUT_IN_STATE", "Attention", "Mean", "Moved", "Positions", "build", "export_weights", "gelu", "import_weights",
    "kernels", "loss", "scores", "variables",
)  # fmt: skip

#: Whether dropout is in a training's state, so that what is timed can train without it.
DROPOUT_IN_STATE = True


class Moved(keras.layers.Layer):
    """The words of int tokens (batch, length) at the front of all positions, and where there are words: one, else zero.

    A review without any has one, the padding. Words are counted as floats, and the mask is of floats: few operations of
    TensorFlow on whole numbers stay in a GPU's memory.
    """

    def __init__(self, spec: TransformerSpec, **settings: object) -> None:
        super().__init__(**settings)
        self.spec = spec

    def call(self, tokens: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        length = size_of(tokens)
        words = tf.cast(tokens > PADDING, self.variable_dtype)
        count = tf.maximum(tf.reduce_sum(words, 1, keepdims=True), 1)
        # A range would be made in the host's memory.
        place = cut(tf.constant(np.arange(self.spec.positions), tokens.dtype), positions_at(self.spec, length))
        index = place + tf.cast(typed(length, count.dtype) - count, tokens.dtype)
        last = tf.convert_to_tensor(typed(length, tokens.dtype) - 1, tokens.dtype)
        chosen = tf.gather(tokens, tf.where(index < last, index, last), axis=1, batch_dims=1)
        return chosen, tf.cast(tf.cast(place, count.dtype) < count, count.dtype)


def size_of(x: tf.Tensor) -> int | tf.Tensor:
    """How long the second axis is: a number, unless the program is of any length."""
    return tf.shape(x)[1] if x.shape[1] is None else x.shape[1]


def typed(length: int | tf.Tensor, dtype: tf.DType) -> int | tf.Tensor:
    """A number as it is, so that a program of one length has it as a constant, and a tensor in this type."""
    return length if isinstance(length, int) else tf.cast(length, dtype)


def positions_at(spec: TransformerSpec, length: int | tf.Tensor) -> int | tf.Tensor:
    """As the spec's, also of a length that is a tensor."""
    if isinstance(length, int):
        return spec.positions_at(length)
    return tf.where(length == spec.length, spec.positions, tf.minimum(-(-length // TILE) * TILE, spec.positions))


def cut(x: tf.Tensor, count: int | tf.Tensor) -> tf.Tensor:
    """The first so many along the first axis."""
    return x if isinstance(count, int) and count == x.shape[0] else x[:count]


class Positions(keras.layers.Layer):
    """Adds a learned vector to each of at most so many positions, (batch, positions, width)."""

    def __init__(self, positions: int, **settings: object) -> None:
        super().__init__(**settings)
        self.positions = positions

    def build(self, shape: tuple[int, ...]) -> None:
        self.table = self.add_weight(shape=(self.positions, shape[2]), name="table")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return x + cut(tf.convert_to_tensor(self.table), size_of(x))


class Attention(keras.layers.Layer):
    """Attention over (batch, positions, 3 * width), whose keys are the words; the softmax in float32 at least."""

    def __init__(self, heads: int, **settings: object) -> None:
        super().__init__(**settings)
        self.heads = heads

    def call(self, projected: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        # The gradient of this is one copy; that of three slices fills and adds up three tensors.
        query, key, value = tf.unstack(split_heads(projected, self.heads))
        return join_heads(plain_attention(query, key, value, words[:, None, None] > 0, self.variable_dtype))


def split_heads(projected: tf.Tensor, heads: int) -> tf.Tensor:
    """(batch, positions, 3 * width) to queries, keys and values, (3, batch, heads, positions, head width)."""
    positions, width = size_of(projected), projected.shape[2]
    parts = tf.reshape(projected, (-1, positions, 3, heads, width // (3 * heads)))
    return tf.transpose(parts, (2, 0, 3, 1, 4))


def join_heads(attended: tf.Tensor) -> tf.Tensor:
    """(batch, heads, positions, head width) to (batch, positions, width)."""
    _, heads, _, head = attended.shape
    in_order = tf.transpose(attended, (0, 2, 1, 3))
    return tf.reshape(in_order, (-1, size_of(in_order), heads * head))


def plain_attention(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, words: tf.Tensor, wide: str) -> tf.Tensor:
    """The formula, for (batch, heads, positions, head width) and the keys that count; the softmax in ``wide``."""
    scale = tf.constant(query.shape[-1] ** -0.5, query.dtype)  # a cast would round it to float32 in any type
    scores = tf.matmul(query * scale, key, transpose_b=True)
    # Added, since a choice between whole tensors would be made again for the gradient.
    weights = tf.nn.softmax(tf.cast(scores, wide) + tf.where(words, tf.zeros((), wide), -np.inf))
    return tf.matmul(tf.cast(weights, value.dtype), value)


class Mean(keras.layers.Layer):
    """The mean over the words of (batch, positions, width)."""

    def call(self, x: tf.Tensor, words: tf.Tensor) -> tf.Tensor:
        counted = words[:, :, None]
        return tf.reduce_sum(x * counted, 1) / tf.reduce_sum(counted, 1)


def build(
    spec: TransformerSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    checkpointing: bool = False, any_length: bool = False,
) -> keras.Model:  # fmt: skip
    kernels(spec, numbers, device, kernel)
    dtype = policy(numbers)
    wide, layers = numbers.weights, keras.layers

    def add_residual(x: keras.KerasTensor, y: keras.KerasTensor) -> keras.KerasTensor:
        # The sum that runs through all blocks stays in the weights' type.
        return layers.Add(dtype=wide)([x, Dropout(spec.dropout if dropout else 0, dtype=dtype)(y)])

    def add_block(block: str, x: keras.KerasTensor, words: keras.KerasTensor) -> keras.KerasTensor:
        y = layers.LayerNormalization(epsilon=EPSILON, name=f"{block}_norm1", dtype=dtype)(x)
        y = layers.Dense(3 * spec.width, use_bias=False, name=f"{block}_attention", dtype=dtype)(y)
        y = Attention(spec.heads, dtype=dtype)(y, words)
        x = add_residual(x, layers.Dense(spec.width, name=f"{block}_projection", dtype=dtype)(y))
        y = layers.LayerNormalization(epsilon=EPSILON, name=f"{block}_norm2", dtype=dtype)(x)
        y = layers.Dense(spec.hidden, name=f"{block}_hidden", dtype=dtype)(y)
        y = layers.Activation(gelu, dtype=dtype)(y)
        return add_residual(x, layers.Dense(spec.width, name=f"{block}_output", dtype=dtype)(y))

    # Keras casts to what is written here, and on a GPU kernels take int32 in the host's memory only.
    length = None if any_length else spec.length
    tokens = keras.Input((length,), dtype="int64" if device == "cuda" else "int32")
    places, words = Moved(spec, dtype=wide)(tokens)
    x = layers.Embedding(VOCABULARY, spec.width, name="words", dtype=wide)(places)
    x = Positions(spec.positions, name="positions", dtype=wide)(x)
    x = Dropout(spec.dropout if dropout else 0, dtype=wide)(x)
    for block in spec.blocks:
        if checkpointing:
            entrance = [keras.Input(each.shape[1:], dtype=wide) for each in (x, words)]
            x = Recomputed(keras.Model(entrance, add_block(block, *entrance)), wide)(x, words)
        else:
            x = add_block(block, x, words)
    x = layers.LayerNormalization(epsilon=EPSILON, name="norm", dtype=wide)(x)
    x = Mean(dtype=wide)(x, words)
    return keras.Model(tokens, layers.Dense(1, name="logits", dtype=dtype)(x))


def gelu(x: tf.Tensor) -> tf.Tensor:
    """GELU as `tf.nn.gelu` has it, but for its root of two, which that function rounds to float32 in any type."""
    return 0.5 * x * (1.0 + tf.math.erf(x / tf.constant(math.sqrt(2), x.dtype)))


def kernels(spec: WorkloadSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    if kernel == "fused":
        raise UnavailableKernelError("TensorFlow has no fused attention, and Keras none on TensorFlow; use plain")
    return {"attention": "plain"}

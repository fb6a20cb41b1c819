"""A flax and optax loop: stock layers, one jitted step that returns new parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from workloads.cifar100_cnn.spec import CLASSES, DEVIATION, KERNEL, MEAN, CnnSpec
from workloads.data.dataset import Array
from workloads.gpt_small.spec import EPSILON, GptSpec
from workloads.imdb_lstm.spec import VOCABULARY, LstmSpec
from workloads.imdb_transformer.spec import PADDING, TransformerSpec

Spec = CnnSpec | LstmSpec | TransformerSpec | GptSpec


def train(spec: Spec, batches: list[tuple[Array, Array]], device: str) -> Callable[[int], None]:
    """A function that trains for a number of steps on the given batches in turn."""
    del device  # JAX takes a GPU where there is one
    on_device = [jax.device_put(batch) for batch in batches]
    settings: Any = spec.optimizer
    model = network(spec)
    binary = isinstance(spec, LstmSpec | TransformerSpec)
    criterion = optax.sigmoid_binary_cross_entropy if binary else optax.softmax_cross_entropy_with_integer_labels
    if isinstance(spec, CnnSpec):
        optimizer = optax.chain(
            optax.add_decayed_weights(settings.l2), optax.sgd(settings.learning_rate, momentum=settings.momentum)
        )
    elif isinstance(spec, LstmSpec):
        optimizer = optax.adam(settings.learning_rate)
    else:
        betas = settings.beta1, settings.beta2
        optimizer = optax.adamw(settings.learning_rate, *betas, weight_decay=settings.decay)
    key = jax.random.key(0)
    params = model.init({"params": key, "dropout": key}, on_device[0][0])
    state = [params, optimizer.init(params), key]

    @jax.jit
    def step(params: Any, slots: Any, key: Any, inputs: Any, labels: Any) -> Any:
        key, dropout_key = jax.random.split(key)

        def loss(params: Any) -> Any:
            return criterion(model.apply(params, inputs, rngs={"dropout": dropout_key}), labels).mean()

        value, gradients = jax.value_and_grad(loss)(params)
        updates, slots = optimizer.update(gradients, slots, params)
        return optax.apply_updates(params, updates), slots, key, value

    def steps(count: int) -> None:
        for index in range(count):
            *state[:], _ = step(*state, *on_device[index % len(on_device)])
        jax.block_until_ready(state)

    return steps


def serve(spec: Spec, inputs: list[Array], device: str) -> Callable[[int], None]:
    """A function that passes the given inputs through the model in turn, a number of times; of a GPT the last word."""
    del device
    on_device = [jax.device_put(array) for array in inputs]
    key = jax.random.key(0)
    params = network(spec).init({"params": key, "dropout": key}, on_device[0])
    last = {"last": True} if isinstance(spec, GptSpec) else {}
    forward = jax.jit(partial(network(spec, training=False).apply, **last))

    def steps(count: int) -> None:
        jax.block_until_ready([forward(params, on_device[index % len(on_device)]) for index in range(count)])

    return steps


def decode(spec: GptSpec, words: Array, device: str) -> Callable[[int], None]:
    """A function that writes a window after words (b, 1), a number of times, with the keys and values of all before."""
    del device
    first = jax.device_put(words)
    model = Gpt(spec, decodes=True)
    variables = model.init(jax.random.key(0), jnp.zeros((len(words), spec.length), words.dtype))
    params, empty = variables["params"], variables["cache"]

    @partial(jax.jit, donate_argnums=1)
    def step(params: Any, cache: Any, tokens: Any, at: Any) -> Any:
        logits, changed = model.apply({"params": params, "cache": cache}, tokens, True, at, mutable="cache")
        return logits.argmax(-1, keepdims=True).astype(tokens.dtype), changed["cache"]

    def steps(count: int) -> None:
        for _ in range(count):
            tokens, cache = first, jax.tree.map(jnp.copy, empty)
            for at in range(spec.length):
                tokens, cache = step(params, cache, tokens, at)
        jax.block_until_ready(tokens)

    return steps


def network(spec: Spec, training: bool = True) -> nn.Module:
    """The model of a workload."""
    if isinstance(spec, CnnSpec):
        return Cnn(spec, training)
    if isinstance(spec, TransformerSpec):
        return Encoder(spec, training)
    return Lstm(spec) if isinstance(spec, LstmSpec) else Gpt(spec)


class Cnn(nn.Module):
    """uint8 images (batch, 32, 32, 3) to logits (batch, 100)."""

    spec: CnnSpec
    training: bool

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        drop = partial(nn.Dropout, deterministic=not self.training)
        x = (images - jnp.array(MEAN)) / jnp.array(DEVIATION)
        for outputs, rate in zip(self.spec.channels, self.spec.dropout, strict=True):
            x = nn.relu(nn.Conv(outputs, (KERNEL, KERNEL))(x))
            x = nn.relu(nn.Conv(outputs, (KERNEL, KERNEL), padding="VALID")(x))
            x = drop(rate)(nn.max_pool(x, (2, 2), strides=(2, 2)))
        x = nn.relu(nn.Dense(self.spec.hidden)(x.reshape(len(x), -1)))
        return nn.Dense(CLASSES)(drop(self.spec.hidden_dropout)(x))


class Lstm(nn.Module):
    """Tokens (batch, length) to logits (batch,)."""

    spec: LstmSpec

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(VOCABULARY, self.spec.embedding)(tokens)
        states = nn.RNN(nn.OptimizedLSTMCell(self.spec.units))(x)
        return nn.Dense(1)(states[:, -1])[:, 0]


class Encoder(nn.Module):
    """Tokens (batch, length) to logits (batch,): the mean of the words after blocks of attention without a bias."""

    spec: TransformerSpec
    training: bool

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        spec = self.spec
        tokens = jnp.pad(tokens, ((0, 0), (0, spec.positions - tokens.shape[1])), constant_values=PADDING)
        there = tokens != PADDING
        drop = nn.Dropout(spec.dropout, deterministic=not self.training)
        places = nn.Embed(spec.positions, spec.width)(jnp.arange(spec.positions))
        x, mask = drop(nn.Embed(VOCABULARY, spec.width)(tokens) + places), nn.make_attention_mask(there, there)
        for _ in range(spec.layers):
            y = nn.LayerNorm(EPSILON)(x)
            x = x + drop(nn.MultiHeadDotProductAttention(spec.heads, use_bias=False)(y, mask=mask))
            y = nn.gelu(nn.Dense(spec.hidden)(nn.LayerNorm(EPSILON)(x)), approximate=False)
            x = x + drop(nn.Dense(spec.width)(y))
        mean = jnp.mean(nn.LayerNorm(EPSILON)(x), 1, where=there[:, :, None])
        return nn.Dense(1)(mean)[:, 0]


class Gpt(nn.Module):
    """Tokens (batch, n) to the logits of the word after each, (batch, n, vocabulary); of the last with ``last``.

    One that ``decodes`` takes a word at a time, whose place is ``at``, and keeps keys and values as flax does.
    """

    spec: GptSpec
    decodes: bool = False

    @nn.compact
    def __call__(self, tokens: jax.Array, last: bool = False, at: jax.Array | None = None) -> jax.Array:
        spec = self.spec
        words, positions = nn.Embed(VOCABULARY, spec.width), nn.Embed(spec.length, spec.width)
        x = words(tokens) + positions(jnp.arange(tokens.shape[1]) if at is None else at[None])
        mask = None if self.decodes else nn.make_causal_mask(tokens)
        for _ in range(spec.layers):
            y = nn.LayerNorm(EPSILON, use_bias=False)(x)
            x = x + nn.MultiHeadDotProductAttention(spec.heads, use_bias=False, decode=self.decodes)(y, mask=mask)
            y = nn.Dense(spec.hidden, use_bias=False)(nn.LayerNorm(EPSILON, use_bias=False)(x))
            x = x + nn.Dense(spec.width, use_bias=False)(nn.gelu(y, approximate=False))
        return words.attend(nn.LayerNorm(EPSILON, use_bias=False)(x[:, -1] if last else x))

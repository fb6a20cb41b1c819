"""A flax and optax loop: stock layers, one jitted step that returns new parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from workloads.cifar100_cnn.spec import CLASSES, DEVIATION, KERNEL, MEAN, CnnSpec
from workloads.data.dataset import Array
from workloads.imdb_lstm.spec import VOCABULARY, LstmSpec


class Cnn(nn.Module):
    """uint8 images (batch, 32, 32, 3) to logits."""

    spec: CnnSpec

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        x = (images - jnp.array(MEAN)) / jnp.array(DEVIATION)
        for outputs, rate in zip(self.spec.channels, self.spec.dropout, strict=True):
            x = nn.relu(nn.Conv(outputs, (KERNEL, KERNEL))(x))
            x = nn.relu(nn.Conv(outputs, (KERNEL, KERNEL), padding="VALID")(x))
            x = nn.Dropout(rate, deterministic=False)(nn.max_pool(x, (2, 2), strides=(2, 2)))
        x = nn.relu(nn.Dense(self.spec.hidden)(x.reshape(len(x), -1)))
        return nn.Dense(CLASSES)(nn.Dropout(self.spec.hidden_dropout, deterministic=False)(x))


class Lstm(nn.Module):
    """Tokens (batch, length) to logits (batch,)."""

    spec: LstmSpec

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        x = nn.Embed(VOCABULARY, self.spec.embedding)(tokens)
        states = nn.RNN(nn.OptimizedLSTMCell(self.spec.units))(x)
        return nn.Dense(1)(states[:, -1])[:, 0]


def plain(spec: CnnSpec | LstmSpec, batches: list[tuple[Array, Array]], device: str) -> Callable[[int], None]:
    """A function that trains for a number of steps on the given batches in turn."""
    del device  # JAX takes a GPU where there is one
    on_device = [jax.device_put(batch) for batch in batches]
    settings: Any = spec.optimizer
    model: nn.Module
    if isinstance(spec, CnnSpec):
        model, criterion = Cnn(spec), optax.softmax_cross_entropy_with_integer_labels
        optimizer = optax.chain(
            optax.add_decayed_weights(settings.l2), optax.sgd(settings.learning_rate, momentum=settings.momentum)
        )
    else:
        model, criterion = Lstm(spec), optax.sigmoid_binary_cross_entropy
        optimizer = optax.adam(settings.learning_rate)
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

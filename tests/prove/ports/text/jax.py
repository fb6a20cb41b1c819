from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.traverse_util import flatten_dict, unflatten_dict

from .spec import EPSILON, UNITS, WIDTH, WORDS


class Lstm(nn.Module):
    dtype: str

    @nn.compact
    def __call__(self, x):
        zeros = nn.initializers.zeros
        kernel = self.param("kernel", zeros, (WIDTH, 4 * UNITS), self.dtype)
        recurrent = self.param("recurrent", zeros, (UNITS, 4 * UNITS), self.dtype)
        bias = self.param("bias", zeros, (4 * UNITS,), self.dtype)

        def step(carry, word):
            cell, state = carry
            i, f, g, o = jnp.split(word @ kernel + state @ recurrent + bias, 4, axis=-1)
            cell = nn.sigmoid(f) * cell + nn.sigmoid(i) * jnp.tanh(g)
            return (cell, nn.sigmoid(o) * jnp.tanh(cell)), None

        start = jnp.zeros((len(x), UNITS), x.dtype)
        (_, state), _ = jax.lax.scan(step, (start, start), x.swapaxes(0, 1))
        return state


class Model(nn.Module):
    numbers: object

    @nn.compact
    def __call__(self, tokens):
        types = {"dtype": self.numbers.compute, "param_dtype": self.numbers.weights}
        e = nn.Embed(WORDS, WIDTH, name="embedding", **types)(tokens)
        e = e + nn.relu(nn.Conv(WIDTH, (3,), padding=1, name="near", **types)(e))
        state = Lstm(self.numbers.weights, name="lstm")(e)
        there = (tokens != 0)[:, :, None]
        mean = (e * there).sum(1) / there.sum(1)
        x = state + nn.relu(nn.Dense(UNITS, name="words", **types)(mean))
        # The two-pass variance, which is exact.
        x = nn.LayerNorm(EPSILON, name="norm", use_fast_variance=False, **types)(x)
        return nn.Dense(2, name="logits", **types)(x)


def build(spec, numbers, dropout=True, device="cpu", kernel="auto"):
    return Model(numbers)


def logits(model, weights, statistics, tokens):
    return model.apply({"params": weights}, tokens)


def loss(model, weights, statistics, key, tokens, labels):
    output = model.apply({"params": weights}, tokens)
    return optax.softmax_cross_entropy_with_integer_labels(output, labels).mean(), statistics


def scores(model, weights, statistics, tokens, labels):
    output = model.apply({"params": weights}, tokens)
    return optax.softmax_cross_entropy_with_integer_labels(output, labels), output.argmax(1) == labels


def kernels(spec, numbers, device, kernel):
    return {}


def statistics(model):
    return {}


OWN = {"embedding/table": "embedding/embedding", "norm/shift": "norm/bias"}


def import_weights(model, weights):
    named = {OWN.get(name, name): array for name, array in weights.items()}
    return unflatten_dict({name: jnp.array(array, model.numbers.weights) for name, array in named.items()}, sep="/")


def export_weights(model, weights):
    canonical = {own: name for name, own in OWN.items()}
    return {canonical.get(n, n): np.array(array) for n, array in flatten_dict(weights, sep="/").items()}

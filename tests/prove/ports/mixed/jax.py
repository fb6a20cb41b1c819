from __future__ import annotations

import flax.linen as nn
import jax.numpy as jnp
import optax

from workloads.defaults.jax import (
    GRU,
    LSTM,
    evaluate,
    export_weights,
    import_weights,
    kernels,
    logits,
    statistics,
    train,
    unpack,
)

from .spec import BAG, CLASSES, PARTS, WIDTH, WORDS

__all__ = ("build", "export_weights", "import_weights", "kernels", "logits", "loss", "scores", "statistics")


class Model(nn.Module):
    spec: object
    numbers: object

    @nn.compact
    def __call__(self, inputs, evaluating=False):
        types = {"dtype": self.numbers.compute, "param_dtype": self.numbers.weights}
        words, numbers = unpack(inputs, PARTS)
        embedding = nn.Embed(WORDS, WIDTH, name="words", **types)
        x = embedding(words)
        state = nn.RMSNorm(1e-6, name="norm", **types)(GRU(WIDTH, name="gru", **types)(x)[:, -1])
        for number in range(2):
            forward = LSTM(WIDTH // 2, name=f"forward_lstm_{number}", **types)(x)
            backward = LSTM(WIDTH // 2, reverse=True, name=f"backward_lstm_{number}", **types)(x)
            x = jnp.concatenate([forward, backward], 2)
        bag = nn.Embed(WORDS, BAG, name="bag", **types)(words).mean(1)
        features = jnp.concatenate([state, forward[:, -1], backward[:, 0], bag, numbers.astype(x.dtype)], 1)
        head, value = nn.Dense(CLASSES, name="head", **types)(features), nn.Dense(1, name="value", **types)(features)
        return head, embedding.attend(state), value


def build(spec, numbers, dropout=True, device="cpu", kernel="auto"):
    return Model(spec, numbers)


def loss(model, weights, statistics, key, inputs, labels):
    outputs, after = train(model, weights, statistics, inputs)
    return _losses(outputs, labels).mean(), after


def scores(model, weights, statistics, inputs, labels):
    outputs = evaluate(model, weights, statistics, inputs)
    return _losses(outputs, labels), outputs[0].argmax(1) == labels[:, 0].astype(int)


def _losses(outputs, labels):
    kind, word, value = outputs
    entropy = optax.softmax_cross_entropy_with_integer_labels
    entropies = entropy(kind, labels[:, 0].astype(int)) + entropy(word, labels[:, 1].astype(int))
    return entropies + (value[:, 0] - labels[:, 2].astype(value.dtype)) ** 2

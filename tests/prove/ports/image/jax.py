from __future__ import annotations

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import optax
from flax.traverse_util import flatten_dict, unflatten_dict

from .spec import CLASSES, EPSILON, MOMENTUM, RATE

VALUES = 16  # of a channel of the normalised picture


class Model(nn.Module):
    numbers: object
    dropping: bool

    @nn.compact
    def __call__(self, images, evaluating=False):
        types = {"dtype": self.numbers.compute, "param_dtype": self.numbers.weights}
        x = images.astype(self.numbers.weights) / 128 - 1
        x = nn.relu(nn.Conv(4, (3, 3), name="conv1", **types)(x))
        x = nn.Conv(4, (3, 3), 2, 1, use_bias=False, name="conv2", **types)(x)
        x = nn.BatchNorm(evaluating, momentum=1 - MOMENTUM, epsilon=EPSILON, name="norm", **types)(x)
        x = nn.relu(x).reshape(len(x), -1)
        x = nn.gelu(nn.Dense(8, name="hidden", **types)(x), approximate=False)
        x = nn.Dropout(RATE, deterministic=evaluating or not self.dropping)(x)
        x = nn.relu(nn.Dense(8, name="middle", **types)(x))
        return nn.Dense(CLASSES, name="logits", **types)(x)


def build(spec, numbers, dropout=True, device="cpu", kernel="auto"):
    return Model(numbers, dropout)


def logits(model, weights, statistics, images):
    return model.apply({"params": weights, "batch_stats": statistics}, images, mutable=["batch_stats"])[0]


def loss(model, weights, statistics, key, images, labels):
    variables = {"params": weights, "batch_stats": statistics}
    output, changed = model.apply(variables, images, mutable=["batch_stats"], rngs={"dropout": key})
    after = changed["batch_stats"]["norm"]
    batch_share = after["var"] - (1 - MOMENTUM) * statistics["norm"]["var"]
    unbiased = {"mean": after["mean"], "var": after["var"] + batch_share / (len(images) * VALUES - 1)}
    return optax.softmax_cross_entropy_with_integer_labels(output, labels).mean(), {"norm": unbiased}


def scores(model, weights, statistics, images, labels):
    output = model.apply({"params": weights, "batch_stats": statistics}, images, evaluating=True)
    return optax.softmax_cross_entropy_with_integer_labels(output, labels), output.argmax(1) == labels


def kernels(spec, numbers, device, kernel):
    return {}


def statistics(model):
    dtype = model.numbers.weights
    return {"norm": {"mean": jnp.zeros(4, dtype), "var": jnp.ones(4, dtype)}}


def import_weights(model, weights):
    named = {name.replace("norm/shift", "norm/bias"): array for name, array in weights.items()}
    return unflatten_dict({name: jnp.array(array, model.numbers.weights) for name, array in named.items()}, sep="/")


def export_weights(model, weights):
    flat = flatten_dict(weights, sep="/")
    return {name.replace("norm/bias", "norm/shift"): np.array(array) for name, array in flat.items()}

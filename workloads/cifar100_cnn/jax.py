"""`cifar100_cnn` in JAX: a flax module over channels-last images, which is the canonical layout."""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from workloads.cifar100_cnn.spec import CLASSES, DEVIATION, KERNEL, MEAN, CnnSpec
from workloads.defaults.jax import evaluate as logits
from workloads.defaults.jax import export_weights, import_weights, keep_if_off, kernels, loss, recompute, scores
from workloads.defaults.jax import switches as statistics
from workloads.spec import Numbers

__all__ = (
    "DROPOUT_IN_STATE", "Cnn", "build", "export_weights", "import_weights", "kernels", "logits", "loss", "scores",
    "statistics",
)  # fmt: skip

Tree = dict[str, Any]
Layer = tuple[str, int, int, int]

#: Whether dropout is in a training's state, so that what is timed can train without it.
DROPOUT_IN_STATE = True


class Cnn(nn.Module):
    """uint8 images (batch, 32, 32, 3) to logits (batch, 100); needs a ``dropout`` key where ``dropout`` is on."""

    spec: CnnSpec
    numbers: Numbers
    dropout: bool
    checkpointing: bool = False

    @nn.compact
    def __call__(self, images: jax.Array) -> jax.Array:
        types = {"dtype": self.numbers.compute, "param_dtype": self.numbers.weights}
        mean, deviation = (jnp.asarray(values, self.numbers.weights) for values in (MEAN, DEVIATION))
        x = (images.astype(self.numbers.weights) - mean) / deviation
        names = iter(self.spec.layers)
        for rate in self.spec.dropout:
            block = partial(_block, next(names), next(names), rate, types)
            x = (recompute(block) if self.checkpointing else block)(self, x)
        x = x.reshape(len(x), -1)
        x = nn.relu(nn.Dense(self.spec.hidden, name="hidden", **types)(x))
        x = self.apply_dropout(self.spec.hidden_dropout, x)
        return nn.Dense(CLASSES, name="logits", **types)(x)

    def apply_dropout(self, rate: float, x: jax.Array) -> jax.Array:
        dropped = nn.Dropout(rate, deterministic=not self.dropout)(x)
        return keep_if_off(self, dropped, x) if self.dropout else x


def _block(first: Layer, second: Layer, rate: float, types: Tree, model: Cnn, x: jax.Array) -> jax.Array:
    """Two convolutions of the model, max-pool and dropout."""
    outputs, window = first[2], (KERNEL, KERNEL)
    x = nn.relu(nn.Conv(outputs, window, padding="SAME", name=first[0], **types)(x))
    x = nn.relu(nn.Conv(outputs, window, padding="VALID", name=second[0], **types)(x))
    x = nn.max_pool(x, (2, 2), strides=(2, 2))
    return model.apply_dropout(rate, x)


def build(
    spec: CnnSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    checkpointing: bool = False,
) -> Cnn:  # fmt: skip
    return Cnn(spec, numbers, dropout, checkpointing)

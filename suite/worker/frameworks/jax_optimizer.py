"""The spec's optimizers in JAX: optax has their formulas as they are."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from suite.worker.frameworks import jax_layerwise
from workloads.data.dataset import Array
from workloads.spec import LAYERWISE, AdamW, Sgd, WorkloadSpec


def optimizer(spec: WorkloadSpec, rates: Array | None) -> optax.GradientTransformation:
    """The spec's optimizer; ``rates`` are the learning rates of all steps, where they are not its one."""
    config = spec.optimizer
    rate: Any = config.learning_rate
    if rates is not None:
        table = np.asarray(rates)  # a constant of the compiled step

        def rate(count: jax.Array) -> jax.Array:
            return jnp.asarray(table)[count]

    if isinstance(config, LAYERWISE):
        return jax_layerwise.optimizer(config, rate)
    if isinstance(config, Sgd):
        return optax.chain(optax.add_decayed_weights(config.l2), optax.sgd(rate, momentum=config.momentum))
    adam = {"b1": config.beta1, "b2": config.beta2, "eps": config.epsilon}
    if isinstance(config, AdamW):
        return optax.adamw(rate, **adam, weight_decay=config.decay, mask=_decays)
    return optax.adam(rate, **adam)


def _decays(weights: Any) -> Any:
    """Which tensors decay: those with two axes or more."""
    return jax.tree.map(lambda tensor: tensor.ndim > 1, weights)

"""The spec's optimizers in JAX: optax has their formulas as they are.

The spec's rate is a part of the state, so that a compiled step serves any; those of all steps are a table in it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from suite.worker.frameworks.jax import layerwise as jax_layerwise
from workloads.data.dataset import Array
from workloads.spec import LAYERWISE, AdamW, Optimizer, Sgd, WorkloadSpec


def optimizer(spec: WorkloadSpec, rates: Array | None) -> optax.GradientTransformation:
    """The spec's optimizer; ``rates`` are the learning rates of all steps, where they are not its one."""
    if rates is None:
        injected = optax.inject_hyperparams(partial(_of, spec.optimizer))
        return injected(learning_rate=spec.optimizer.learning_rate)
    table = np.asarray(rates)
    return _of(spec.optimizer, lambda count: jnp.asarray(table)[count])


def _of(config: Optimizer, learning_rate: Any) -> optax.GradientTransformation:
    """The optimizer of these settings at a rate, or at one that depends on the count of steps."""
    if isinstance(config, LAYERWISE):
        return jax_layerwise.optimizer(config, learning_rate)
    if isinstance(config, Sgd):
        return optax.chain(optax.add_decayed_weights(config.l2), optax.sgd(learning_rate, momentum=config.momentum))
    adam = {"b1": config.beta1, "b2": config.beta2, "eps": config.epsilon}
    if isinstance(config, AdamW):
        return optax.adamw(learning_rate, **adam, weight_decay=config.decay, mask=_decays)
    return optax.adam(learning_rate, **adam)


def _decays(weights: Any) -> Any:
    """Which tensors decay: those with two axes or more."""
    return jax.tree.map(lambda tensor: tensor.ndim > 1, weights)

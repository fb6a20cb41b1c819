"""Defaults of a workload's `nnx.py`: import those that fit, and write the others."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from workloads.data.dataset import Array

#: Canonical names that nnx spells otherwise.
NAMES = {
    "embedding/embedding": "embedding/table",
    "lstm/cell/dense_i/kernel": "lstm/kernel",
    "lstm/cell/dense_h/kernel": "lstm/recurrent",
    "lstm/cell/dense_h/bias": "lstm/bias",
}


def import_weights(model: Any, weights: dict[str, Array]) -> None:
    """Set every tensor from canonical weights."""
    for name, tensor in _variables(model).items():
        tensor.set_value(jnp.array(weights[name], model.numbers.weights))


def export_weights(model: Any, variables_of: nnx.State | None = None) -> dict[str, Array]:
    """A copy of every tensor (or of its gradient, in a state like the model's) in canonical layout, on the host."""
    return {name: np.array(tensor.get_value()) for name, tensor in _variables(variables_of or model).items()}


def _variables(model: Any) -> dict[str, nnx.Variable]:
    flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
    return {NAMES.get(name := "/".join(map(str, path)), name): tensor for path, tensor in flat}

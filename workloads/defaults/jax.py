"""Defaults of a workload's `jax.py`: import those that fit, and write the others.

`logits`, `loss` and `scores` are for a flax module without batch statistics, which has a field ``numbers`` and takes
``evaluating``.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import numpy as np
import optax
from flax.traverse_util import flatten_dict, unflatten_dict

from workloads.data.dataset import Array
from workloads.spec import Numbers, WorkloadSpec

Tree = dict[str, Any]


def logits(model: nn.Module, weights: Tree, statistics: Tree, inputs: jax.Array) -> jax.Array:
    """The model's output in training without dropout, (b, classes)."""
    del statistics
    return model.apply({"params": weights}, inputs)


def loss(
    model: Any, weights: Tree, statistics: Tree, key: jax.Array, inputs: jax.Array, labels: jax.Array
) -> tuple[jax.Array, Tree]:
    """The mean over the batch of the softmax cross entropy, and what the step changes besides the weights."""
    output = model.apply({"params": weights}, inputs, rngs={"dropout": key}).astype(model.numbers.weights)
    return optax.softmax_cross_entropy_with_integer_labels(output, labels).mean(), statistics


def scores(
    model: Any, weights: Tree, statistics: Tree, inputs: jax.Array, labels: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Of every sample the loss (b,), and whether the largest logit is the label's (b,); in evaluation."""
    del statistics
    output = model.apply({"params": weights}, inputs, evaluating=True).astype(model.numbers.weights)
    return optax.softmax_cross_entropy_with_integer_labels(output, labels), output.argmax(1) == labels


def kernels(spec: WorkloadSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    """Which implementation of a layer runs, where there is a choice: none."""
    del spec, numbers, device, kernel
    return {}


def statistics(model: nn.Module) -> Tree:
    """What training changes besides the weights, at its start: nothing."""
    del model
    return {}


def import_weights(model: Any, weights: dict[str, Array]) -> Tree:
    """The module's parameter tree, on the device, from canonical weights."""
    dtype = model.numbers.weights
    named = {}
    for name, array in weights.items():
        layer, _, tensor = name.rpartition("/")
        named[f"{layer}/{'embedding' if tensor == 'table' else tensor}"] = np.asarray(array, dtype)
    return unflatten_dict(jax.device_put(named, may_alias=False), sep="/")


def export_weights(model: Any, weights: Tree) -> dict[str, Array]:
    """A copy of every tensor of a parameter tree (or of its gradient) in canonical layout, on the host."""
    del model
    exported = {}
    for name, array in flatten_dict(weights, sep="/").items():
        layer, _, tensor = name.rpartition("/")
        exported[f"{layer}/{'table' if tensor == 'embedding' else tensor}"] = np.array(array)
    return exported

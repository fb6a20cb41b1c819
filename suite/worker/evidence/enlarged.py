"""Weights and inputs at a scale at which what saturates, clips or masks does so, for `suite.worker.evidence.proof`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from workloads.data.dataset import Array

#: By how much inputs and weights are multiplied where answers are compared at a larger scale: an output of usual size
#: then passes 6, the share of a label falls below 1e-7, and no score reaches the -10,000 of an additive mask.
SCALE = 4
#: A relative change of all weights by some roundings, which shows how much a model amplifies them.
NOISE = 2.0**-46


def enlarge(weights: Mapping[str, Array]) -> dict[str, Array]:
    """Weights at a scale at which what saturates, clips or masks does so: `SCALE` times as large.

    Kernels that a state passes again and again stay: they would amplify any rounding.
    """

    def recurs(name: str, array: Array) -> bool:
        beside = [other for other in weights if other.rpartition("/")[0] == name.rpartition("/")[0] and other != name]
        gates = array.ndim == 2 and array.shape[1] in (3 * len(array), 4 * len(array))
        return "recurrent" in name or (gates and any(weights[other].shape[1:] == array.shape[1:] for other in beside))

    return {
        name: array if recurs(name, array) else (SCALE * array).astype(array.dtype) for name, array in weights.items()
    }


def enlarge_inputs(batches: list[tuple[Array, Array]]) -> Array:
    """The first batch's inputs likewise: larger numbers, and padding in half of the texts, where others have theirs."""
    inputs = batches[0][0]
    if np.issubdtype(inputs.dtype, np.floating):
        return (SCALE * inputs).astype(inputs.dtype)
    if are_tokens(inputs):
        first = any(not each[:, 0].all() for each, _ in batches) and all(each[:, -1].all() for each, _ in batches)
        inputs, padding = inputs.copy(), inputs.shape[1] // 3
        inputs[::2, slice(padding) if first else slice(inputs.shape[1] - padding, None)] = 0
    return inputs


def are_tokens(inputs: Array) -> bool:
    """Whether inputs are numbers of words, (b, t), of which 0 may be padding; bytes are something else."""
    return inputs.ndim == 2 and np.issubdtype(inputs.dtype, np.integer) and inputs.dtype.itemsize > 1


def perturb(weights: Mapping[str, Array]) -> dict[str, Array]:
    """The weights, in float64, with each number larger or smaller by `NOISE`, at random."""
    signs = np.random.default_rng(0)
    return {name: array * (1 + NOISE * signs.choice((-1.0, 1.0), array.shape)) for name, array in weights.items()}

"""Of a layer's input: the order in which it is flattened, a bias, a sum for a mean, the scale of the model's inputs."""

from __future__ import annotations

import math

import numpy as np

from suite.prove.arithmetic import ACTIVATIONS
from suite.prove.case import Case, explains, factor, whole_number
from workloads.data.dataset import Array


def flattened(case: Case) -> str:
    """A flattened input whose channels are first on one side and last on the other."""
    pair = case.layer.pair("input") if case.layer else None
    if case.layer is None or pair is None or pair[0].ndim != 2 or case.place.inside:
        return ""
    one, other = pair
    width = one.shape[1]
    for channels in (c for c in range(2, width) if width % c == 0):
        moved = one.reshape(len(one), -1, channels).swapaxes(1, 2).reshape(one.shape)
        if explains(moved, other):
            return f"{case.one.framework} has the {channels} channels last, {case.other.framework} first"
        if explains(other.reshape(len(one), -1, channels).swapaxes(1, 2).reshape(one.shape), one):
            return f"{case.one.framework} has the {channels} channels first, {case.other.framework} last"
    return ""


def bias_twice(case: Case) -> str:
    """The bias of the layer before is added once more, before the activation."""
    before, pair = case.before, _pair(case)
    outputs = before.one.get("output") if before else None
    if before is None or before.bias is None or outputs is None or pair is None or outputs.shape != pair[0].shape:
        return ""
    for activation in ACTIVATIONS.values():
        once, twice = activation(outputs), activation(outputs + before.bias)
        for (right, wrong), (_, name) in zip((pair, pair[::-1]), case.sides, strict=True):
            if explains(right, once) and explains(wrong, twice):
                return f"{name} adds the bias of {before.name} twice"
    return ""


def summed(case: Case) -> str:
    """One side has the sum over some positions, the other the mean."""
    pair = _pair(case)
    ratio = factor(*pair) if pair else None
    count = whole_number(ratio)
    if pair is None or ratio is None or count not in _lengths(case, pair[0].ndim):
        return ""
    larger = case.other if ratio > 1 else case.one
    return f"that of {larger.framework} is {count} times as large: a sum over {count} positions"


def rescaled(case: Case) -> str:
    """The inputs of the first layer are multiplied by, or shifted by, another constant."""
    pair = _pair(case)
    if pair is None or case.before is not None:
        return ""
    one, other = (side.reshape(-1, side.shape[-1]) for side in pair)
    slopes, offsets = np.empty(one.shape[1]), np.empty(one.shape[1])
    for channel in range(one.shape[1]):  # each may have its own mean and deviation
        if not np.ptp(one[:, channel]):
            return ""
        slopes[channel], offsets[channel] = np.polyfit(one[:, channel], other[:, channel], 1)
    if not explains(other, slopes * one + offsets):
        return ""
    times = f"times {slopes[0]:.6g} plus {offsets[0]:.6g}"
    return f"the inputs of {case.other.framework} are those of {case.one.framework} {times}"


def _lengths(case: Case, axes: int) -> set[int]:
    """Of what comes before and has an axis more, the lengths of axes, and of two together."""
    shapes = [
        a.shape for layer in case.earlier for a in (layer.one.get("input"), layer.one.get("output")) if a is not None
    ]
    inner = [shape[1:-1] for shape in shapes if len(shape) > axes]
    return {math.prod(each) for each in inner} | {length for each in inner for length in each}


def _pair(case: Case) -> tuple[Array, Array] | None:
    """The inputs of the layer where the sides differ, if it is in them that they differ."""
    if case.layer is None or case.place.inside:
        return None
    return case.layer.pair("input")

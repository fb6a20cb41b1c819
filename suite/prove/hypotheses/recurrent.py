"""Of LSTMs: the order of the gates, and the second bias."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

from suite.prove.arithmetic import in_order, lstm
from suite.prove.case import Case, explains
from workloads.data.dataset import Array

GATES = ("input", "forget", "cell", "output")


def gates(case: Case) -> str:
    """The gates of one side are in another order."""
    for x, y, (kernel, recurrent, bias), wrong in _sides(case):
        for order in permutations(range(4)):
            tensors = (in_order(array, order) for array in (kernel, recurrent, bias))
            if order != (0, 1, 2, 3) and explains(y, lstm(x, *tensors)):
                named = ", ".join(GATES[gate] for gate in order)
                return f"{wrong} takes the gates {named} for {', '.join(GATES)}"
    return ""


def bias_twice(case: Case) -> str:
    """One side adds the bias once more."""
    return _bias(case, 2, "adds the bias twice")


def bias_missing(case: Case) -> str:
    """One side adds no bias."""
    return _bias(case, 0, "adds no bias")


def _bias(case: Case, times: int, words: str) -> str:
    for x, y, (kernel, recurrent, bias), wrong in _sides(case):
        if explains(y, lstm(x, kernel, recurrent, times * bias)):
            return f"{wrong} {words}"
    return ""


def _sides(case: Case) -> Iterator[tuple[Array, Array, tuple[Array, Array, Array], str]]:
    """The layer's input, the last state of one side, its tensors, and the side's name; of an LSTM only."""
    layer = case.layer
    if layer is None or len(layer.tensors) != 3:
        return
    kernel, recurrent, bias = layer.tensors.values()
    units = len(recurrent)
    shapes = (kernel.shape[1:], recurrent.shape, bias.shape)
    outputs = layer.pair("output")
    if shapes != ((4 * units,), (units, 4 * units), (4 * units,)) or outputs is None:
        return
    x = layer.one.get("input")
    if x is None or x.ndim != 3 or x.shape[-1] != len(kernel):
        return
    for y, (_, wrong) in zip(outputs[::-1], case.sides, strict=True):
        yield x, y if y.ndim == 2 else y[:, -1], (kernel, recurrent, bias), wrong

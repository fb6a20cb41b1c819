"""Of dense layers and convolutions: the layout of the kernel, the bias, the padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from suite.prove.arithmetic import convolution, geometries
from suite.prove.case import Case, explains
from workloads.data.dataset import Array


def transposed(case: Case) -> str:
    """A dense kernel read as (out, in), or reshaped where it should be transposed."""
    for x, y, kernel, bias, wrong in _sides(case, 2):
        readings = {"reshaped instead of transposed": kernel.reshape(kernel.shape[::-1]).T}
        if kernel.shape[0] == kernel.shape[1]:
            readings = {"transposed": kernel.T} | readings
        for words, reading in readings.items():
            if x.shape[-1] == len(reading) and _another(reading, kernel) and explains(y, x @ reading + bias):
                return f"{wrong} has the kernel {words}"
    return ""


def turned(case: Case) -> str:
    """A convolution's kernel with its axes in another order, or mirrored."""
    changes: dict[str, list[Callable[[Array], Array]]] = {
        "mirrored": [lambda k: k[::-1, ::-1], lambda k: k[::-1], lambda k: k[:, ::-1]],
        "with height and width exchanged": [lambda k: k.transpose(1, 0, 2, 3)],
        "with inputs and outputs exchanged": [lambda k: k.transpose(0, 1, 3, 2)],
        "reshaped instead of transposed": [
            lambda k: k.reshape(k.shape[::-1]).transpose(2, 3, 1, 0),
            lambda k: k.reshape(k.shape[3], k.shape[2], *k.shape[:2]).transpose(2, 3, 1, 0),
        ],
    }
    of_words: dict[str, list[Callable[[Array], Array]]] = {
        "mirrored": [lambda k: k[::-1]],
        "with inputs and outputs exchanged": [lambda k: k.transpose(0, 2, 1)],
        "reshaped instead of transposed": [lambda k: k.reshape(k.shape[::-1]).transpose(2, 1, 0)],
    }
    for x, y, kernel, bias, wrong in (*_sides(case, 4), *_sides(case, 3)):
        for words, readings in (changes if kernel.ndim == 4 else of_words).items():
            for reading in (change(kernel) for change in readings):
                if reading.shape == kernel.shape and _another(reading, kernel) and _fitting(x, y, reading, bias):
                    return f"{wrong} has the kernel {words}"
    return ""


def padding(case: Case) -> str:
    """Both are the same convolution of stride 2 or more, padded at other places."""
    places = _places(case)
    if not places or places[0] == places[1] or places[0][0] < 2:
        return ""
    return f"stride {places[0][0]}: {_describe_padding(case, places)}"


def causal(case: Case) -> str:
    """Both are the same convolution of stride 1, which one pads before the first position only."""
    places = _places(case)
    if not places or places[0] == places[1] or places[0][0] != 1 or all(behind for *_, behind in places):
        return ""
    return _describe_padding(case, places)


def _describe_padding(case: Case, places: list[tuple[int, int, int]]) -> str:
    return "; ".join(
        f"{name} pads {before} before and {behind} behind"
        for name, (_, before, behind) in zip(case.sides[0], places, strict=True)
    )


def _places(case: Case) -> list[tuple[int, int, int]]:
    """Stride and padding of both sides, with what was padded before the layer; empty if they are no convolutions."""
    layer = case.layer
    kernel = layer.kernel if layer else None
    if layer is None or kernel is None or kernel.ndim not in (3, 4):
        return []
    bias = np.zeros(1) if layer.bias is None else layer.bias
    places = []
    for side in (layer.one, layer.other):
        x, y = side.get("input"), side.get("output")
        fit = None if x is None or y is None else _fitting(x, y, kernel, bias)
        if fit is None or x is None:
            return []
        stride, (before, behind) = fit
        # What was padded by an operation before the layer is a part of its input.
        rows = np.flatnonzero(np.any(x, axis=tuple(axis for axis in range(x.ndim) if axis != 1)))
        if rows.size:
            before, behind = before + int(rows[0]), behind + x.shape[1] - 1 - int(rows[-1])
        places.append((stride, before, behind))
    return places


def bias_twice(case: Case) -> str:
    """One side adds the bias once more."""
    return _bias(case, 2, "adds the bias twice")


def bias_missing(case: Case) -> str:
    """One side adds no bias."""
    return _bias(case, 0, "adds no bias")


def _bias(case: Case, times: int, words: str) -> str:
    layer = case.layer
    pair = layer.pair("output") if layer and case.place.inside else None
    if layer is None or pair is None or layer.bias is None or pair[0].shape[-1] != len(layer.bias):
        return ""
    for (y, changed), (_, wrong) in zip((pair, pair[::-1]), case.sides, strict=True):
        if explains(changed - y, (times - 1) * layer.bias + np.zeros_like(y)):
            return f"{wrong} {words}"
    return ""


def _sides(case: Case, axes: int) -> Iterator[tuple[Array, Array, Array, Array, str]]:
    """What goes into the layer on one side and what comes out, its kernel and bias, and the side's name."""
    layer = case.layer
    kernel = layer.kernel if layer else None
    if layer is None or kernel is None or kernel.ndim != axes or not case.place.inside:
        return
    bias = np.zeros(1) if layer.bias is None else layer.bias
    for side, (_, wrong) in zip((layer.other, layer.one), case.sides, strict=True):
        x, y = side.get("input"), side.get("output")
        if x is not None and y is not None and np.issubdtype(x.dtype, np.floating) and bias.size in (1, y.shape[-1]):
            yield x, y, kernel, bias, wrong


def _another(reading: Array, kernel: Array) -> bool:
    """Whether a reading of a kernel is not the kernel itself."""
    return reading.shape != kernel.shape or not np.array_equal(reading, kernel)


def _fitting(x: Array, y: Array, kernel: Array, bias: Array) -> tuple[int, tuple[int, int]] | None:
    """The stride and padding with which the convolution gives these outputs; None if there is none."""
    if not x.ndim == y.ndim == kernel.ndim or x.shape[-1] != kernel.shape[-2]:
        return None
    for stride, pads in geometries(x, kernel, y):
        if explains(y[:1], convolution(x[:1], kernel, stride, pads) + bias):
            return stride, pads
    return None

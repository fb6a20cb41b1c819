"""Layers in NumPy, in float64 and channels last, as the formulas of `suite.prove.formulas` need them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from suite.prove.numbers import TOLERANCE, distance
from workloads.data.dataset import Array

Function = Callable[[Array], Array]

#: Sizes of a pooling's window, and strides of anything, that are looked for.
POOL_SIZES, STRIDES = (2, 3, 4, 5, 7), (1, 2, 3, 4)


def sigmoid(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def _gelu(x: Array) -> Array:
    return np.asarray(0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))))


def softmax(x: Array, axis: int = -1) -> Array:
    exponentials = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(axis, keepdims=True))


#: What often stands between two layers, by name.
ACTIVATIONS: dict[str, Function] = {
    "no activation": lambda x: x,
    "ReLU": lambda x: np.maximum(x, 0),
    "GELU by the error function": _gelu,
    "GELU by the tangent": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "GELU by the sigmoid": lambda x: x * sigmoid(1.702 * x),
    "tanh": np.tanh,
    "SiLU": lambda x: x * sigmoid(x),
    "sigmoid": sigmoid,
    "leaky ReLU of slope 0.01": lambda x: np.where(x > 0, x, 0.01 * x),
    "leaky ReLU of slope 0.1": lambda x: np.where(x > 0, x, 0.1 * x),
    "leaky ReLU of slope 0.2": lambda x: np.where(x > 0, x, 0.2 * x),
    "leaky ReLU of slope 0.3": lambda x: np.where(x > 0, x, 0.3 * x),
    "ELU": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "ReLU up to 6": lambda x: np.clip(x, 0, 6),
    "hard swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "softmax": softmax,
    "log softmax": lambda x: np.log(np.maximum(softmax(x), 1e-300)),
}


Pads = tuple[int, int]


def convolution(x: Array, kernel: Array, stride: int, padding: Pads, across: Pads | None = None) -> Array | None:
    """A convolution of ``(b, h, w, in)`` with ``(h, w, in / groups, out)``, padded on axes with a larger kernel.

    It is padded alike on both if there is nothing else ``across``. None where the shapes do not fit.
    """
    both = zip((padding, across or padding), kernel.shape[:2], strict=True)
    pads = [each if size > 1 else (0, 0) for each, size in both]
    padded = np.pad(x, ((0, 0), *pads, (0, 0)))
    groups, rest = divmod(x.shape[-1], kernel.shape[2])
    if rest or kernel.shape[3] % groups or any(p < k for p, k in zip(padded.shape[1:3], kernel.shape, strict=False)):
        return None
    windows = sliding_window_view(padded, kernel.shape[:2], axis=(1, 2))[:, ::stride, ::stride]
    windows = windows.reshape(*windows.shape[:3], groups, kernel.shape[2], *kernel.shape[:2])
    outputs = kernel.reshape(*kernel.shape[:3], groups, -1)
    result = np.einsum("bijgchw,hwcgo->bijgo", windows, outputs, optimize=True)
    return np.asarray(result.reshape(*result.shape[:3], -1))


def dilate(x: Array, stride: int, axes: int) -> Array:
    """``(b, h, w, c)`` with zeros between, along the first of so many axes, as a transposed convolution has them."""
    sides = [stride * (side - 1) + 1 if at < axes else side for at, side in enumerate(x.shape[1:3])]
    wide = np.zeros((len(x), *sides, x.shape[-1]))
    wide[:, ::stride, :: stride if axes > 1 else 1] = x
    return wide


def placings(
    before: Sequence[int], after: Sequence[int], kernel: Sequence[int], up: int
) -> list[tuple[int, Pads, Pads | None]]:
    """Every stride and padding of a convolution, or of one whose transpose goes ``up``, from one shape to another.

    Those that are not alike on both axes come last, and are of the least stride alone.
    """
    if not kernel:
        return [(1, (0, 0), None)]
    along, *across = (_geometries(before[at], size, after[at], up) for at, size in enumerate(kernel, 1))
    alike: list[tuple[int, Pads, Pads | None]] = [(*each, None) for each in along]
    pairs = [(one, other) for one, other in product(along, *across) if one != other] if across else []
    return alike + [(*one, pads) for one, (stride, pads) in pairs if one[0] == stride == along[0][0]]


def _geometries(side: int, size: int, after: int, up: int) -> list[tuple[int, Pads]]:
    """Every stride, and padding before and behind, that lead from one side to another, the most even ones first."""
    found = list[tuple[int, Pads]]()
    wide = up * (side - 1) + 1
    for stride, *pads in product(STRIDES if up == 1 else (1,), range(2 * size), range(2 * size)):
        if wide + sum(pads) >= size and (wide + sum(pads) - size) // stride + 1 == after:
            found.append((stride, (pads[0], pads[1])))
    return sorted(found, key=lambda place: (place[0], abs(place[1][0] - place[1][1])))


def windows_of(shape: tuple[int, ...], lacks: tuple[int, ...]) -> dict[str, Function]:
    """Pictures, or sequences, that lack so many rows and columns of ``(b, h, w, c)``, or ``(b, t, c)``, by name.

    All that is cut off may be on one side, and zeros may stand for a row or column at either end.
    """
    axes = [_windows(side, lack) for side, lack in zip(shape[1:-1], lacks, strict=True)]
    names = ("rows", "columns") if len(axes) > 1 else ("positions",)
    every = sorted(product(*(axis.items() for axis in axes)), key=lambda each: len({name for name, _ in each}))
    found: dict[str, Function] = {}
    for window in every:
        name = "; ".join(f"{axis} {way}" for axis, (way, _) in zip(names, window, strict=True))
        found[name] = partial(_select, places=[places for _, places in window])
    return found


def _windows(side: int, lack: int) -> dict[str, Array]:
    """The places of what is kept; -1 stands for zeros."""
    found, length = {}, side - lack
    for start in range(-1, lack + 2):
        places = np.arange(start, start + length)
        places[places >= side] = -1
        words = f"{max(start, 0)} to {min(start + length, side) - 1}"
        if -1 not in places:
            found[words] = places
            found[f"{words}, the first zero"] = np.concatenate([[-1], places[1:]])
            found[f"{words}, the last zero"] = np.concatenate([places[:-1], [-1]])
        else:
            found[f"{words}, and zeros {'before' if start < 0 else 'behind'}"] = places
    return found


def _select(x: Array, places: list[Array]) -> Array:
    for axis, kept in enumerate(places, 1):
        x = np.where((kept >= 0).reshape([-1 if at == axis else 1 for at in range(x.ndim)]), np.take(x, kept, axis), 0)
    return x


def recurrent_states(x: Array, cell: Callable[..., tuple[Array, ...]], units: int) -> Array:
    """The states ``(b, t, units)`` of a cell over ``(b, t, in)``, which has as many numbers of its own besides."""
    state = memory = np.zeros((len(x), units))
    states = []
    for step in range(x.shape[1]):
        state, memory = cell(x[:, step], state, memory)
        states.append(state)
    return np.stack(states, 1)


def pool(x: Array, kind: str, size: int, stride: int, padding: tuple[int, int]) -> Array:
    """A pooling of ``(b, h, w, c)``; along an axis of one there is none."""
    lowest = -np.inf if kind == "maximum" else 0.0
    axes = [side > 1 for side in x.shape[1:3]]
    pads = [padding if pooled else (0, 0) for pooled in axes]
    window = [size if pooled else 1 for pooled in axes]
    padded = np.pad(x, ((0, 0), *pads, (0, 0)), constant_values=lowest)
    windows = sliding_window_view(padded, window, axis=(1, 2))[
        :, :: stride if axes[0] else 1, :: stride if axes[1] else 1
    ]
    if kind.startswith("maximum"):
        return np.asarray(windows.max((-1, -2)))
    if kind == "mean":
        return np.asarray(windows.mean((-1, -2)))
    return np.asarray(pool(x, "mean", size, stride, padding) / pool(np.ones_like(x), "mean", size, stride, padding))


def poolings(before: tuple[int, ...], after: tuple[int, ...]) -> dict[str, Function]:
    """The poolings that lead from one shape to another, by name; flattened where the other has two axes."""
    if before == after:
        return {"no pooling": lambda x: x}
    if len(before) == 3 and len(after) == 3:
        wide = poolings((before[0], before[1], 1, before[2]), (after[0], after[1], 1, after[2]))
        return {name: partial(lambda x, f: f(x[:, :, None])[:, :, 0], f=f) for name, f in wide.items()}
    found: dict[str, Function] = {}
    if len(before) != 4 or len(after) not in (2, 3, 4):
        return found
    flats: dict[int, Function] = {2: lambda x: x.reshape(len(x), -1), 3: lambda x: x.reshape(len(x), -1, x.shape[-1])}
    flat = flats.get(len(after), lambda x: x)
    if len(after) == 2 and before[-1] == after[-1]:
        found = {"the mean of all": lambda x: x.mean((1, 2)), "the maximum of all": lambda x: x.max((1, 2))}
    if math.prod(before[1:]) == math.prod(after[1:]) and len(after) < 4:
        found["no pooling"] = flat
    sides = [before[1], before[2]]
    for size, stride in sorted(product(POOL_SIZES, STRIDES), key=lambda pair: pair[0] != pair[1]):
        for pads in sorted(product(range(size), range(size)), key=sum):
            rows = [(side + sum(pads) - size) // stride + 1 if side > 1 else 1 for side in sides]
            shapes = {2: (math.prod(rows) * before[3],), 3: (math.prod(rows), before[3]), 4: (*rows, before[3])}
            if min(rows) < 1 or shapes[len(after)] != after[1:]:
                continue
            where = f"of {size} x {size}, stride {stride}, padding {pads[0]} and {pads[1]}"
            padded = ("mean without the padding", "maximum with zeros as padding") if sum(pads) else ()
            for kind in ("maximum", "mean", *padded):
                way = partial(pool, kind=kind, size=size, stride=stride, padding=pads)
                found[f"the {kind} {where}"] = partial(_chain, way, flat)
    return found


def _chain(first: Function, then: Function, x: Array) -> Array:
    return then(first(x))


def passages(output: Array, after: Array) -> Iterator[Function]:
    """What leads from the output of a layer to the input of another (b, ...): an activation, then some pooling.

    Only what gives these numbers, to rounding.
    """
    ways = poolings(output.shape, after.shape).values()
    for activation in ACTIVATIONS.values() if ways else ():
        for way in (way for x in (activation(output[:1]),) for way in ways if distance(way(x), after[:1]) <= TOLERANCE):
            if distance(way(activation(output)), after) <= TOLERANCE:
                yield lambda x, way=way, activation=activation: way(activation(x))  # type: ignore[misc]

"""Layers in NumPy, as the hypotheses of `suite.prove.causes` need them: convolution, LSTM, GELU, softmax."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from suite.prove.numbers import TOLERANCE, distance
from workloads.data.dataset import Array

Padding = tuple[int, int]


def convolution(x: Array, kernel: Array, stride: int, padding: Padding) -> Array:
    """A convolution of ``(b, ..., in)`` with ``(..., in, out)`` over one or two axes, padded alike on all of them."""
    axes = tuple(range(1, x.ndim - 1))
    padded = np.pad(x, ((0, 0), *[padding] * len(axes), (0, 0)))
    windows = sliding_window_view(padded, kernel.shape[:-2], axis=axes)
    windows = windows[:, ::stride, ::stride] if len(axes) == 2 else windows[:, ::stride]
    form = "bijchw,hwco->bijo" if len(axes) == 2 else "bicj,jco->bio"
    return np.asarray(np.einsum(form, windows, kernel, optimize=True))


def geometries(x: Array, kernel: Array, outputs: Array) -> Iterator[tuple[int, Padding]]:
    """Every stride and padding that lead from the input's side to the output's."""
    side, size, after = x.shape[1], kernel.shape[0], outputs.shape[1]
    for stride in range(1, 5):
        for before in range(size):
            for behind in range(size):
                if (side + before + behind - size) // stride + 1 == after:
                    yield stride, (before, behind)


def lstm(x: Array, kernel: Array, recurrent: Array, bias: Array) -> Array:
    """The last state of an LSTM over ``(b, t, in)``; gates in the order input, forget, cell, output."""
    units = len(recurrent)
    cell = state = np.zeros((len(x), units))
    for step in range(x.shape[1]):
        gates = x[:, step] @ kernel + state @ recurrent + bias
        i, f, g, o = (gates[:, k * units : (k + 1) * units] for k in range(4))
        cell = _sigmoid(f) * cell + _sigmoid(i) * np.tanh(g)
        state = _sigmoid(o) * np.tanh(cell)
    return state


def in_order(array: Array, order: tuple[int, ...]) -> Array:
    """A tensor of an LSTM with its gates in another order."""
    return array.reshape(*array.shape[:-1], len(order), -1)[..., order, :].reshape(array.shape)


def gelu(x: Array) -> Array:
    """GELU by the error function."""
    return np.asarray(0.5 * x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))))


def gelu_tanh(x: Array) -> Array:
    """GELU by the tangent that approximates it."""
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def cross_entropy(logits: Array, labels: Array) -> float:
    """The mean softmax cross entropy of ``(b, classes)``."""
    shifted = logits - logits.max(1, keepdims=True)
    log_shares = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return float(-log_shares[np.arange(len(labels)), labels].mean())


def softmax(logits: Array) -> Array:
    """Shares of ``(b, classes)``."""
    exponentials = np.exp(logits - logits.max(1, keepdims=True))
    return np.asarray(exponentials / exponentials.sum(1, keepdims=True))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


#: What often stands between two layers, by name.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "nothing": lambda x: x,
    "ReLU": lambda x: np.maximum(x, 0),
    "GELU by the error function": gelu,
    "GELU by the tangent": gelu_tanh,
    "tanh": np.tanh,
    "SiLU": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "leaky ReLU of slope 0.01": lambda x: np.where(x > 0, x, 0.01 * x),
    "leaky ReLU of slope 0.2": lambda x: np.where(x > 0, x, 0.2 * x),
    "ELU": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "ReLU up to 6": lambda x: np.clip(x, 0, 6),
}


def passages(output: Array, after: Array) -> Iterator[Callable[[Array], Array]]:
    """What leads from the output of a layer to the input of another (b, ...): an activation, then some pooling.

    Only what gives these numbers, to rounding.
    """
    for pool in poolings(output.shape, after.shape).values():
        for activation in ACTIVATIONS.values():
            if all(distance(pool(activation(output[:n])), after[:n]) <= TOLERANCE for n in (1, len(after))):
                yield lambda x, pool=pool, activation=activation: pool(activation(x))  # type: ignore[misc]


def poolings(before: tuple[int, ...], after: tuple[int, ...]) -> dict[str, Callable[[Array], Array]]:
    """The poolings that lead from one shape to another, by name; flattened where the other has two axes."""
    found: dict[str, Callable[[Array], Array]] = {"none": lambda x: x} if before == after else {}
    if len(before) == 4 and len(after) == 2 and before[-1] == after[-1]:
        found["global mean"] = lambda x: x.mean((1, 2))
        found["global maximum"] = lambda x: x.max((1, 2))
    if len(before) != 4 or len(after) not in (2, 4):
        return found
    for size in range(1, min(before[1:3]) + 1):
        rows, columns = before[1] // size, before[2] // size
        if (rows, columns, before[3]) == after[1:] or (len(after) == 2 and rows * columns * before[3] == after[1]):

            def windows(x: Array, size: int = size, rows: int = rows, columns: int = columns) -> Array:
                cut = x[:, : rows * size, : columns * size]
                return cut.reshape(len(x), rows, size, columns, size, -1)

            flat: Callable[[Array], Array] = (lambda x: x.reshape(len(x), -1)) if len(after) == 2 else (lambda x: x)
            if size > 1:
                found[f"maximum of {size} x {size}"] = lambda x, w=windows, f=flat: f(w(x).max((2, 4)))  # type: ignore[misc]
                found[f"mean of {size} x {size}"] = lambda x, w=windows, f=flat: f(w(x).mean((2, 4)))  # type: ignore[misc]
            elif len(after) == 2:
                found["none"] = flat
    return found

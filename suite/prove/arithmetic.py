"""Layers in NumPy, as the hypotheses of `suite.prove.causes` need them: convolution, LSTM, GELU, softmax."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from workloads.data.dataset import Array

Padding = tuple[int, int]


def convolution(x: Array, kernel: Array, stride: int, padding: Padding) -> Array:
    """A convolution of ``(b, h, w, in)`` with ``(height, width, in, out)``, the same padding on both axes."""
    padded = np.pad(x, ((0, 0), padding, padding, (0, 0)))
    windows = sliding_window_view(padded, kernel.shape[:2], axis=(1, 2))[:, ::stride, ::stride]
    return np.asarray(np.einsum("bijchw,hwco->bijo", windows, kernel, optimize=True))


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
    return np.asarray(0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))))


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

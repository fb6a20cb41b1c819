"""The spec's optimizers in NumPy, the reference that a framework's own are held against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from workloads.data.dataset import Array
from workloads.spec import AdamW, Lamb, Lars, Optimizer, Sgd


class Formula:
    """An optimizer of `workloads.spec` with its state, for all tensors by their names."""

    def __init__(self, optimizer: Optimizer, rates: Array | None = None) -> None:
        """``rates`` are the learning rates of all steps, where they are not the optimizer's one."""
        self.optimizer, self.rates, self.steps = optimizer, rates, 0
        zero: Callable[[], Any] = float
        self._means: dict[str, Array] = defaultdict(zero)  # with momentum, the velocities
        self._squares: dict[str, Array] = defaultdict(zero)

    def step(self, weights: Mapping[str, Array], gradients: Mapping[str, Array]) -> dict[str, Array]:
        """The weights after one more step along these gradients."""
        self.steps += 1
        move = self._momentum if isinstance(self.optimizer, Sgd | Lars) else self._adam
        return {name: array - move(name, array, gradients[name]) for name, array in weights.items()}

    @property
    def _rate(self) -> float:
        return self.optimizer.learning_rate if self.rates is None else float(self.rates[self.steps - 1])

    def _momentum(self, name: str, weights: Array, gradient: Array) -> Array:
        optimizer: Any = self.optimizer
        coupled, past = gradient + optimizer.l2 * weights, optimizer.momentum * self._means[name]
        if isinstance(optimizer, Sgd):
            self._means[name] = past + coupled
            return self._rate * self._means[name]
        size = np.linalg.norm(weights)
        local = self._rate * optimizer.coefficient * _ratio(size, np.linalg.norm(gradient) + optimizer.l2 * size)
        self._means[name] = past + local * coupled
        return self._means[name]

    def _adam(self, name: str, weights: Array, gradient: Array) -> Array:
        optimizer: Any = self.optimizer
        self._means[name] = optimizer.beta1 * self._means[name] + (1 - optimizer.beta1) * gradient
        self._squares[name] = optimizer.beta2 * self._squares[name] + (1 - optimizer.beta2) * gradient**2
        mean = self._means[name] / (1 - optimizer.beta1**self.steps)
        square = self._squares[name] / (1 - optimizer.beta2**self.steps)
        move: Array = mean / (np.sqrt(square) + optimizer.epsilon)
        if isinstance(optimizer, Lamb) or (isinstance(optimizer, AdamW) and weights.ndim > 1):
            move = move + optimizer.decay * weights
        ratio = _ratio(np.linalg.norm(weights), np.linalg.norm(move)) if isinstance(optimizer, Lamb) else 1.0
        return self._rate * ratio * move


def _ratio(weights: np.floating[Any], move: np.floating[Any]) -> float:
    """The quotient of two norms; 1 where one of them is zero."""
    return float(weights / move) if weights > 0 and move > 0 else 1.0


def deviation(
    before: Mapping[str, Array], after: Mapping[str, Array], expected: Mapping[str, Array], rounded: int = 0
) -> float:
    """How far the movement from ``before`` is off the expected one: of the worst tensor, relative, in the L2 norm.

    A tensor that should stay, and moves, is off by its movement. Weights that were ``rounded`` so many times may be off
    by half a unit in the last place for each.
    """
    worst = 0.0
    for name, start in before.items():
        expected_norm = float(np.linalg.norm(expected[name] - start))
        rounding = rounded * float(np.finfo(after[name].dtype).eps) / 2 * float(np.linalg.norm(expected[name]))
        off = max(0.0, float(np.linalg.norm(after[name] - expected[name])) - rounding)
        worst = max(worst, off / (expected_norm or 1.0))
    return worst

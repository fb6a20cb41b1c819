"""The spec's optimizers in NumPy, the reference that a framework's own are held against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workloads.data.dataset import Array
from workloads.spec import AdamW, Lamb, Lars, Optimizer, Sgd


class Formula:
    """An optimizer of `workloads.spec` with its state, for all tensors by their names."""

    def __init__(self, optimizer: Optimizer, rates: Array | None = None) -> None:
        """``rates`` are the learning rates of all steps, where they are not the optimizer's one."""
        self.optimizer, self.rates, self.steps = optimizer, rates, 0
        self._velocities: dict[str, Array] = {}
        self._means: dict[str, Array] = {}
        self._squares: dict[str, Array] = {}

    def step(self, weights: Mapping[str, Array], gradients: Mapping[str, Array]) -> dict[str, Array]:
        """The weights after one more step along these gradients."""
        self.steps += 1
        return {name: array - self._move(name, array, gradients[name]) for name, array in weights.items()}

    @property
    def _rate(self) -> float:
        return self.optimizer.learning_rate if self.rates is None else float(self.rates[self.steps - 1])

    def _move(self, name: str, weights: Array, gradient: Array) -> Array:
        optimizer, move = self.optimizer, np.zeros_like(weights)
        if isinstance(optimizer, Sgd):
            coupled = gradient + optimizer.l2 * weights
            self._velocities[name] = optimizer.momentum * self._velocities.get(name, 0.0) + coupled
            move = self._rate * self._velocities[name]
        elif isinstance(optimizer, Lars):
            size = np.linalg.norm(weights)
            ratio = _ratio(size, np.linalg.norm(gradient) + optimizer.l2 * size)
            local = self._rate * optimizer.coefficient * ratio
            past = optimizer.momentum * self._velocities.get(name, 0.0)
            move = self._velocities[name] = past + local * (gradient + optimizer.l2 * weights)
        else:
            self._means[name] = optimizer.beta1 * self._means.get(name, 0.0) + (1 - optimizer.beta1) * gradient
            self._squares[name] = optimizer.beta2 * self._squares.get(name, 0.0) + (1 - optimizer.beta2) * gradient**2
            mean = self._means[name] / (1 - optimizer.beta1**self.steps)
            square = self._squares[name] / (1 - optimizer.beta2**self.steps)
            move = mean / (np.sqrt(square) + optimizer.epsilon)
            if isinstance(optimizer, Lamb):
                move = move + optimizer.decay * weights
                move = _ratio(np.linalg.norm(weights), np.linalg.norm(move)) * move
            if isinstance(optimizer, AdamW) and weights.ndim > 1:
                move = move + optimizer.decay * weights
            move = self._rate * move
        return move


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

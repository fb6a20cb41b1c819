"""The last steps taken again by a fresh training, from the same state on the same batches: a step knows no age.

So a program that has changed its ways since its first steps is seen, whatever it is that changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from suite.worker.optimizer import deviation
from workloads.data.dataset import Array


@dataclass(frozen=True)
class Replay:
    """Some steps of a `Training`, on the host: the state that they started from, its weights, and the batches."""

    state: dict[str, Array]
    weights: dict[str, Array]
    batches: list[tuple[Array, Array]]

    @classmethod
    def of(cls, training: Any, batches: list[Any]) -> Replay:
        """The state of a `Training` before its steps on these batches."""
        state = {name: array.copy() for name, array in training.checkpoint().items()}
        return cls(state, training.weights(), [training.get(batch) for batch in batches])

    def deviation(self, training: Any, after: dict[str, Array]) -> float:
        """How far the movement to ``after`` is off that of this `Training`, relative."""
        names = training.checkpoint()  # Keras numbers its models, so that only the order is the same
        training.restore(dict(zip(names, self.state.values(), strict=True)))
        training.read([training.step(training.put(batch)) for batch in self.batches])
        return deviation(self.weights, after, training.weights())

"""One step taken again by a fresh model, from the same state on the same batch: a step does not depend on its age.

So a program that has changed its ways since its first steps is seen, whatever it is that changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from suite.worker.optimizer import deviation
from workloads.data.dataset import Array


@dataclass(frozen=True)
class Start:
    """Where a step starts, on the host: all that it depends on, the weights among it."""

    state: dict[str, Array]
    batch: tuple[Array, Array]
    weights: dict[str, Array]

    @classmethod
    def of(cls, training: Any, batch: Any) -> Start:
        """The state of a `Training` before its step on this batch."""
        state = {name: array.copy() for name, array in training.checkpoint().items()}
        return cls(state, training.get(batch), training.weights())


def replayed(training: Any, start: Start, after: dict[str, Array]) -> float:
    """How far the step that led to ``after`` is off the same step of this `Training`, relative to its movement."""
    training.restore(start.state)
    training.read([training.step(training.put(start.batch))])
    return deviation(start.weights, after, training.weights())

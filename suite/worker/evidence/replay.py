"""Repeats the last steps with a fresh model, from the same state on the same batches, to detect a step that changed.

So a program that is not the one its code makes, or has changed its ways since its first steps, is seen, whatever it is
that changed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from suite.worker.evidence.optimizer import deviation
from workloads.data.dataset import Array

#: Steps after the last window, which a fresh model takes again; in fp16 some may overflow and change nothing.
LAST_STEPS, FP16_STEPS = 2, 4

#: What a framework keeps in its state although the spec says it, by the ends of the names: a learning rate, the rate or
#: switch of dropout. A fresh model keeps its own.
OF_THE_SPEC = re.compile(r"(rate|dropout)('\])?$")


@dataclass(frozen=True)
class Replay:
    """Some steps of a `Training`, on the host: the state before them, the weights before and after, the batches."""

    state: dict[str, Array]
    before: dict[str, Array]
    after: dict[str, Array]
    batches: list[tuple[Array, Array]]
    losses: list[Any]

    @classmethod
    def of(cls, training: Any, batches: list[Any], replays: bool = True) -> Replay:
        """Take the steps on these batches; without the state before them if nothing ``replays`` them."""
        state = {name: array.copy() for name, array in training.checkpoint().items()} if replays else {}
        before = training.weights()
        losses = [training.step(batch) for batch in batches]
        training.fence(losses[-1])
        return cls(state, before, training.weights(), [training.get(batch) for batch in batches], losses)

    def deviation(self, fresh: Any) -> tuple[float, float | None]:
        """How far the movement is off that of a fresh `Training`, relative; and that off its own second one.

        The second is None where there is no need of it, as the first is 0.
        """
        movement = self._again(fresh)
        off = deviation(self.before, self.after, movement)
        return off, deviation(self.before, self._again(fresh), movement) if off else None

    def _again(self, fresh: Any) -> dict[str, Array]:
        """The weights after the steps of a fresh `Training`."""
        restore_state(fresh, self.state)
        fresh.read([fresh.step(fresh.put(batch)) for batch in self.batches])
        weights: dict[str, Array] = fresh.weights()
        return weights


def restore_state(fresh: Any, state: dict[str, Array]) -> None:
    """Give a fresh `Training` the state of another one like it, but for what the spec says."""
    own = fresh.checkpoint()
    # Keras numbers its models, so that only the order of names is the same; PyTorch's optimizers begin with none.
    names = own if len(own) == len(state) else state
    pairs = zip(names, state.values(), strict=True)
    fresh.restore({name: own[name] if OF_THE_SPEC.search(name) else held for name, held in pairs})

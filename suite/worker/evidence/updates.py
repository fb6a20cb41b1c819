"""What updates are held against: the spec's optimizers in NumPy, and the same steps taken again by a fresh model."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from workloads.data.dataset import Array
from workloads.spec import FROZEN, Adagrad, Adam, AdamW, Lamb, Lars, Optimizer, RmsProp


class Formula:
    """An optimizer of `workloads.spec` with its state, for all tensors by their names."""

    def __init__(
        self,
        optimizer: Optimizer,
        rates: Sequence[float] | Array | None = None,
        decays: Mapping[str, float] | None = None,
    ) -> None:
        """``rates`` are the learning rates of all steps, where they are not its own, and ``decays`` those of a spec."""
        self.optimizer, self.rates, self.steps = optimizer, optimizer.rates if rates is None else rates, 0
        self.decays = decays or {}
        zero: Callable[[], Any] = float
        self._means: dict[str, Array] = defaultdict(zero)  # with momentum, the velocities
        self._squares: dict[str, Any] = defaultdict(lambda: getattr(optimizer, "start", 0.0))

    def step(self, weights: Mapping[str, Array], gradients: Mapping[str, Array]) -> dict[str, Array]:
        """The weights after one more step along these gradients."""
        self.steps += 1
        trained = {name: each for name, each in gradients.items() if self.decays.get(name) != FROZEN}
        moves = {name: self._move(name, weights[name], each) for name, each in self._clip(trained).items()}
        return {name: array - moves[name] if name in moves else array for name, array in weights.items()}

    def _clip(self, gradients: dict[str, Array]) -> dict[str, Array]:
        most, norm = self.optimizer.clip_value, self.optimizer.clip_norm
        if most is not None:
            return {name: np.clip(each, -most, most) for name, each in gradients.items()}
        if norm is None:
            return gradients
        factor = min(1.0, norm / float(np.sqrt(sum(np.sum(each**2) for each in gradients.values()))))
        return {name: factor * each for name, each in gradients.items()}

    @property
    def _rate(self) -> float:
        return self.optimizer.learning_rate if self.rates is None else float(self.rates[self.steps - 1])

    def _move(self, name: str, weights: Array, gradient: Array) -> Array:
        optimizer: Any = self.optimizer
        decay = self.decays.get(name, optimizer.decay_of(weights.shape))
        if isinstance(optimizer, AdamW | Lamb):
            return self._adam(name, weights, gradient, decay)
        move = gradient + decay * weights
        if isinstance(optimizer, Adam):
            return self._adam(name, weights, move, 0.0)
        if isinstance(optimizer, RmsProp | Adagrad):
            kept, new = (optimizer.rho, 1 - optimizer.rho) if isinstance(optimizer, RmsProp) else (1.0, 1.0)
            self._squares[name] = kept * self._squares[name] + new * move**2
            move = move / (np.sqrt(self._squares[name]) + optimizer.epsilon)
        if isinstance(optimizer, Lars):
            size = np.linalg.norm(weights)
            move = move * self._rate * optimizer.coefficient * _ratio(size, np.linalg.norm(gradient) + decay * size)
        momentum = getattr(optimizer, "momentum", 0.0)
        self._means[name] = momentum * self._means[name] + move
        move = move + momentum * self._means[name] if getattr(optimizer, "nesterov", False) else self._means[name]
        return move if isinstance(optimizer, Lars) else self._rate * move

    def _adam(self, name: str, weights: Array, gradient: Array, decay: float) -> Array:
        optimizer: Any = self.optimizer
        self._means[name] = optimizer.beta1 * self._means[name] + (1 - optimizer.beta1) * gradient
        self._squares[name] = optimizer.beta2 * self._squares[name] + (1 - optimizer.beta2) * gradient**2
        mean = self._means[name] / (1 - optimizer.beta1**self.steps)
        square = self._squares[name] / (1 - optimizer.beta2**self.steps)
        move: Array = mean / (np.sqrt(square) + optimizer.epsilon) + decay * weights
        ratio = _ratio(np.linalg.norm(weights), np.linalg.norm(move)) if isinstance(optimizer, Lamb) else 1.0
        return self._rate * ratio * move


def _ratio(weights: np.floating[Any], move: np.floating[Any]) -> float:
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


#: Steps after the last window, which a fresh model takes again; in fp16 some may overflow and change nothing.
LAST_STEPS, FP16_STEPS = 2, 4
#: How often the fresh model takes them on a CPU where it is off the timed one; a GPU may choose other kernels at first.
REPLAYS = 4

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

    def deviation(self, fresh: Any, device: str) -> tuple[float, float | None]:
        """How far the movement is off that of a fresh `Training`, relative; and that off its own second one.

        The second is None where there is no need of it, as the first is 0. On a CPU, what once repeats itself to the
        last bit does so always, and the second is 0: a `Training` that becomes another one as it replays differs too.
        """
        replays = [self._again(fresh)]
        off = deviation(self.before, self.after, replays[0])
        if not off:
            return off, None
        replays += [self._again(fresh) for _ in range((REPLAYS if device == "cpu" else 2) - 1)]
        differences = [deviation(self.before, later, earlier) for earlier, later in pairwise(replays)]
        return off, differences[0] if all(differences) else 0.0

    def _again(self, fresh: Any) -> dict[str, Array]:
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

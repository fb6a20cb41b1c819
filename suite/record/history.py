"""What training to the end found, epoch by epoch. Standard library only; part of a `Record`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import accumulate
from typing import Any

#: What no launch can find: sums and ratios of larger and smaller numbers than these would not be finite.
SECONDS_LEAST, SECONDS_MOST, NUMBER_MOST, COUNT_MOST = 1e-9, 1e9, 1e100, 10**12


@dataclass(frozen=True)
class Epoch:
    """One pass over the training split, and the test split after it; times in seconds, losses means over samples."""

    steps: int
    train_loss: float
    train_s: float
    test_loss: float
    test_accuracy: float
    evaluation_s: float


@dataclass(frozen=True)
class Course:
    """All epochs of a launch with a recipe. ``planned`` epochs were to be trained; ``target`` is a test accuracy.

    ``curve`` are the losses of the first epoch's steps. ``resumed_at`` lists after how many epochs a checkpoint was
    gone on from.
    """

    recipe: str
    planned: int
    target: float
    epochs: tuple[Epoch, ...]
    curve: tuple[float, ...] = ()
    resumed_at: tuple[int, ...] = ()

    @property
    def finished(self) -> bool:
        return len(self.epochs) == self.planned

    @property
    def final_accuracy(self) -> float:
        """Test accuracy after the last epoch, whichever epoch was the best."""
        return self.epochs[-1].test_accuracy

    @property
    def train_s(self) -> list[float]:
        """Seconds of training at the end of each epoch; evaluation is not in it."""
        return list(accumulate(epoch.train_s for epoch in self.epochs))

    @property
    def epochs_to_target(self) -> int | None:
        """How many epochs it took until the test accuracy was first at the target or above."""
        return next((n for n, epoch in enumerate(self.epochs, 1) if epoch.test_accuracy >= self.target), None)

    @property
    def seconds_to_target(self) -> float | None:
        reached = self.epochs_to_target
        return self.train_s[reached - 1] if reached else None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Course:
        """Raises TypeError, KeyError or ValueError for anything that `to_json` cannot have written."""
        epochs = tuple(Epoch(**each) for each in data["epochs"])
        curve, resumed = (tuple(_list(data.get(name, []))) for name in ("curve", "resumed_at"))
        course = cls(**{**data, "epochs": epochs, "curve": curve, "resumed_at": resumed})
        numbers = [getattr(epoch, f.name) for epoch in epochs for f in fields(Epoch)]
        _require(all(map(_finite, [*numbers, *curve, course.target])), "holds what is no finite number")
        _require(type(course.planned) is int and 0 < course.planned <= COUNT_MOST, "plans no number of epochs")
        _require(0 < len(epochs) <= course.planned, f"has {len(epochs)} epochs of {course.planned}")
        _require(all(type(n) is int and 0 < n <= len(epochs) for n in resumed), "was resumed at no epoch")
        _require(all(type(e.steps) is int and 0 < e.steps <= COUNT_MOST for e in epochs), "has an epoch without steps")
        times = ((e.train_s - SECONDS_LEAST, e.evaluation_s) for e in epochs)
        _require(all(0 <= t <= SECONDS_MOST for both in times for t in both), "has a time that is no time")
        _require(all(0 <= e.test_accuracy <= 1 for e in epochs), "has an accuracy outside of 0 to 1")
        _require(isinstance(course.recipe, str), "has a recipe that is no text")
        return course


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -NUMBER_MOST <= value <= NUMBER_MOST


def _list(value: object) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise TypeError("holds what is no list")
    return list(value)


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(f"the course {problem}")

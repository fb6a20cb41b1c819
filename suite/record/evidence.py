"""Evidence that a launch computed what the others did: a part of its record. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from suite.record.history import COUNT_MOST, NUMBER_MOST, SECONDS_MOST


@dataclass(frozen=True)
class Trace:
    """Some training steps: the loss of each, and by canonical name how far each tensor moved over all of them.

    A tensor's ``updates`` are relative, ``|after - before| / |before|``; of one that starts at zero, the plain norm.
    """

    losses: tuple[float, ...]
    updates: dict[str, float]


@dataclass(frozen=True)
class Last:
    """What the timed object did after its last window.

    ``batch`` is the number of the loader's next batch, ``equal`` whether it was the reference's batch of that number
    bit for bit, as were some before it; else ``batch`` is the first that was not. ``updates`` is how far each tensor
    moved in the steps after it, ``replayed`` how far that is off the same steps of a fresh model, relative to the
    movement, where there was one.
    """

    batch: int
    equal: bool
    updates: dict[str, float]
    replayed: float | None = None


@dataclass(frozen=True)
class Draws:
    """Dropout at fixed weights: the ``spread`` of the logits over draws, and ``losses`` of steps on one batch."""

    spread: float
    losses: tuple[float, ...]


@dataclass(frozen=True)
class Identity:
    """Evidence that this launch computed what the others did (see `suite.worker.evidence`).

    ``weights`` and ``batches`` are SHA-256 digests of the initial weights, read back out of the model, and of the first
    batches that the measured loader delivered. ``losses`` and ``updates`` are the fingerprint: the first training
    steps on fixed batches without dropout, and the relative change of every tensor over these steps (as in `Trace`);
    ``early_updates`` are those after its first steps, before training amplifies rounding.

    What follows is missing in records of older versions, and where a launch has no such evidence. ``own`` is a
    fingerprint at the cell's own batch size, ``float64`` one in double precision on the host, ``timed`` are the first
    steps of the very object that is timed, ``last`` is what that did after the last window. ``optimizer`` is the
    largest relative deviation of a tensor's update from the spec's formula in float64, or from the recipe's where there
    is one; then ``evaluation`` holds, after these steps, the loss and the share of right answers of some test samples.
    ``seconds`` is what each part took.
    """

    weights: str
    batches: str
    losses: tuple[float, ...]
    updates: dict[str, float]
    early_updates: dict[str, float] = field(default_factory=dict)
    own: Trace | None = None
    float64: Trace | None = None
    timed: Trace | None = None
    evaluation: Trace | None = None
    last: Last | None = None
    dropout: Draws | None = None
    optimizer: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Identity:
        """Raises TypeError, KeyError or ValueError for anything that a worker cannot have written."""
        values = {**data, "losses": _items(data["losses"]), "updates": _names(data["updates"])}
        for name in ("early_updates", "seconds"):
            values[name] = _names(data.get(name, {}))
        for name in ("own", "float64", "timed", "evaluation"):
            if (trace := data.get(name)) is not None:
                values[name] = Trace(
                    **{**trace, "losses": _items(trace["losses"]), "updates": _names(trace["updates"])}
                )
        if (last := data.get("last")) is not None:
            values["last"] = Last(**{**last, "updates": _names(last["updates"])})
        if (dropout := data.get("dropout")) is not None:
            values["dropout"] = Draws(**{**dropout, "losses": _items(dropout["losses"])})
        return cls(**values)

    @property
    def traces(self) -> dict[str, Trace]:
        """The fingerprints besides the first one, by the names of their fields."""
        traces = {"own": self.own, "float64": self.float64, "timed": self.timed, "evaluation": self.evaluation}
        return {name: trace for name, trace in traces.items() if trace}

    def problem(self) -> str:
        """What no measurement can have given, in words; empty where there is nothing of the kind."""
        traces, last = self.traces.values(), self.last
        losses = [self.losses, *(trace.losses for trace in traces)]
        losses += [(*self.dropout.losses, self.dropout.spread)] if self.dropout else []
        updates = [self.updates, self.early_updates, *(trace.updates for trace in traces)]
        updates += [last.updates] if last else []
        deviations = [self.optimizer, last.replayed if last else None]
        numbered = not last or (type(last.batch) is int and 0 <= last.batch <= COUNT_MOST)
        spent = self.seconds.values()
        holds = {
            "a digest that is no text": all(isinstance(digest, str) for digest in (self.weights, self.batches)),
            "a loss that is not finite": all(_finite(each) for each in losses),
            "an update that is not finite": all(_finite(each.values()) for each in updates),
            "a last batch that is none": numbered and (not last or isinstance(last.equal, bool)),
            "a deviation that is not finite": all(each is None or _finite([each]) for each in deviations),
            "a time that is no time": _finite(spent, SECONDS_MOST) and all(seconds >= 0 for seconds in spent),
        }
        return next((f"holds {what}" for what, right in holds.items() if not right), "")


def _finite(values: Iterable[object], most: float = NUMBER_MOST) -> bool:
    return all(isinstance(v, (int, float)) and not isinstance(v, bool) and -most <= v <= most for v in values)


def _items(data: Any) -> tuple[Any, ...]:
    """A tuple of a list; of text it would be one of letters."""
    if not isinstance(data, (list, tuple)):
        raise TypeError("losses are no list")
    return tuple(data)


def _names(data: Any) -> dict[str, Any]:
    return dict(data.items())

"""Evidence that a launch computed what the others did: a part of its record."""

from __future__ import annotations

from dataclasses import dataclass, field

from suite.record.history import Count, Number, Seconds


@dataclass(frozen=True)
class Trace:
    """Some training steps: the loss of each, and by canonical name how far each tensor moved over all of them.

    A tensor's ``updates`` are relative, ``|after - before| / |before|``; of one that starts at zero, the plain norm.
    """

    losses: tuple[Number, ...]
    updates: dict[str, Number]


@dataclass(frozen=True)
class Last:
    """What the timed object did after its last window.

    ``batch`` is the number of the loader's next batch, ``equal`` whether it was the reference's batch of that number
    bit for bit, as were some before it; else ``batch`` is the first that was not. ``updates`` is how far each tensor
    moved in the steps after it, ``replayed`` how far that is off the same steps of a fresh model, relative to the
    movement, where there was one.
    """

    batch: Count
    equal: bool
    updates: dict[str, Number]
    replayed: Number | None = None


@dataclass(frozen=True)
class Draws:
    """Dropout at fixed weights: the ``spread`` of the logits over draws, and ``losses`` of steps on one batch."""

    spread: Number
    losses: tuple[Number, ...]


@dataclass(frozen=True)
class Recomputed:
    """What gradient checkpointing changed, on one small batch with dropout.

    ``kept_bytes`` is what the forward pass keeps for the backward pass, besides weights and the batch, and
    ``usual_bytes`` the same without checkpointing. ``gradient`` is how far, relatively, any tensor's gradient is off
    that without checkpointing, from the same random state: 0 where they are equal to the last bit.
    """

    batch: Count
    kept_bytes: Count
    usual_bytes: Count
    gradient: Number


@dataclass(frozen=True)
class Identity:
    """Evidence that this launch computed what the others did (see `suite.worker.evidence`).

    ``weights`` and ``batches`` are SHA-256 digests of the initial weights, read back out of the model, and of the first
    batches that the measured loader delivered. ``losses`` and ``updates`` are the fingerprint: the first training
    steps on fixed batches without dropout, and the relative change of every tensor over these steps (as in `Trace`);
    ``early_updates`` are those after its first steps, before training amplifies rounding.

    What follows is missing in records of older versions, and where a launch has no such evidence. ``own`` is a
    fingerprint at the cell's own batch size, ``float64`` one in double precision on the host (of the workload's size
    ``float64_size``, where that is not the cell's), ``timed`` are the first steps of the very object that is timed,
    ``last`` is what that did after the last window. ``optimizer`` is the largest relative deviation of a tensor's
    update from the spec's formula in float64, or from the recipe's where there is one; then ``evaluation`` holds, after
    these steps, the loss and the share of right answers of some test samples. ``recomputed`` is there where the cell
    has gradient checkpointing.
    ``seconds`` is what each part took.
    """

    weights: str
    batches: str
    losses: tuple[Number, ...]
    updates: dict[str, Number]
    early_updates: dict[str, Number] = field(default_factory=dict)
    own: Trace | None = None
    float64: Trace | None = None
    float64_size: str = ""
    timed: Trace | None = None
    evaluation: Trace | None = None
    last: Last | None = None
    dropout: Draws | None = None
    optimizer: Number | None = None
    recomputed: Recomputed | None = None
    seconds: dict[str, Seconds] = field(default_factory=dict)

    @property
    def traces(self) -> dict[str, Trace]:
        """The fingerprints besides the first one, by the names of their fields."""
        traces = {"own": self.own, "float64": self.float64, "timed": self.timed, "evaluation": self.evaluation}
        return {name: trace for name, trace in traces.items() if trace}

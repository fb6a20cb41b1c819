"""Parts of a record: evidence that a launch computed what the others did, and how its trained model served."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Annotated

from msgspec import Meta

from suite.plan.measuring import LEAST_FOR_P99
from suite.record.parts.history import Count, Elapsed, Number, Seconds, Some

#: By how much the percentiles of one launch may be out of order, as they are rounded.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Decoded:
    """Prompts that a model went on with, word by word, each with the largest logit, from a cache of keys and values.

    ``batch`` prompts of ``prompt`` words at once got ``words`` more each. ``prefill_s`` is the pass over the prompts
    and ``decode_s`` all further ones, each the median of some ``rounds``; older records don't say of how many.
    """

    batch: Some
    prompt: Some
    words: Some
    prefill_s: Elapsed
    decode_s: Elapsed
    rounds: Count = 0


@dataclass(frozen=True)
class Inference:
    """Requests of one sample each, after the windows of training, one after the other: from host to host.

    Each was timed by itself. ``median_s``, ``p95_s`` and ``p99_s`` are percentiles of this launch's ``requests``,
    linear between neighbours, and ``worst_s`` is the slowest of them; with fewer than `LEAST_FOR_P99` there is no 99th
    percentile. ``seconds`` is what all took together. ``first_s`` is the very first one, and ``first_batch_s`` the
    first pass at the cell's batch; both compile where the framework does. ``memory_bytes`` is the allocator's peak
    after both, with what training keeps (the optimizer's state, batches); None where the framework tells none of it.
    ``decoded`` is for workloads that decode.
    """

    requests: Some
    median_s: Elapsed
    p95_s: Elapsed
    p99_s: Elapsed | None
    worst_s: Elapsed
    seconds: Elapsed
    first_s: Elapsed
    first_batch_s: Elapsed
    memory_bytes: Count | None = None
    decoded: tuple[Decoded, ...] = ()

    def __post_init__(self) -> None:
        shown = [self.median_s, self.p95_s, *([self.p99_s] if self.p99_s else []), self.worst_s]
        if any(after < before * (1 - ROUNDING) for before, after in pairwise(shown)):
            raise ValueError(f"has percentiles that are out of order: {', '.join(f'{each:g}' for each in shown)}")
        least_s = max(self.worst_s, self.requests // 2 * self.median_s)
        if self.seconds < least_s * (1 - ROUNDING):
            raise ValueError(f"has requests that take {self.seconds:g} s, and by their percentiles {least_s:g} or more")
        if self.p99_s is not None and self.requests < LEAST_FOR_P99:
            raise ValueError(f"has a 99th percentile of {self.requests} requests; it takes {LEAST_FOR_P99}")


@dataclass(frozen=True)
class Answered:
    """Whether the answers that were timed are the trained model's, by the evaluation of a fresh model with its state.

    Some ``requests`` at random positions, and some samples of each phase's last batch, were evaluated again. ``off`` is
    how far a loss that follows from an answer is off the evaluation's, at most: relative or, below 1, absolute.
    ``wrong`` counts the answers that are clearly those of another of these samples. ``gradient`` says whether the pass
    kept one. ``cached`` is how far the logits of decoding with a cache are off those of passes without one, at any
    position: relative, in the L2 norm. It is at its largest where other words were timed.
    """

    requests: Count
    off: Number
    wrong: Count
    gradient: bool
    cached: Number | None = None


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
    bit for bit, as were those before it at random positions (``checked`` are all of them); else ``batch`` is the
    first that was not. ``updates`` is how far each tensor moved in the steps after it, ``replayed`` how far that is
    off the same steps of a fresh model, relative to the movement; None where nothing was replayed. Where it is
    off at all, ``again`` is how far the fresh model is off itself when it takes them again.
    """

    batch: Count
    equal: bool
    updates: dict[str, Number]
    replayed: Number | None = None
    again: Number | None = None
    checked: tuple[Count, ...] = ()


@dataclass(frozen=True)
class Scored:
    """The last evaluation of a training to its end, of which some ``samples`` were evaluated again with every label.

    Where each position has a label, that is one sample, with every label of its last; the others have their own.
    ``total`` is how far the probabilities of a sample's labels are off 1 in sum, at most. ``wrong`` is how many of the
    samples have a right label that is not the most probable one, or scored otherwise in the evaluation itself.
    ``replayed`` is how far a loss is off that of a fresh model with the same weights and statistics, relative or, below
    1, absolute; ``fp32``, in coarser precisions, how far, relatively, the mean loss is off that in fp32. ``right`` is
    the share of right answers among them, by the fresh model.
    """

    samples: Count
    total: Number
    wrong: Count
    replayed: Number
    fp32: Number | None = None
    right: Annotated[float, Meta(ge=0, le=1)] | None = None


@dataclass(frozen=True)
class Draws:
    """Dropout at fixed weights: the ``spread`` of the logits over draws, and ``losses`` of steps on one batch.

    ``shared`` is the variance of a batch's mean over draws, divided by what independent masks would make it: 1, or the
    batch's size where all samples share a mask; the largest of the logits' and of those of the layers' inputs. ``size``
    is that of the model; older records have none, and a small one. ``layers`` is the spread of each layer's input,
    relative to the input, by the name of the layer's kernel.
    """

    spread: Number
    losses: tuple[Number, ...]
    shared: Number | None = None
    size: str = ""
    layers: dict[str, Number] = field(default_factory=dict)


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

    ``weights`` and ``batches`` are SHA-256 digests of the weights of a fresh model, read back out of it, and of the
    first batches that the measured loader delivered; ``initial`` is one of the weights that what is timed starts from.
    ``program`` is one of all that decides what the launch computes. A launch without ``losses`` rests on one that has
    them and the same program.

    ``losses`` and ``updates`` are the fingerprint: the first training steps on fixed batches without dropout, and the
    relative change of every tensor over these steps (as in `Trace`). ``own`` is one at the cell's own batch size,
    ``float64`` one in double precision on the host. ``optimizer`` is the largest relative deviation of a tensor's
    update from the formula of the spec's optimizer, or the recipe's, in float64; ``own_optimizer`` the same in the
    cell's precision and at its batch. Where there is a recipe, ``evaluation`` holds, after the steps in float64, the
    loss and the share of right answers of some test samples. ``recomputed`` is there where the cell has gradient
    checkpointing; ``last`` is what the timed object did after the last window, and ``scored`` how it was evaluated.
    Where the launch served, ``inference`` has, after the steps in float64, losses that follow from the answers of the
    function that serves, and ``answered`` checks the answers that were timed.
    ``seconds`` is what each part took.

    Records of older versions lack some. They may have ``early_updates``, those after the fingerprint's first two steps;
    ``timed``, the first steps of the very object that is timed; and float64 of another size, ``float64_size``.
    """

    weights: str = ""
    batches: str = ""
    losses: tuple[Number, ...] = ()
    updates: dict[str, Number] = field(default_factory=dict)
    program: str = ""
    early_updates: dict[str, Number] = field(default_factory=dict)
    own: Trace | None = None
    float64: Trace | None = None
    float64_size: str = ""
    timed: Trace | None = None
    evaluation: Trace | None = None
    last: Last | None = None
    scored: Scored | None = None
    dropout: Draws | None = None
    optimizer: Number | None = None
    own_optimizer: Number | None = None
    recomputed: Recomputed | None = None
    inference: Trace | None = None
    answered: Answered | None = None
    initial: str = ""
    seconds: dict[str, Seconds] = field(default_factory=dict)

    @cached_property
    def traces(self) -> dict[str, Trace]:
        """The fingerprints, and dropout's spread at each layer, by the names of their fields."""
        traces = {"own": self.own, "float64": self.float64, "evaluation": self.evaluation, "inference": self.inference}
        traces["fingerprint"] = Trace(self.losses, self.updates) if self.losses else None
        traces["dropout"] = Trace((), self.dropout.layers) if self.dropout and self.dropout.layers else None
        return {name: trace for name, trace in traces.items() if trace}

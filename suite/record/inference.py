"""How a trained model served: a part of a launch's record."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from suite.plan.measuring import LEAST_FOR_P99
from suite.record.parts.history import Count, Elapsed, Number, Some

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

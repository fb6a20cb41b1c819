"""Parts of a record: the epochs of a training to the end, counts besides the windows, and several devices."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import Annotated

from msgspec import Meta

from workloads.spec import is_loss

#: Bounds of all numbers: sums and ratios of larger and smaller ones might not be finite.
SECONDS_LEAST, SECONDS_MOST, NUMBER_MOST, COUNT_MOST = 1e-9, 1e9, 1e100, 10**12

Number = Annotated[float, Meta(ge=-NUMBER_MOST, le=NUMBER_MOST)]
Seconds = Annotated[float, Meta(ge=0, le=SECONDS_MOST)]
Elapsed = Annotated[float, Meta(ge=SECONDS_LEAST, le=SECONDS_MOST)]
Count = Annotated[int, Meta(ge=0, le=COUNT_MOST)]
Some = Annotated[int, Meta(ge=1, le=COUNT_MOST)]


@dataclass(frozen=True)
class Shapes:
    """What the windows of training computed where batches have several lengths.

    ``words`` and ``places``, which are words and padding, are those of each window, and ``lengths`` is how many lengths
    their batches had, of ``longest`` at most. ``programs`` had been compiled at the end of them, 0 where nothing
    compiles, and ``compiled`` of these within them. ``cover_s`` is how long the steps took that covered every bucket
    before all windows. ``training_flops_per_sample`` is the mean over the batches of these windows.
    """

    words: Annotated[tuple[Some, ...], Meta(min_length=1)]
    places: Annotated[tuple[Some, ...], Meta(min_length=1)]
    lengths: Some
    longest: Some
    programs: Count
    compiled: Count
    cover_s: Seconds
    training_flops_per_sample: Annotated[float, Meta(gt=0, le=NUMBER_MOST)]


@dataclass(frozen=True)
class Ledger:
    """Counts that do not come from the windows, over the phases or over a training to its end.

    ``delivered`` is how many batches the loader delivered, ``updates`` how many steps the optimizer counted itself, or
    None where it keeps no count. ``untimed`` are by phase the steps in no window. ``seen_s`` is by name how long what
    was timed took by the clock of the parent, which stamps the worker's messages: the startup, compiling, the first
    step, each burst of a phase's windows, what serves, and of a training to its end each ``epoch``, this until it was
    ``evaluated``, and until its checkpoint was written (``train``). ``late_s`` is for how long the parent waited for a
    core before it read the first and the last of these messages, by the kernel's count; None if that was not recorded.
    ``shapes`` are there where batches have several lengths.
    """

    delivered: Count
    updates: Count | None = None
    untimed: dict[str, Count] = field(default_factory=dict)
    seen_s: dict[str, tuple[Seconds, ...]] = field(default_factory=dict)
    late_s: dict[str, tuple[Seconds, ...]] | None = None
    shapes: Shapes | None = None


@dataclass(frozen=True)
class Epoch:
    """One pass over the training split, and the test split after it; times in seconds, losses means over samples."""

    steps: Some
    train_loss: Number
    train_s: Elapsed
    test_loss: Number
    test_accuracy: Annotated[float, Meta(ge=0, le=1)]
    evaluation_s: Seconds

    def reaches(self, target: float) -> bool:
        return self.test_loss <= target if is_loss(target) else self.test_accuracy >= target


@dataclass(frozen=True)
class TrainingHistory:
    """All epochs of a launch with a recipe. ``planned`` epochs were to be trained.

    ``target`` is a test accuracy, or a test loss if it is above 1 (`is_loss`).

    ``curve`` are the losses of the first epoch's steps. ``resumed_at`` lists after how many epochs a checkpoint was
    gone on from.
    """

    recipe: str
    planned: Some
    target: Number
    epochs: Annotated[tuple[Epoch, ...], Meta(min_length=1)]
    curve: tuple[Number, ...] = ()
    resumed_at: tuple[Some, ...] = ()

    def __post_init__(self) -> None:
        if len(self.epochs) > self.planned:
            raise ValueError(f"has {len(self.epochs)} epochs of {self.planned}")
        if max(self.resumed_at, default=0) > len(self.epochs):
            raise ValueError(f"was resumed after epoch {max(self.resumed_at)} of {len(self.epochs)}")

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
        """How many epochs it took until the test accuracy, or the test loss, was first at the target or better."""
        return next((n for n, epoch in enumerate(self.epochs, 1) if epoch.reaches(self.target)), None)

    @property
    def seconds_to_target(self) -> float | None:
        reached = self.epochs_to_target
        return self.train_s[reached - 1] if reached else None


Rate = Annotated[float, Meta(ge=0, le=NUMBER_MOST)]


@dataclass(frozen=True)
class Rank:
    """One process. ``host`` is a number in the order of ranks, not a name; ``device`` is what it trained on.

    ``train_step_s_median`` and ``train_samples_per_s`` are from its own clock, of the `train` phase, and the samples
    its own. ``local_step_s_median`` is a step without communication, so without waiting for others.
    """

    rank: Count
    host: Count
    device: str
    train_step_s_median: Seconds
    train_samples_per_s: Rate
    local_step_s_median: Seconds | None = None


@dataclass(frozen=True)
class AllReduce:
    """Sums of one array over all devices, ``bytes`` long as the gradient is, by the collective that training uses.

    ``bytes_per_s`` is ``bytes`` by the median of ``n`` sums, ``peak_bytes_per_s`` the best rate of a larger array.
    """

    bytes: Count
    seconds_median: Elapsed
    n: Count
    bytes_per_s: Rate
    peak_bytes_per_s: Rate


@dataclass(frozen=True)
class Ranks:
    """``world`` processes trained on ``devices`` devices together.

    ``backend`` is what carried the gradients (gloo, nccl, ring ...). ``skew`` is the slowest process by the median one,
    by their steps without communication; None where these were not measured. ``links`` says how the devices are
    connected, where the system tells, and ``interface`` which network interface gradients took between hosts; empty if
    that was left to the backend.
    """

    world: Count
    devices: Count
    strategy: str
    backend: str
    threads_per_rank: Count
    per_rank: tuple[Rank, ...] = ()
    skew: Rate | None = None
    gradient_bytes: Count = 0
    allreduce: AllReduce | None = None
    links: tuple[str, ...] = ()
    interface: str = ""

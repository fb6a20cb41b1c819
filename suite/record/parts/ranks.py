"""How several devices trained one model together: a part of the record of a cell that has several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from suite.record.parts.history import NUMBER_MOST, Count, Elapsed, Seconds

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

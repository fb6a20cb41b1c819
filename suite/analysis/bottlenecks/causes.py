"""What a step costs by category, and why one row's takes longer than another's: the differences, largest first.

A profiled step takes longer than a timed one, so the times of each profile are scaled to the timed step of its launch:
on a CPU as if everything had slowed alike, on a GPU what the host does alone (`Profile.slowdown_of`). With at least
`statistics.BLOCKS_LEAST` blocks in which both were profiled, each difference has a 95 % interval (Student's t on the
differences within blocks) and a p-value, after Holm's correction over the categories of the pair.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from suite.analysis.bottlenecks.known_causes import LITTLE_SHARE, Reason, find_known_causes
from suite.analysis.rows.blocks import pairs
from suite.analysis.rows.groups import Row
from suite.analysis.statistics.inference import BLOCKS_LEAST, LEVEL, Estimate, holm, mean_test
from suite.catalog.devices import ACCELERATORS
from suite.record.parts.profile import CATEGORIES, Operation, Profile
from suite.record.text import clean

#: How far the sum of the categories may lie from the timed step before a table says so.
AGREES = 0.10


@dataclass(frozen=True)
class Costs:
    """The profiles of a row by block; there is at least one."""

    row: Row
    profiles: Mapping[int, Profile]

    @property
    def launches(self) -> int:
        return len(self.profiles)

    @cached_property
    def step_s(self) -> float:
        """The step that was timed, not the profiled one, which costs more."""
        return median(profile.timed_s for profile in self.profiles.values())

    @cached_property
    def seconds(self) -> dict[str, float]:
        """Seconds per timed step of every category, in the order of `CATEGORIES`."""
        return {name: median(self.of_block(block, name) for block in self.profiles) for name in CATEGORIES}

    def of_block(self, block: int, category: str) -> float:
        profile = self.profiles[block]
        share = profile.categories.get(category)
        return share.seconds / profile.slowdown_of(category) if share and share.seconds else 0.0

    @cached_property
    def calls(self) -> dict[str, float]:
        """Calls per step of every category."""
        found = ((name, [each.categories.get(name) for each in self.profiles.values()]) for name in CATEGORIES)
        return {name: median(share.calls if share else 0.0 for share in shares) for name, shares in found}

    @cached_property
    def moved(self) -> dict[str, float | None]:
        """Bytes per step of every category; None where no launch knows them."""
        found: dict[str, float | None] = {}
        for name in CATEGORIES:
            shares = [profile.categories[name] for profile in self.profiles.values() if name in profile.categories]
            known = [share.bytes for share in shares if share.bytes is not None]
            found[name] = median(known) if known else None
        return found

    @property
    def covered(self) -> float:
        """The sum of all categories as they were profiled, over the timed step."""
        return median(profile.covered for profile in self.profiles.values())

    @property
    def cost(self) -> float:
        return median(profile.cost for profile in self.profiles.values())

    @property
    def threads(self) -> int:
        return max(profile.threads for profile in self.profiles.values())

    @property
    def on_gpu(self) -> bool:
        return any(each.device in ACCELERATORS for each in self.typical.operations) or self.typical.gaps is not None

    @property
    def kernels_kept(self) -> bool:
        """Whether the kernels have the times that they had in the profile."""
        return all(profile.kernels_kept for profile in self.profiles.values())

    @cached_property
    def typical(self) -> Profile:
        """The profile of the launch whose timed step is nearest to the median."""
        return min(self.profiles.values(), key=lambda profile: abs(profile.timed_s - self.step_s))

    @property
    def operations(self) -> list[Operation]:
        """The largest operations of the typical launch, scaled likewise, the largest first."""
        found = (
            replace(each, seconds=each.seconds / (self.typical.slowdown_of(each.category) or 1.0))
            for each in self.typical.operations
        )
        return sorted(found, key=lambda each: -each.seconds)

    def largest(self, category: str) -> Operation | None:
        """The operation that takes longest in this category, where the profile names one."""
        return next((each for each in self.operations if each.category == category), None)


def costs(row: Row) -> Costs | None:
    profiles = {record.block: record.profile for record in row.ok if record.profile}
    return Costs(row, profiles) if profiles else None


#: How much of what takes longer is named, and the least share of the difference that is worth a name.
NAMED_SHARE, LEAST_SHARE = 0.90, 0.02
#: Operations that no rule knows are named from this share of the difference or of a step on.
UNKNOWN = 0.05
#: What goes the other way is named from this share of the difference on.
AGAINST_SHARE = 0.10
#: A recurrent layer as one kernel, and what a loop over time steps does instead; the name of all of them together.
LAYER = ("recurrent kernel", "matrix product", "element-wise")
RECURRENT = "recurrent layer"
#: Steps that differ by less, relatively, leave nothing to explain.
ALIKE = 0.02


@dataclass(frozen=True)
class Cause:
    """A category's seconds in both rows, and their difference as a share of that of the steps.

    ``category`` is one of `CATEGORIES`, or `RECURRENT` where one side has a kernel and the other a loop.
    ``difference`` is that of the seconds, None if nothing was tested. ``calls`` are those of both rows per step.
    """

    category: str
    seconds: float
    other_seconds: float
    share: float
    calls: tuple[float, float]
    operation: str = ""  # the largest one of the side that takes longer
    operation_share: float = 0.0  # of that side's seconds
    difference: Estimate | None = None
    known: tuple[Reason, ...] = ()

    @property
    def certain(self) -> bool | None:
        return None if self.difference is None else (self.difference.p or 0.0) < LEVEL


@dataclass(frozen=True)
class Causes:
    """What makes the steps of ``row`` longer or shorter than those of ``other``.

    ``causes`` add up to `NAMED_SHARE` of ``longer``, the shares of all categories that take longer, or to all worth a
    name; ``longer`` exceeds 1 where others, such as ``against``, go the other way. Seconds are those of a step, or of a
    sample (``per``) where the two have different batches. ``blocks`` have both profiles.
    The times of both are scaled to their timed steps (`suite.analysis.bottlenecks.causes`).
    """

    row: Costs
    other: Costs
    per: str
    step_s: float
    other_step_s: float
    causes: tuple[Cause, ...]
    against: tuple[Cause, ...]
    blocks: int
    longer: float = 1.0

    @property
    def tested(self) -> bool:
        return self.blocks >= BLOCKS_LEAST

    @property
    def alike(self) -> bool:
        return abs(self.step_s - self.other_step_s) < ALIKE * max(self.step_s, self.other_step_s)

    @property
    def named(self) -> float:
        return math.fsum(cause.share for cause in self.causes) / self.longer if self.longer else 1.0

    @property
    def unknown(self) -> tuple[float, float]:
        return tuple(each.seconds["other"] / each.step_s for each in (self.row, self.other))  # type: ignore[return-value]


def causes(row: Costs, other: Costs) -> Causes:
    batches = [median(record.effective_batch for record in each.row.ok) for each in (row, other)]
    per_sample = batches[0] != batches[1]
    samples, other_samples = batches if per_sample else (1.0, 1.0)
    step_s, other_step_s = row.step_s / samples, other.step_s / other_samples
    difference = step_s - other_step_s
    within = row.row.run == other.row.run
    shared = {record.block for record, _ in pairs(row.row.ok, other.row.ok)} if within else set()
    blocks = sorted(shared & row.profiles.keys() & other.profiles.keys())
    groups = _groups(row, other)
    tests = _tests((row, samples), (other, other_samples), blocks, groups) if len(blocks) >= BLOCKS_LEAST else {}
    slower, faster = (row, other) if difference >= 0 else (other, row)
    found = []
    for name, parts in groups.items():
        seconds, other_seconds = _sum(row.seconds, parts) / samples, _sum(other.seconds, parts) / other_samples
        longer = row if seconds >= other_seconds else other
        largest = max(filter(None, map(longer.largest, parts)), key=lambda each: each.seconds, default=None)
        whole = _sum(longer.seconds, parts)
        most = min(1.0, largest.seconds / whole) if largest and whole else 0.0
        share = (seconds - other_seconds) / difference if difference else 0.0
        reasons = find_known_causes(parts[0], slower, faster) if share >= AGAINST_SHARE else ()
        calls = _sum(row.calls, parts), _sum(other.calls, parts)
        operation = clean(largest.name, 80) if largest else ""
        found.append(Cause(name, seconds, other_seconds, share, calls, operation, most, tests.get(name), reasons))
    ordered = sorted(found, key=lambda cause: -cause.share)
    positive = math.fsum(max(cause.share, 0.0) for cause in found)
    least = {"other": UNKNOWN}
    against = tuple(cause for cause in reversed(ordered) if cause.share <= -least.get(cause.category, AGAINST_SHARE))
    per, named = "sample" if per_sample else "step", tuple(_most(ordered, positive))
    return Causes(row, other, per, step_s, other_step_s, named, against, len(blocks), positive)


def _most(ordered: Sequence[Cause], longer: float) -> list[Cause]:
    chosen: list[Cause] = []
    sum_of_shares = 0.0
    for cause in ordered:
        enough = cause.share < LEAST_SHARE or sum_of_shares >= NAMED_SHARE * longer
        if not enough or (cause.category == "other" and cause.share >= UNKNOWN):
            chosen.append(cause)
            sum_of_shares += cause.share
    return chosen


def _groups(row: Costs, other: Costs) -> dict[str, tuple[str, ...]]:
    """The categories that are compared: each by itself, but for a recurrent layer that one side has as a kernel."""
    groups: dict[str, tuple[str, ...]] = {name: (name,) for name in CATEGORIES}
    kernels = [each.seconds[LAYER[0]] > LITTLE_SHARE * each.step_s for each in (row, other)]
    if any(kernels) and not all(kernels):
        groups = {name: parts for name, parts in groups.items() if name not in LAYER} | {RECURRENT: LAYER}
    return groups


def _sum(values: Mapping[str, float], parts: Sequence[str]) -> float:
    return math.fsum(values[part] for part in parts)


def _tests(
    ours: tuple[Costs, float], theirs: tuple[Costs, float], blocks: Sequence[int], groups: Mapping[str, Sequence[str]]
) -> dict[str, Estimate]:
    found = {}
    for name, parts in groups.items():
        sides = [
            [math.fsum(each.of_block(block, part) for part in parts) / samples for block in blocks]
            for each, samples in (ours, theirs)
        ]
        if any(any(side) for side in sides):
            found[name] = mean_test([a - b for a, b in zip(*sides, strict=True)])[:4]
    corrected = holm([p for *_, p in found.values()])
    return {
        name: Estimate(value, low, high, len(blocks), p=p)
        for (name, (value, low, high, _)), p in zip(found.items(), corrected, strict=True)
    }

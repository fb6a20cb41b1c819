"""What a timed step of a row costs by category: medians over the launches that have a profile.

A profiled step takes longer than a timed one, so the times of each profile are scaled to the timed step of its launch:
on a CPU as if everything had slowed alike, on a GPU what the host does alone (`Profile.slowdown_of`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from suite.analysis.rows.groups import Row
from suite.catalog.devices import ACCELERATORS
from suite.record.parts.profile import CATEGORIES, Operation, Profile

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

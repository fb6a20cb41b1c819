"""What a step of a row costs by category: medians over the launches that have a profile."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from suite.analysis.groups import Row
from suite.record.profile import CATEGORIES, Operation, Profile

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
        """Seconds per step of every category, in the order of `CATEGORIES`."""
        return {name: self._median(name, "seconds") for name in CATEGORIES}

    @cached_property
    def calls(self) -> dict[str, float]:
        """Calls per step of every category."""
        return {name: self._median(name, "calls") for name in CATEGORIES}

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
    def total_s(self) -> float:
        """The sum of all categories."""
        return math.fsum(self.seconds.values())

    @property
    def covered(self) -> float:
        """That sum over the timed step."""
        return self.total_s / self.step_s

    @property
    def cost(self) -> float:
        """The profiled step over the timed one."""
        return median(profile.cost for profile in self.profiles.values())

    @property
    def threads(self) -> int:
        return max(profile.threads for profile in self.profiles.values())

    @property
    def on_gpu(self) -> bool:
        """Whether operations ran on a GPU."""
        return any(each.device == "cuda" for each in self.typical.operations) or self.typical.gaps is not None

    @cached_property
    def typical(self) -> Profile:
        """The profile of the launch whose timed step is nearest to the median."""
        return min(self.profiles.values(), key=lambda profile: abs(profile.timed_s - self.step_s))

    def largest(self, category: str) -> Operation | None:
        """The operation of the typical launch that takes longest in this category, where its profile names one."""
        within = [each for each in self.typical.operations if each.category == category]
        return max(within, key=lambda each: each.seconds, default=None)

    def _median(self, category: str, field: str) -> float:
        shares = (profile.categories.get(category) for profile in self.profiles.values())
        return median(float(getattr(share, field)) if share else 0.0 for share in shares)


def costs(row: Row) -> Costs | None:
    """The costs of a row; None without any profile."""
    profiles = {record.block: record.profile for record in row.ok if record.profile}
    return Costs(row, profiles) if profiles else None

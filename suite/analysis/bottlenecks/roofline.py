"""How near each part of a training step comes to what the device can do: the roofline model.

A part that does F floating-point operations and moves B bytes can at best run at ``min(peak, F / B * bandwidth)``
(Williams, Waterman and Patterson, "Roofline", Communications of the ACM 52, 2009). F is the spec's, the same for all
frameworks: the forward pass of a convolution, its input gradient and its weight gradient count a third of its training
each. B comes from the shapes and types in the profile, each operand counted once. Both peaks were measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from suite.analysis.bottlenecks.causes import Costs, costs
from suite.analysis.rows.groups import Group, Row
from suite.analysis.rows.metrics import PeakKey, number, peaks
from suite.record.record import Record

#: The categories of a part, and how many forward passes of which kinds of the spec it stands for. A recurrent kernel
#: and the matrix products of a loop do the same work, and a framework may use one forward and the other backward.
PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...], int]] = {
    "convolution forward": (("convolution forward",), ("convolution",), 1),
    "convolution input gradient": (("convolution input gradient",), ("convolution",), 1),
    "convolution weight gradient": (("convolution weight gradient",), ("convolution",), 1),
    "matrix products": (("matrix product", "recurrent kernel"), ("matrix product", "recurrence"), 3),
}
#: The name of the part that is everything.
STEP = "whole step"

#: Below this share of its roof, neither compute nor memory bounds a part.
FAR_BELOW_ROOF = 0.10

#: The bandwidth of a category that takes less than this share of a step says nothing.
NOTED_SHARE = 0.02

COMPUTE, MEMORY, NEITHER = "compute", "memory", "neither"


@dataclass(frozen=True)
class Roof:
    """The measured peaks of a device, in FLOP/s and bytes/s."""

    flops_per_s: float
    bytes_per_s: float

    @property
    def ridge(self) -> float:
        """The arithmetic intensity from which on compute is the limit, in FLOPs per byte."""
        return self.flops_per_s / self.bytes_per_s

    def of_one(self, processes: int) -> Roof:
        return Roof(self.flops_per_s / processes, self.bytes_per_s / processes)

    def at(self, intensity: float) -> float:
        return min(self.flops_per_s, intensity * self.bytes_per_s)


@dataclass(frozen=True)
class RooflinePart:
    """One part of a row's step, per step; ``bytes`` is None where no profile knows them."""

    name: str
    flops: float
    seconds: float
    bytes: float | None

    @property
    def flops_per_s(self) -> float:
        return self.flops / self.seconds

    @property
    def intensity(self) -> float | None:
        return self.flops / self.bytes if self.bytes else None

    def share(self, roof: Roof) -> float | None:
        return None if self.intensity is None else self.flops_per_s / roof.at(self.intensity)

    def bound(self, roof: Roof) -> str:
        """What bounds it: `COMPUTE`, `MEMORY`, `NEITHER` far below the roof, or empty where that is unknown."""
        share = self.share(roof)
        if share is None or self.intensity is None:
            return ""
        return NEITHER if share < FAR_BELOW_ROOF else MEMORY if self.intensity < roof.ridge else COMPUTE


@dataclass(frozen=True)
class RooflineRow:
    """A row under its roof. ``counted`` is the framework's own count of FLOPs per step over the spec's, if it has one.

    ``bandwidth`` has the share of the measured bandwidth of each category that does no FLOPs by the spec.
    """

    row: Row
    roof: Roof
    parts: tuple[RooflinePart, ...]
    counted: float | None
    bandwidth: Mapping[str, float]


def roofline(group: Group) -> list[RooflineRow]:
    """Every row that has a profile, FLOPs and both peaks, in the order of the group."""
    roofs = _roofs(group)
    return [
        RooflineRow(row, roof, parts, _count_of_framework(found), _bandwidth(found, roof))
        for row in group.rows
        if (found := costs(row))
        and (together := roofs.get((row.machine, row.cell.precision, row.cell.devices)))
        and (roof := together.of_one(row.cell.processes))
        and (parts := _parts(found))
    ]


def _roofs(group: Group) -> dict[PeakKey, Roof]:
    bandwidths: dict[tuple[str, int], float] = {}
    for row in group.rows:
        key = row.machine, row.cell.devices
        measured = [rate for record in row.ok if (rate := number(record.settings.get("peak_bytes_per_s")))]
        bandwidths[key] = max([bandwidths.get(key, 0.0), *measured])
    return {
        (machine, precision, devices): Roof(flops, bandwidths[machine, devices])
        for (machine, precision, devices), flops in peaks(group).items()
        if _positive(flops) and _positive(bandwidths[machine, devices])
    }


def _positive(value: float) -> bool:
    return 0 < value < math.inf


def _parts(found: Costs) -> tuple[RooflinePart, ...]:
    samples = _samples(found)
    kinds = _kinds(found.row.ok[0])
    parts = []
    for name, (categories, of_kinds, passes) in PARTS.items():
        flops = passes * samples * sum(kinds.get(kind, 0.0) for kind in of_kinds)
        seconds = sum(found.seconds[category] for category in categories)
        if flops and seconds:
            parts.append(RooflinePart(name, flops, seconds, _bytes(found, categories)))
    whole = number(found.row.ok[0].workload.get("training_flops_per_sample"))
    if whole and whole > 0:
        parts.append(RooflinePart(STEP, samples * whole, found.step_s, _bytes(found, tuple(found.moved))))
    return tuple(parts)


def _samples(found: Costs) -> float:
    return median(record.effective_batch / record.cell.processes for record in found.row.ok)


def _kinds(record: Record) -> dict[str, float]:
    stated = record.workload.get("flops_by_kind")
    known = {kind: number(value) for kind, value in stated.items()} if isinstance(stated, dict) else {}
    return {kind: value for kind, value in known.items() if value is not None and value > 0}


def _bytes(found: Costs, categories: tuple[str, ...]) -> float | None:
    total = sum(found.seconds[category] for category in categories)
    known = {category: moved for category in categories if (moved := found.moved[category])}
    unknown = sum(found.seconds[category] for category in categories if category not in known | dict.fromkeys(TIMELESS))
    return sum(known.values()) if known and unknown <= 0.2 * total else None


#: Categories that move no bytes of the model.
TIMELESS = ("host and launch overhead", "idle")


def _count_of_framework(found: Costs) -> float | None:
    whole = number(found.row.ok[0].workload.get("training_flops_per_sample"))
    samples = _samples(found)
    counts = [each.counted_flops for each in found.profiles.values() if each.counted_flops]
    return median(counts) / (samples * whole) if counts and whole and whole > 0 else None


def _bandwidth(found: Costs, roof: Roof) -> dict[str, float]:
    with_flops = {category for categories, *_ in PARTS.values() for category in categories}
    return {
        name: moved / found.seconds[name] / roof.bytes_per_s
        for name, moved in found.moved.items()
        if moved and found.seconds[name] > NOTED_SHARE * found.step_s and name not in with_flops
    }

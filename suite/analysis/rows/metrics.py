"""The monitor's readings of a row while it trained, as medians over launches, for the second table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from suite.analysis.records.readings import GPU_FIGURES, HOST_FIGURES
from suite.analysis.rows.groups import Group, Row
from suite.record.record import Record

COLUMNS = (*HOST_FIGURES, *GPU_FIGURES, "energy_j_per_sample", "fragmentation", "activations_kept")

JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Prices:
    """The price of an hour of the machine and of a kWh, in any currency; None if not given."""

    hour: float | None = None
    kwh: float | None = None

    def of_a_million(self, samples_per_s: float | None, joules_per_sample: float | None) -> float | None:
        """The price of training on a million samples; None if a figure that it needs is unknown."""
        costs = []
        if self.hour is not None:
            costs.append(None if samples_per_s is None else self.hour * 1e6 / samples_per_s / 3600)
        if self.kwh is not None:
            costs.append(None if joules_per_sample is None else self.kwh * 1e6 * joules_per_sample / JOULES_PER_KWH)
        known = [cost for cost in costs if cost is not None]
        return sum(known) if known and len(known) == len(costs) else None


def metrics(row: Row) -> dict[str, float | None]:
    """The value of every column, None if no launch has it: a missing reading is not zero."""
    medians: dict[str, float | None] = {}
    for name in COLUMNS:
        values = [value for record in row.ok if (value := _value(record, name)) is not None]
        medians[name] = median(values) if values else None
    return medians


#: Machine, precision and number of devices.
PeakKey = tuple[str, str, int]


def peaks(group: Group) -> dict[PeakKey, float]:
    """The highest rate of a large matrix product that any launch measured, in FLOP/s, of all its devices together.

    It is one for all frameworks: whatever one of them achieves, the device can do. Each number of devices has a peak of
    its own, since on a CPU they share the cores.
    """
    highest: dict[PeakKey, float] = {}
    for row in group.rows:
        key = row.machine, row.cell.precision, row.cell.devices
        measured = [peak for record in row.ok if (peak := number(record.settings.get("peak_flops_per_s")))]
        highest[key] = max([highest.get(key, 0.0), *measured])
    return highest


def utilisation(row: Row, highest: Mapping[PeakKey, float]) -> float | None:
    """Model FLOPs utilisation: the spec's training FLOPs per second over the highest rate, as `peaks` returns it."""
    peak = highest.get((row.machine, row.cell.precision, row.cell.devices))
    rates = [
        flops * rate
        for record in row.ok
        if (flops := number(record.workload.get("training_flops_per_sample"))) and (rate := record.samples_per_s)
    ]
    return median(rates) / peak if rates and peak else None


def _value(record: Record, name: str) -> float | None:
    if name == "energy_j_per_sample":
        return joules_per_sample(record)
    if name == "fragmentation":
        return fragmentation(record)
    if name == "activations_kept":
        found = record.identity.recomputed if record.identity else None
        return found.kept_bytes / found.usual_bytes if found and found.usual_bytes else None
    source, field = (
        (record.metrics.get("host"), HOST_FIGURES[name])
        if name in HOST_FIGURES
        else (first_gpu(record), GPU_FIGURES[name])
    )
    return number(_within(source, "phases", "train", field, "median"))


def fragmentation(record: Record) -> float | None:
    """The peak of the memory that an allocator reserved over the peak of what it gave out; None if one is unknown.

    What is beyond 1 lies in pieces that fit nothing, or was taken before it was needed.
    """
    reserved, used = (record.memory.get(f"allocator_{name}_bytes") for name in ("reserved", "peak"))
    return reserved / used if reserved and used else None


def joules_per_sample(record: Record) -> float | None:
    """The energy of all GPUs that trained, per sample; None unless each was measured."""
    gpus = record.metrics.get("gpus")
    trained = gpus[: record.cell.devices] if isinstance(gpus, list) else []
    joules = [number(gpu.get("energy_j_per_sample")) for gpu in trained if isinstance(gpu, Mapping)]
    known = [each for each in joules if each is not None]
    return sum(known) if len(known) == record.cell.devices else None


def first_gpu(record: Record) -> Mapping[str, Any]:
    """The readings of the first GPU; empty if none was watched."""
    gpus = record.metrics.get("gpus")
    gpu = gpus[0] if isinstance(gpus, list) and gpus else {}
    return gpu if isinstance(gpu, Mapping) else {}


def clock_mhz(record: Record) -> float | None:
    """The first GPU's SM clock while the launch trained, its median over the samples."""
    return number(_within(first_gpu(record), "phases", "train", "sm_clock_mhz", "median"))


def _within(data: Any, *path: str) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, Mapping) else None
    return data


def number(value: Any) -> float | None:
    """The value as a float; None if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer beyond all floats, which no sampler writes
        return None

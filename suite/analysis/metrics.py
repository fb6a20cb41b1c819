"""What the monitor saw of a row while it trained: medians over launches, for the second table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from suite.analysis.groups import Group, Row
from suite.analysis.readings import GPU_FIGURES, HOST_FIGURES
from suite.record.record import Record

COLUMNS = (*HOST_FIGURES, *GPU_FIGURES, "energy_j_per_sample")

JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Prices:
    """What an hour of the machine and a kWh cost, in any currency; None where nobody said."""

    hour: float | None = None
    kwh: float | None = None

    def of_a_million(self, samples_per_s: float | None, joules_per_sample: float | None) -> float | None:
        """The price of training on a million samples; None where a figure that it takes is not known."""
        parts = []
        if self.hour is not None:
            parts.append(None if samples_per_s is None else self.hour * 1e6 / samples_per_s / 3600)
        if self.kwh is not None:
            parts.append(None if joules_per_sample is None else self.kwh * 1e6 * joules_per_sample / JOULES_PER_KWH)
        known = [part for part in parts if part is not None]
        return sum(known) if known and len(known) == len(parts) else None


def metrics(row: Row) -> dict[str, float | None]:
    """Every column, None where no launch has it: what was not read is not zero."""
    found: dict[str, float | None] = {}
    for name in COLUMNS:
        values = [value for record in row.ok if (value := _value(record, name)) is not None]
        found[name] = median(values) if values else None
    return found


def peaks(group: Group) -> dict[tuple[str, str], float]:
    """The highest rate of a large matrix product that any launch measured, by machine and precision, in FLOP/s.

    One for all frameworks: the device can do what any of them gets out of it.
    """
    found: dict[tuple[str, str], float] = {}
    for row in group.rows:
        key = row.machine, row.cell.precision
        measured = [peak for record in row.ok if (peak := number(record.settings.get("peak_flops_per_s")))]
        found[key] = max([found.get(key, 0.0), *measured])
    return found


def utilisation(row: Row, top: Mapping[tuple[str, str], float]) -> float | None:
    """Model FLOPs utilisation: what the spec says that training costs, over the best of `peaks`."""
    peak = top.get((row.machine, row.cell.precision))
    rates = [
        flops * rate
        for record in row.ok
        if (flops := number(record.workload.get("training_flops_per_sample"))) and (rate := record.samples_per_s)
    ]
    return median(rates) / peak if rates and peak else None


def _value(record: Record, name: str) -> float | None:
    gpu = first_gpu(record)
    if name == "energy_j_per_sample":
        return number(gpu.get(name))
    source, field = (
        (record.metrics.get("host"), HOST_FIGURES[name]) if name in HOST_FIGURES else (gpu, GPU_FIGURES[name])
    )
    return number(_within(source, "phases", "train", field, "median"))


def first_gpu(record: Record) -> Mapping[str, Any]:
    """What was seen of the first device; empty where none was watched."""
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
    """A float of what a record holds there, or None of anything that is no number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer beyond all floats, which no sampler writes
        return None

"""The monitor's readings of a row while it trained, as medians over launches, for the second table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from suite.analysis.rows.groups import Group, Row
from suite.catalog.metrics import first_gpu, joules_per_sample, monitor_metrics, number, within
from suite.record.record import Record

__all__ = ["Prices", "clock_mhz", "first_gpu", "joules_per_sample", "metrics", "number", "peaks", "utilisation"]

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
    """The value of every metric that launches have, None if no launch of the row does: a missing one is not zero."""
    medians: dict[str, float | None] = {}
    for metric in monitor_metrics():
        if metric.is_of_launch:
            values = [value for record in row.ok if (value := metric.value(record)) is not None]
            medians[metric.name] = median(values) if values else None
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


def clock_mhz(record: Record) -> float | None:
    """The first GPU's SM clock while the launch trained, its median over the samples."""
    return number(within(first_gpu(record), "phases", "train", "sm_clock_mhz", "median"))

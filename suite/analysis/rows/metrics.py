"""The monitor's readings of a row while it trained: medians over launches, and the timeline of one launch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from suite.analysis.records.reader import lines, place_of
from suite.analysis.rows.groups import Group, Row
from suite.catalog.metrics import first_gpu, joules_per_sample, monitor_metrics, number, training_flops, within
from suite.plan.cell import WORKLOADS
from suite.record.record import Record
from workloads.data.synthetic import TWINS
from workloads.spec import WorkloadSpec, read_declaration

__all__ = ["Prices", "clock_mhz", "first_gpu", "joules_per_sample", "metrics", "number", "peaks", "utilisation"]

JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class Prices:
    """The price of an hour of the machine and of a kWh, None if not given, in any ``currency``, which may be named."""

    hour: float | None = None
    kwh: float | None = None
    currency: str = ""

    def of_a_million(self, samples_per_s: float | None, joules_per_sample: float | None) -> float | None:
        """The price of training on a million samples; None if a figure that it needs is unknown."""
        costs = []
        if self.hour is not None:
            costs.append(None if samples_per_s is None else self.hour * 1e6 / samples_per_s / 3600)
        if self.kwh is not None:
            costs.append(None if joules_per_sample is None else self.kwh * 1e6 * joules_per_sample / JOULES_PER_KWH)
        known = [cost for cost in costs if cost is not None]
        return sum(known) if known and len(known) == len(costs) else None


def samples_of_epoch(row: Row) -> int | None:
    """The samples that an epoch trains on; None where a workload makes others of its data set, and if not known."""
    name = row.ok[0].data.get("name") if row.ok else None
    if name not in TWINS or row.cell.workload not in WORKLOADS:
        return None
    arranged = read_declaration(row.cell.workload).arrange is not WorkloadSpec.arrange
    return None if arranged else TWINS[name][1][0]


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
    """The highest rate of a large matrix product that any launch measured, in FLOP/s, of all its devices together."""
    highest: dict[PeakKey, float] = {}
    for row in group.rows:
        key = row.machine, row.cell.precision, row.cell.devices
        measured = [peak for record in row.ok if (peak := number(record.settings.get("peak_flops_per_s")))]
        highest[key] = max([highest.get(key, 0.0), *measured])
    return highest


def utilisation(row: Row, highest: Mapping[PeakKey, float]) -> float | None:
    """Model FLOPs utilisation: the spec's training FLOPs per second over the highest rate, as `peaks` returns it."""
    peak = highest.get((row.machine, row.cell.precision, row.cell.devices))
    rates = [flops * rate for record in row.ok if (flops := training_flops(record)) and (rate := record.samples_per_s)]
    return median(rates) / peak if rates and peak else None


def clock_mhz(record: Record) -> float | None:
    """The first GPU's SM clock while the launch trained, its median over the samples."""
    return number(within(first_gpu(record), "phases", "train", "sm_clock_mhz", "median"))


#: Start and end of each burst of measured windows, in seconds.
Spans = tuple[tuple[float, float], ...]

#: Seconds after the last measured window that still belong to a launch: a worker that only exits does no work.
AFTER_S = 0.5


@dataclass(frozen=True)
class Line:
    """Times in seconds since the worker was spawned, and the value at each, None if it is missing."""

    at_s: tuple[float, ...]
    values: tuple[float | None, ...]

    @property
    def highest(self) -> float:
        return max((value for value in self.values if value is not None), default=0.0)


@dataclass(frozen=True)
class Trace:
    """The timeline of a launch: its lines by metric, and start and end of each burst of a phase's measured windows."""

    row: Row
    block: int
    lines: dict[str, Line]
    spans: dict[str, Spans]

    @property
    def end_s(self) -> float:
        return max(line.at_s[-1] for line in self.lines.values())


def trace(row: Row) -> Trace | None:
    record = pick_launch(row.ok)
    if not record:
        return None
    spans = {name: phase.spans for name, phase in record.phases.items() if phase.spans}
    return Trace(row, record.block, lines_of(record), spans)


def pick_launch(launches: Iterable[Record]) -> Record | None:
    """Of those with timelines the one with the median throughput (the slower of the middle two)."""
    recorded = sorted(filter(has_lines, launches), key=lambda record: record.samples_per_s or 0.0)
    return recorded[(len(recorded) - 1) // 2] if recorded else None


def lines_of(record: Record) -> dict[str, Line]:
    """The lines of one launch by metric; those of a file are read there. Raises `OSError` if it has changed."""
    place = place_of(record.metrics)
    return {name: Line(*points) for name, points in lines(place.metrics() if place else record.metrics)}


def until_the_end(whole: Trace) -> Trace:
    """The same trace up to shortly after its last measured window, or as it is if it has none."""
    if not whole.spans:
        return whole
    end_s = max(end for each in whole.spans.values() for _, end in each) + AFTER_S
    counts = {name: sum(at <= end_s for at in line.at_s) for name, line in whole.lines.items()}
    cut = {name: Line(line.at_s[: counts[name]], line.values[: counts[name]]) for name, line in whole.lines.items()}
    return replace(whole, lines={name: line for name, line in cut.items() if counts[name]})


def has_lines(record: Record) -> bool:
    return bool(place_of(record.metrics)) or next(lines(record.metrics), None) is not None

"""Metrics over time, of one launch per cell: what the monitor kept for plots, as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from suite.compare.groups import Row
from suite.compare.metrics import first_gpu, number
from suite.record import Record

#: What is shown, by its name in a timeline.
HOST = ("cpu_cores", "rss_bytes")
GPU = ("gpu_utilisation_percent", "gpm_sm_utilisation_percent", "power_w", "memory_used_bytes")


@dataclass(frozen=True)
class Line:
    """Seconds since the worker was spawned, and a value at each, None where there was none."""

    at_s: tuple[float, ...]
    values: tuple[float | None, ...]

    @property
    def highest(self) -> float:
        return max((value for value in self.values if value is not None), default=0.0)


@dataclass(frozen=True)
class Trace:
    """Of one launch: its lines by metric, and when the windows that count of each phase began and ended."""

    row: Row
    block: int
    lines: dict[str, Line]
    spans: dict[str, tuple[float, float]]

    @property
    def end_s(self) -> float:
        return max(line.at_s[-1] for line in self.lines.values())


def trace(row: Row) -> Trace | None:
    """The launch with the median throughput (of an even number the slower) among those with a timeline, if any."""
    told = [(record, lines) for record in row.ok if (lines := lines_of(record))]
    if not told:
        return None
    ordered = sorted(told, key=lambda each: each[0].samples_per_s or 0.0)
    record, lines = ordered[(len(ordered) - 1) // 2]
    spans = {name: phase.span for name, phase in record.phases.items() if phase.span}
    return Trace(row, record.block, lines, spans)


def lines_of(record: Record) -> dict[str, Line]:
    """What the record kept of one launch, by metric."""
    host = record.metrics.get("host")
    sources = ((host if isinstance(host, Mapping) else {}, HOST), (first_gpu(record), GPU))
    return {name: line for source, names in sources for name in names if (line := _line(source.get("timeline"), name))}


def _line(timeline: Any, name: str) -> Line | None:
    """One line of a timeline; None where it is not there, or was not read twice, or is none."""
    values = timeline.get("values") if isinstance(timeline, Mapping) else None
    held = values.get(name) if isinstance(values, Mapping) else None
    at = timeline.get("at_s") if isinstance(held, list) else None
    if not isinstance(held, list) or not isinstance(at, list) or len(at) != len(held):
        return None
    times = [number(moment) for moment in at]
    known = [moment for moment in times if moment is not None]
    if len(known) < len(times) or known != sorted(known):
        return None
    read = tuple(number(value) for value in held)
    return Line(tuple(known), read) if sum(value is not None for value in read) > 1 else None

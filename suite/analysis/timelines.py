"""Metrics over time, of one launch per cell: what the monitor kept for plots, as plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from suite.analysis.groups import Row
from suite.analysis.metrics import first_gpu, number
from suite.analysis.packed import Points
from suite.analysis.readings import GPU_LINES, HOST_LINES
from suite.record.line import plain
from suite.record.record import Record


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
    """Of one launch: its lines by metric, and when each burst of the windows that count of a phase began and ended."""

    row: Row
    block: int
    lines: dict[str, Line]
    spans: dict[str, tuple[tuple[float, float], ...]]

    @property
    def end_s(self) -> float:
        return max(line.at_s[-1] for line in self.lines.values())


def trace(row: Row) -> Trace | None:
    """The launch with the median throughput (of an even number the slower) among those with a timeline, if any."""
    told = sorted(filter(has_lines, row.ok), key=lambda record: record.samples_per_s or 0.0)
    if not told:
        return None
    record = told[(len(told) - 1) // 2]
    spans = {name: phase.spans for name, phase in record.phases.items() if phase.spans}
    return Trace(row, record.block, lines_of(record), spans)


def lines_of(record: Record) -> dict[str, Line]:
    """What the record kept of one launch, by metric."""
    return dict(_lines(record))


def has_lines(record: Record) -> bool:
    """Whether it kept any. The lines of all launches at once would not fit into memory."""
    return next(_lines(record), None) is not None


def _lines(record: Record) -> Iterator[tuple[str, Line]]:
    host = record.metrics.get("host")
    for source, names in ((host if isinstance(host, Mapping) else {}, HOST_LINES), (first_gpu(record), GPU_LINES)):
        timeline = plain(source.get("timeline")) or {}
        for name in names:
            if line := _line(timeline, name):
                yield name, line


def _line(timeline: Mapping[str, Any], name: str) -> Line | None:
    """One line of a timeline; None where it is not there, or was not read twice, or is none."""
    values, at = timeline.get("values"), timeline.get("at_s")
    held = values.get(name) if isinstance(values, Mapping) else None
    if not isinstance(held, (list, Points)) or not isinstance(at, (list, Points)) or len(at) != len(held):
        return None
    times, read = _numbers(at), _numbers(held)
    known = [moment for moment in times if moment is not None]
    if len(known) < len(times) or known != sorted(known):
        return None
    return Line(tuple(known), read) if len(read) - read.count(None) > 1 else None


def _numbers(values: list[Any] | Points) -> tuple[float | None, ...]:
    return tuple(values) if isinstance(values, Points) else tuple(map(number, values))

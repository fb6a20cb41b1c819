"""Metrics over time of one launch per cell, from what the monitor recorded for plots, as plain numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from suite.analysis.records.packed import Points
from suite.analysis.records.readings import GPU_LINES, HOST_LINES
from suite.analysis.rows.groups import Row
from suite.analysis.rows.metrics import first_gpu, number
from suite.record.line import plain
from suite.record.record import Record

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
    """The timeline of the launch with the median throughput (the slower of the middle two); None without timelines."""
    recorded = sorted(filter(has_lines, row.ok), key=lambda record: record.samples_per_s or 0.0)
    if not recorded:
        return None
    record = recorded[(len(recorded) - 1) // 2]
    return Trace(row, record.block, lines_of(record), spans_of(record))


def spans_of(record: Record) -> dict[str, Spans]:
    """The bursts of measured windows of one launch by phase."""
    return {name: phase.spans for name, phase in record.phases.items() if phase.spans}


def lines_of(record: Record) -> dict[str, Line]:
    """The lines of one launch by metric."""
    return dict(_lines(record))


def until_the_end(whole: Trace) -> Trace:
    """The same trace up to shortly after its last measured window, or as it is if it has none."""
    return replace(whole, lines=measured(whole.lines, whole.spans))


def measured(lines: dict[str, Line], spans: Mapping[str, Spans]) -> dict[str, Line]:
    """The lines up to shortly after the last of these spans; as they are without any.

    A process may live on for seconds without work: older records of TensorFlow have up to 17 s of it.
    """
    if not spans:
        return lines
    end_s = max(end for each in spans.values() for _, end in each) + AFTER_S
    cut = {name: _cut(line, end_s) for name, line in lines.items()}
    return {name: line for name, line in cut.items() if line.at_s}


def _cut(line: Line, end_s: float) -> Line:
    kept = sum(at <= end_s for at in line.at_s)
    return Line(line.at_s[:kept], line.values[:kept])


def has_lines(record: Record) -> bool:
    """Whether the record has any lines, without holding those of all launches in memory."""
    return next(_lines(record), None) is not None


def _lines(record: Record) -> Iterator[tuple[str, Line]]:
    host = record.metrics.get("host")
    for source, names in ((host if isinstance(host, Mapping) else {}, HOST_LINES), (first_gpu(record), GPU_LINES)):
        timeline = plain(source.get("timeline")) or {}
        for name in names:
            if line := _line(timeline, name):
                yield name, line


def _line(timeline: Mapping[str, Any], name: str) -> Line | None:
    """One line of a timeline; None if it is missing or malformed or has fewer than two readings."""
    lines, at_s = timeline.get("values"), timeline.get("at_s")
    line = lines.get(name) if isinstance(lines, Mapping) else None
    if not isinstance(line, (list, Points)) or not isinstance(at_s, (list, Points)) or len(at_s) != len(line):
        return None
    times, values = _numbers(at_s), _numbers(line)
    known = [moment for moment in times if moment is not None]
    if len(known) < len(times) or known != sorted(known):
        return None
    return Line(tuple(known), values) if len(values) - values.count(None) > 1 else None


def _numbers(values: list[Any] | Points) -> tuple[float | None, ...]:
    return tuple(values) if isinstance(values, Points) else tuple(map(number, values))

"""Metrics over time of one launch per cell, from what the monitor recorded for plots, as plain numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from suite.analysis.records.lines import lines, place_of
from suite.analysis.rows.groups import Row
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
    """The timeline of the launch that is shown of a row; None without timelines."""
    record = pick_launch(row.ok)
    return Trace(row, record.block, lines_of(record), spans_of(record)) if record else None


def pick_launch(launches: Iterable[Record]) -> Record | None:
    """Of those with timelines the one with the median throughput (the slower of the middle two)."""
    recorded = sorted(filter(has_lines, launches), key=lambda record: record.samples_per_s or 0.0)
    return recorded[(len(recorded) - 1) // 2] if recorded else None


def spans_of(record: Record) -> dict[str, Spans]:
    """The bursts of measured windows of one launch by phase."""
    return {name: phase.spans for name, phase in record.phases.items() if phase.spans}


def lines_of(record: Record) -> dict[str, Line]:
    """The lines of one launch by metric; those of a file are read there. Raises `OSError` if it has changed."""
    place = place_of(record.metrics)
    return {name: Line(*points) for name, points in lines(place.metrics() if place else record.metrics)}


def until_the_end(whole: Trace) -> Trace:
    """The same trace up to shortly after its last measured window, or as it is if it has none."""
    return replace(whole, lines=cut_after_spans(whole.lines, whole.spans))


def cut_after_spans(lines: dict[str, Line], spans: Mapping[str, Spans]) -> dict[str, Line]:
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
    return bool(place_of(record.metrics)) or next(lines(record.metrics), None) is not None

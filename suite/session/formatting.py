"""Counts, durations, and how a launch ended, in words."""

from __future__ import annotations

from suite.record.disturbance import DISTURBED, find_disturbances
from suite.record.record import Record
from suite.record.text import clean


def count_launches(count: int) -> str:
    """Such as ``1 launch`` or ``2 launches``."""
    return f"{count} launch" if count == 1 else f"{count} launches"


def duration(seconds: float) -> str:
    """Such as ``40 s``, ``12 min`` or ``1 h 20 min``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def describe_launch(record: Record) -> str:
    """A launch in one line: its throughput, or why there is none."""
    if record.outcome.ok:
        causes = ", ".join(find_disturbances(record))
        words = [*(flag for flag in record.flags if flag != DISTURBED), *([f"disturbed: {causes}"] if causes else [])]
        flags = f"  {clean(' '.join(words))}" if words else ""
        if course := record.course:
            flags = f"  test accuracy {course.final_accuracy:.4f} after {len(course.epochs)} epochs{flags}"
        return f"{record.cell.id}  {record.samples_per_s:,.0f} samples/s{flags}"
    return f"{record.cell.id}  {record.outcome.status}: {clean(record.outcome.reason)}"

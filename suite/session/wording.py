"""Counts and durations in words."""

from __future__ import annotations


def launches(count: int) -> str:
    """Such as ``1 launch`` or ``2 launches``."""
    return f"{count} launch" if count == 1 else f"{count} launches"


def duration(seconds: float) -> str:
    """Such as ``40 s``, ``12 min`` or ``1 h 20 min``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"

"""What the profile says about a device that waits: it backs or refutes the verdict that batches gave."""

from __future__ import annotations

from statistics import median

from suite.analysis.rows.groups import Row

#: From this share of a step without anything to do on, a device waits for the host; below the other, it does not.
WAITS, BUSY = 0.30, 0.10


def told(row: Row, kind: str) -> str:
    """How long the device did nothing, and whether that fits the verdict ``kind``; empty without gaps in a profile."""
    profiles = [record.profile for record in row.ok if record.profile and record.profile.gaps]
    if not profiles:
        return ""
    idle = median(each.idle or 0.0 for each in profiles)
    between = median(each.gaps.median_s for each in profiles if each.gaps)
    figures = f"the device had nothing to do for {idle:.0%} of the step, {1e6 * between:.3g} µs between kernels"
    return f"{_opinion(kind, idle)}: {figures}"


def _opinion(kind: str, idle: float) -> str:
    if kind == "launch-bound":
        return "the profile agrees" if idle >= WAITS else "the profile does not" if idle < BUSY else "by the profile"
    if kind in ("compute-bound", "memory-limited"):
        return "the profile agrees" if idle < BUSY else "the profile does not" if idle >= WAITS else "by the profile"
    return "by the profile"

"""What the kernel counts of the time in which tasks could not run: pressure, and throttling by a quota of CPU time.

Sources: Linux kernel documentation, accounting/psi, admin-guide/cgroup-v2 (``cpu.stat``), scheduler/sched-bwc (of
version 1) and accounting/cgroup-v1. Both are counted in seconds, of throttling summed over the cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suite.record.parts.environment import find_groups, quota_of

#: Where Linux says for how long tasks waited for a resource.
PRESSURE = Path("/proc/pressure")
#: The lines that are read of each: time in which some tasks waited, and in which all that were not idle did. For the
#: CPU the second is not defined.
LINES = {"io": ("some", "full"), "memory": ("some", "full"), "cpu": ("some",)}

#: The counter of a control group, by version, and its unit in seconds.
THROTTLED = {"throttled_usec": 1e-6, "throttled_time": 1e-9}


def read_pressure() -> dict[str, float]:
    """Seconds since the start of the machine, such as ``io_full_s``. Raises `OSError` or `ValueError` without any."""
    counted = {}
    for resource, kinds in LINES.items():
        for line in (PRESSURE / resource).read_text(encoding="ascii").splitlines():
            kind, _, figures = line.partition(" ")
            if kind in kinds:
                counted[f"{resource}_{kind}_s"] = int(figures.rpartition("total=")[2]) / 1e6
    return counted


def find_limiting() -> list[Path]:
    """The counters of the control groups, this process's own and those above, that have a quota of CPU time."""
    limiting = (group for group in dict.fromkeys(find_groups()) if quota_of(group) is not None)
    return [group / "cpu.stat" for group in limiting]


def read_throttled(counters: Sequence[Path]) -> dict[str, float]:
    """Seconds in which a quota kept runnable tasks from their cores. Raises `OSError` or `ValueError` without any."""
    if not counters:
        raise OSError("no control group of this process has a quota")
    return {"throttled_s": sum(_throttled_s(counter) for counter in counters)}


def _throttled_s(counter: Path) -> float:
    for line in counter.read_text(encoding="ascii").splitlines():
        name, _, count = line.partition(" ")
        if name in THROTTLED:
            return int(count) * THROTTLED[name]
    raise OSError("the control group does not count throttling")

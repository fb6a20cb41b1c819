"""The classic symptoms of a GPU that is not used, in words, from what the monitor saw of a row."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from suite.analysis.groups import Row
from suite.analysis.metrics import first_gpu, number

#: Shares below which something is wrong: of time with any kernel running, and of the device's memory.
BUSY_LEAST_PERCENT = 70.0
MEMORY_LEAST = 0.25
#: The CPU counts as full from this share of its cores on, and as idle below the other.
CPU_FULL, CPU_IDLE = 0.8, 0.3


def symptoms(row: Row, seen: Mapping[str, float | None]) -> list[str]:
    """What is striking about a row; nothing where no GPU was watched."""
    busy, used = seen["gpu_utilisation_percent"], allocated(row)
    told = []
    if busy is not None and busy < BUSY_LEAST_PERCENT:
        told.append(f"the GPU is busy {busy:.0f} % of the time{_cpu(row, seen['cpu_cores'])}")
    if used is not None and used < MEMORY_LEAST:
        told.append(f"the allocator's peak is {used:.0%} of the device's memory: there is room for a larger batch")
    return told


def _cpu(row: Row, cores: float | None) -> str:
    there = [record.environment.get("machine", {}).get("cores") for record in row.ok]
    available = number(there[0]) if there else None
    if cores is None or not available:
        return ""
    share = cores / available
    if share > CPU_FULL:
        return f", while the CPU is full ({share:.0%} of its cores): preparing the data holds it back"
    if share < CPU_IDLE:
        return f" and the CPU {share:.0%}: both wait, for storage, for each other, or between small kernels"
    return ""


def allocated(row: Row) -> float | None:
    """The allocator's peak as a share of the device's memory."""
    shares = []
    for record in row.ok:
        peak, size = record.memory.get("allocator_peak_bytes"), number(first_gpu(record).get("memory_bytes"))
        if peak is not None and size:
            shares.append(peak / size)
    return median(shares) if shares else None

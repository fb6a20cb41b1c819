"""The classic symptoms of an underused GPU, in words, from the monitor's readings of a row."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from suite.analysis.rows.groups import Row
from suite.analysis.rows.metrics import first_gpu, number

#: Below these shares, of time with any kernel running and of the device's memory, a GPU counts as underused.
BUSY_LEAST_PERCENT = 70.0
MEMORY_LEAST = 0.25
#: Above the first share of its cores the CPU counts as full, below the second as idle.
CPU_FULL, CPU_IDLE = 0.8, 0.3


def symptoms(row: Row, metrics: Mapping[str, float | None]) -> list[str]:
    """The symptoms of a row, from its ``metrics``; none if no GPU was watched."""
    busy, used = metrics["gpu_utilisation_percent"], share_of_memory(row)
    words = []
    if busy is not None and busy < BUSY_LEAST_PERCENT:
        words.append(f"the GPU is busy {busy:.0f} % of the time{_cpu(row, metrics['cpu_cores'])}")
    if used is not None and used < MEMORY_LEAST:
        words.append(f"the allocator's peak is {used:.0%} of the device's memory: there is room for a larger batch")
    return words


def _cpu(row: Row, cores: float | None) -> str:
    """What the CPU did meanwhile, in words; empty if its load is unknown or neither full nor idle."""
    machine = row.ok[0].environment.get("machine") if row.ok else None
    all_cores = number(machine.get("cores")) if isinstance(machine, dict) else None
    if cores is None or not all_cores:
        return ""
    share = cores / all_cores
    if share > CPU_FULL:
        return f", while the CPU is full ({share:.0%} of its cores): preparing the data holds it back"
    if share < CPU_IDLE:
        return f" and the CPU {share:.0%}: both wait, for storage, for each other, or between small kernels"
    return ""


def share_of_memory(row: Row) -> float | None:
    """The allocator's peak as a share of the device's memory."""
    shares = []
    for record in row.ok:
        peak, size = record.memory.get("allocator_peak_bytes"), number(first_gpu(record).get("memory_bytes"))
        if peak is not None and size:
            shares.append(peak / size)
    return median(shares) if shares else None

"""The outcome of a launch: turns an error in the worker into a status and a reason."""

from __future__ import annotations

import math
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from suite.catalog.frameworks import FRAMEWORKS
from suite.plan.cell import Cell
from suite.record.job import Job
from suite.record.parts.environment import shared_memory
from suite.record.retry import NOT_IMPORTABLE
from suite.worker.frameworks import RecompiledError, UnsupportedError
from suite.worker.launch.applied import NotAppliedError
from suite.worker.launch.probe import PrecisionError
from workloads.faults import describe_fault
from workloads.spec import UnavailableKernelError

#: How a process of a loader ends that found no room for a batch.
_OF_SHARED_MEMORY = re.compile(r"shared memory|\bshm\b|Bus error|exit code -7|exited unexpectedly")


class DivergedError(RuntimeError):
    """A loss is not finite."""


def classify(error: BaseException, job: Job, framework: ModuleType | None) -> tuple[str, str]:
    """Status and reason."""
    name = job.cell.framework
    reason = _lacking(job.cell, error)
    if reason or isinstance(error, (UnsupportedError, UnavailableKernelError)):
        return "unsupported", reason or str(error)
    if isinstance(error, ModuleNotFoundError) and framework is None:
        return "unsupported", (
            f"{name} {NOT_IMPORTABLE} ({error}): install its extra, for example "
            f"pip install -e '.[{name}-cpu]', or name an interpreter that has it in SUITE_PYTHON_{name.upper()}"
        )
    if isinstance(error, DivergedError):
        return "diverged", str(error)
    if isinstance(error, (NotAppliedError, PrecisionError, RecompiledError)):
        return "error", str(error)
    lines = str(error).strip().splitlines() or [""]
    line = lines[-1 if any("Original Traceback" in each for each in lines) else 0]  # of a process of a loader
    if framework is not None and framework.out_of_memory(error):
        return "out-of-memory", f"batch {job.cell.batch} does not fit: {line}"
    own = describe_fault(error, Path(job.workload_folder)) if job.workload_folder else ""
    return "error", own or (f"{type(error).__name__}: {line}" if line else type(error).__name__) + _explain(str(error))


def _explain(text: str) -> str:
    """What is free of the memory by which processes hand over batches, if an error may come from there."""
    room = shared_memory() if _OF_SHARED_MEMORY.search(text) else None
    if not room:
        return ""
    size, free = (each / 1e6 for each in room)
    way = "enlarge it (docker run --shm-size=1g), or use a loader without processes"
    return f"; shared memory, where a loader's processes put batches, has {free:.0f} of {size:.0f} MB left: {way}"


def check(losses: list[Any], training: Any, where: str) -> list[float]:
    """The losses as numbers, all finite."""
    values: list[float] = training.read(losses)
    for index, value in enumerate(values):
        if not math.isfinite(value):
            raise DivergedError(f"the loss is {value} in {where}, step {index + 1}")
    return values


def _lacking(cell: Cell, error: BaseException) -> str:
    """What a release lacks that the suite's files need, in words; empty where the error says nothing of the kind."""
    package = FRAMEWORKS[cell.framework].package
    if not cell.release:
        return ""
    if isinstance(error, AttributeError):
        place = getattr(error.obj, "__name__", "")
    else:
        place = (error.name or "") if isinstance(error, ImportError) else ""
    if str(place).partition(".")[0] != package:
        return ""
    return f"{cell.framework} {cell.release} lacks what the suite needs ({error})"

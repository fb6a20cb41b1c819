"""The outcome of a launch: turns an error in the worker into a status and a reason."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType
from typing import Any

from suite.catalog.frameworks import FRAMEWORKS
from suite.plan.cell import Cell
from suite.record.handover.job import Job
from suite.record.retry import NOT_IMPORTABLE
from suite.worker.frameworks import RecompiledError, UnsupportedError
from suite.worker.launch.applied import NotAppliedError
from suite.worker.launch.probe import PrecisionError
from workloads.faults import describe_fault
from workloads.spec import UnavailableKernelError


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
    first_line = (str(error).strip().splitlines() or [""])[0]
    if framework is not None and framework.out_of_memory(error):
        return "out-of-memory", f"batch {job.cell.batch} does not fit: {first_line}"
    own = describe_fault(error, Path(job.workload_folder)) if job.workload_folder else ""
    return "error", own or (f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__)


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

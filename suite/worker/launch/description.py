"""What a record says of the workload that a launch trained, of where it did, and of how it ended."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import suite.plan
import suite.worker
import workloads
from suite.catalog.frameworks import FRAMEWORKS
from suite.plan.cell import Cell
from suite.record.job import Job
from suite.record.parts.environment import describe, own_cores, shared_memory
from suite.record.retry import NOT_IMPORTABLE
from suite.record.variables import HOST_CORES
from suite.worker.frameworks import RecompiledError, UnsupportedError
from suite.worker.launch.applied import NotAppliedError
from suite.worker.launch.probe import PrecisionError
from workloads import registry
from workloads.faults import describe_fault
from workloads.optimizers import as_dict
from workloads.recipes import Recipe
from workloads.spec import Numbers, UnavailableKernelError, WorkloadSpec


def describe_workload(spec: WorkloadSpec, name: str, recipe: Recipe | None) -> dict[str, Any]:
    """Parameters, FLOPs per sample and digest of the spec, as a recipe of this name changes it where there is one."""
    workload = {
        "name": spec.name,
        "size": spec.size,
        "parameters": spec.parameters,
        "flops_per_sample": spec.flops_per_sample,
        "flops_by_kind": spec.flops_by_kind,
        "training_flops_per_sample": spec.training_flops_per_sample,
        "digest": recipe.digest(spec) if recipe else spec.digest,
    }
    if spec.decodes:
        workload["answer_flops_per_sample"] = spec.answer_flops_per_sample
    if files := registry.files_digest(spec.name):
        workload["files"] = files
    return workload | ({"recipe": as_dict(recipe) | {"name": name}} if recipe else {})


def describe_environment(
    cell: Cell, distributions: Iterable[str], settings: dict[str, Any], variables: Mapping[str, str]
) -> dict[str, Any]:
    """The environment, with the versions of these distributions; ``settings`` get what of it is this process's own.

    ``variables`` are those that the process started with.
    """
    environment = describe(distributions, variables)
    if cores := os.environ.get(HOST_CORES):  # of which this process has some
        settings["cores"], environment["machine"]["cores"] = environment["machine"]["cores"], int(cores)
    if cell.cores or cell.bind:
        settings["affinity"] = own_cores()  # as the framework left it
    environment["machine"]["gpus"] = [name] if (name := settings.pop("device_name", None)) else []
    return environment


def training_key(job: Job, workload: str, data: str, environment: dict[str, Any], device: str) -> dict[str, Any]:
    """Everything that the bits of a training depend on; it resumes only if all of it is the same.

    ``workload`` and ``data`` are digests.
    """
    key: dict[str, Any] = {"cell": job.cell.to_json(), "seed": job.seed, "workload": workload, "data": data}
    key |= {"environment": environment["digest"], "machine": environment["machine"]}
    return key | {"device": device, "variables": environment["variables"]}


def program_digest(key: dict[str, Any]) -> str:
    """SHA-256 over all that decides what a launch computes: its `training_key` but for the seed, and the code."""
    digest = hashlib.sha256(json.dumps(key | {"seed": 0}, sort_keys=True).encode())
    for room in (suite.plan, suite.worker, workloads):
        folder = Path(room.__path__[0])
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def kernels(module: ModuleType, cell: Cell, spec: WorkloadSpec, numbers: Numbers, device: str) -> dict[str, str]:
    """Which implementation of a layer runs, where there is a choice: a workload's usual one, or its strategy's."""
    usual: dict[str, str] = module.kernels(spec, numbers, device, cell.kernel)
    if cell.strategy != "synchronised":
        return usual
    return usual | {"batch_normalization": "composite" if cell.framework == "tensorflow" else "SyncBatchNorm"}


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

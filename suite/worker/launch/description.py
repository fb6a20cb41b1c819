"""What a record says of the workload that a launch trained, and of where it did."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import suite.plan
import suite.worker
import workloads
from suite.plan.cell import Cell
from suite.record.job import Job
from suite.record.parts.environment import describe, own_cores
from suite.record.variables import HOST_CORES
from workloads import registry
from workloads.optimizers import as_dict
from workloads.recipes import Recipe
from workloads.spec import Numbers, WorkloadSpec


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

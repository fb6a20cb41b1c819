"""What a record says of the workload that a launch trained."""

from __future__ import annotations

from dataclasses import asdict
from types import ModuleType
from typing import Any

from suite.plan.cell import Cell
from suite.record.job import Job
from workloads import registry
from workloads.recipes import Recipe
from workloads.spec import Numbers, WorkloadSpec


def described(spec: WorkloadSpec, name: str, recipe: Recipe | None) -> dict[str, Any]:
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
    if files := registry.files_digest(spec.name):
        workload["files"] = files
    return workload | ({"recipe": asdict(recipe) | {"name": name}} if recipe else {})


def training_key(job: Job, workload: str, data: str, environment: dict[str, Any], device: str) -> dict[str, Any]:
    """Everything that the bits of a training depend on; it resumes only if all of it is the same.

    ``workload`` and ``data`` are digests.
    """
    key: dict[str, Any] = {"cell": job.cell.to_json(), "seed": job.seed, "workload": workload, "data": data}
    key |= {"environment": environment["digest"], "machine": environment["machine"]}
    return key | {"device": device, "variables": environment["variables"]}


def kernels(module: ModuleType, cell: Cell, spec: WorkloadSpec, numbers: Numbers, device: str) -> dict[str, str]:
    """Which implementation of a layer runs, where there is a choice: a workload's usual one, or its strategy's."""
    usual: dict[str, str] = module.kernels(spec, numbers, device, cell.kernel)
    if cell.strategy != "synchronised":
        return usual
    return usual | {"batch_normalization": "composite" if cell.framework == "tensorflow" else "SyncBatchNorm"}

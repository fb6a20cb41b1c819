"""The input pipelines that are measured: one file per framework, with the same names in the same order.

Each has `batches`, which starts the cell's loader and returns an iterator over training batches on the device, without
end, in the order of `workloads.data.augment.Batches`; its ``close`` ends what the loader started, and its ``settings``
say what the framework made of the cell's loader. `KINDS` maps the cell's loaders to the classes that make them true.
"""

from __future__ import annotations

from suite.plan.cell import Loader
from suite.record.environment import usable_cores
from suite.worker.frameworks import UnsupportedError


def tuned_workers(device: str) -> int:
    """Processes or threads that a tuned loader uses: none on a CPU, where they would take cores from the model."""
    return 0 if device == "cpu" else min(8, max(1, usable_cores() // 2))


def refuse(framework: str, loader: Loader, *names: str) -> None:
    """Refuse sub-settings that a loader of this framework does not have. Raises `UnsupportedError`."""
    for name in names:
        value = getattr(loader, name)
        if value is not None:
            raise UnsupportedError(f"{framework}'s {loader.kind} loader has no setting {name} that could be {value}")

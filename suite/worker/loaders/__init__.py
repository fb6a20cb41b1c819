"""The input pipelines that are measured: one file per framework, with the same names in the same order.

Each has `batches`, which starts the cell's loader: one of its `KINDS`.
"""

from __future__ import annotations

from typing import Any, Self

from suite.plan.cell import Loader
from suite.record.parts.environment import usable_cores
from suite.worker.frameworks import UnsupportedError
from workloads.data.augment import Batches


class Delivery:
    """Training batches on the device, without end, in the order of `workloads.data.augment.Batches`.

    ``settings`` say what the framework made of the cell's loader.
    """

    settings: dict[str, Any]

    def __iter__(self) -> Self:
        return self

    def close(self) -> None:
        """End what the loader started; here nothing was."""


def describe(
    kind: str, workers: int | str = 0, prefetch: int | str = 0, *, pin_memory: bool = False, cache: bool = False
) -> dict[str, Any]:
    """The settings of a loader, for the record."""
    return {"kind": kind, "workers": workers, "prefetch": prefetch, "pin_memory": pin_memory, "cache": cache}


def tuned_workers(device: str) -> int:
    """Processes or threads that a tuned loader uses: none on a CPU, where they would take cores from the model."""
    return 0 if device == "cpu" else min(8, max(1, usable_cores() // 2))


def refuse_own(source: Batches, *forms: str) -> None:
    """Refuse data from outside of another form, or with an augmentation of its own, where a loader has its own code.

    Raises `UnsupportedError`.
    """
    if source.augment:
        raise UnsupportedError("this loader cannot run the data's own augmentation; use tuned or w2")
    if forms and source.form not in forms:
        raise UnsupportedError(f"this loader has {', '.join(forms)}; this data is {source.form}")


def refuse(framework: str, loader: Loader, *names: str) -> None:
    """Refuse sub-settings that a loader of this framework does not have. Raises `UnsupportedError`."""
    for name in names:
        value = getattr(loader, name)
        if value is not None:
            raise UnsupportedError(f"{framework}'s {loader.kind} loader has no setting {name} that could be {value}")

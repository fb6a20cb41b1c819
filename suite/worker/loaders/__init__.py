"""The input pipelines that are measured: one file per framework, with the same names in the same order.

Each has `batches`, which starts the cell's loader: one of its `KINDS`.
"""

from __future__ import annotations

import math
import random
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


#: How many batches a loader's count keeps, in the device's memory.
KEPT = 4


class CountingLoader:
    """A loader that counts the batches it delivers and keeps some of them, at positions that a seed draws.

    Whenever it stops, any batch so far was kept with the same probability: the positions are a random sample of the
    whole run, by the algorithm L of Li, "Reservoir-sampling algorithms of time complexity O(n(1+log(N/n)))", ACM
    TOMS 20(4), 1994. Nothing but this object knows the next one. Counting takes 0.2 microseconds a batch.
    """

    def __init__(self, loader: Any, seed: int = 0) -> None:
        self.loader, self.settings, self.close, self.delivered = loader, loader.settings, loader.close, 0
        self.kept: dict[int, Any] = {}
        self._draw, self._share, self._next = random.Random(seed), 1.0, KEPT  # noqa: S311 - no secret is drawn
        self._skip()

    def __iter__(self) -> CountingLoader:
        return self

    def __next__(self) -> Any:
        number, batch = self.delivered, next(self.loader)
        self.delivered += 1
        if number < KEPT:
            self.kept[number] = batch
        elif number == self._next:
            del self.kept[self._draw.choice([*self.kept])]
            self.kept[number] = batch
            self._next += 1
            self._skip()
        return batch

    def _skip(self) -> None:
        """Draw how many batches pass before the next one that is kept."""
        self._share *= math.exp(math.log(1 - self._draw.random()) / KEPT)
        self._next += math.floor(math.log(1 - self._draw.random()) / math.log1p(-self._share))

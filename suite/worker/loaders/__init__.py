"""The input pipelines that are measured: one file per framework, with the same names in the same order.

Each has `batches`, which starts the cell's loader: one of its `KINDS`.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from suite.plan.cell import Cell, Loader
from suite.record.parts.environment import usable_cores
from suite.worker.frameworks import UnsupportedError
from workloads.data.augment import PAD, Batches
from workloads.data.dataset import Array
from workloads.data.formats import FILES, Container, Stored, open_stored

Put = Callable[[Any], Any]


class Delivery:
    """Training batches on the device, without end, in the order of `workloads.data.augment.Batches`.

    ``settings`` say what the framework made of the cell's loader, and ``files`` what it reads.
    """

    settings: dict[str, Any]
    files: list[Path]

    def __iter__(self) -> Self:
        return self

    def close(self) -> None:
        """End what the loader started; here nothing was."""


def describe(
    kind: str, workers: int | str = 0, prefetch: int | str = 0, *, pin_memory: bool = False, cache: bool = False
) -> dict[str, Any]:
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


def start(
    kinds: Mapping[str, Callable[..., Any]], cell: Cell, source: Batches, device: str, put: Put, *, shards: Container,
    in_memory: tuple[str, ...] = (),
) -> Any:  # fmt: skip
    """The cell's loader, one of ``kinds``, over the samples in the cell's format. Raises `UnsupportedError`.

    ``shards`` are the framework's own. Of formats ``in_memory`` it has read all before the first batch.
    """
    held = cell.loader.cache or cell.loader.kind == "resident" or cell.format in in_memory
    if cell.pages == "cold" and (held or not source.split.files):
        raise UnsupportedError("the samples of this loader lie in memory while it is timed: no page of a file is read")
    if cell.format != "memmap":
        source = source.read_from(_open(cell, source, container_of(cell.format, shards)))
    loader = kinds[cell.loader.kind](cell, source, device, put)
    loader.files = source.split.files
    if isinstance(source.split, Stored):
        form = "files" if source.split.container is FILES else "shards"
        loader.settings |= {"format": form, **source.split.description}
    return loader


def container_of(name: str, shards: Container) -> Container:
    """The container of a format, of which ``shards`` are the framework's."""
    return FILES if name == "files" else shards


def require(container: Container) -> None:
    """Raises `UnsupportedError` where a library that reads or writes it is not installed."""
    if missing := container.missing or FILES.missing:
        raise UnsupportedError(
            f"storing samples as {container.name} needs {missing}: install it beside the framework with "
            "pip install 'framework-training-suite[formats]'"
        )


def refuse_samples(source: Batches) -> None:
    """Raises `UnsupportedError` for samples that cannot be stored one by one."""
    labels = source.split.labels
    if not source.split.files:
        raise UnsupportedError("this workload arranges its samples itself; they have the format memmap")
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise UnsupportedError("samples are stored with one whole number as their label; these have the format memmap")


def _open(cell: Cell, source: Batches, container: Container) -> Stored:
    if cell.loader.cache or cell.loader.kind not in ("tuned", "workers", "naive"):
        raise UnsupportedError(f"the loader {cell.loader.id} holds decoded samples in memory, in the format memmap")
    refuse_samples(source)
    require(container)
    return open_stored(source.data, source.split.files[0].parent, container)


#: How many batches a loader's count keeps, in the device's memory.
BATCHES_KEPT = 4


class CountingLoader:
    """A loader that counts the batches it delivers and keeps some of them, at positions that a seed draws.

    Whenever it stops, any batch so far was kept with the same probability: the positions are a random sample of the
    whole run, by the algorithm L of Li, "Reservoir-sampling algorithms of time complexity O(n(1+log(N/n)))", ACM
    TOMS 20(4), 1994. Nothing but this object knows the next one. Counting takes 0.2 microseconds a batch.
    """

    def __init__(self, loader: Any, seed: int = 0) -> None:
        self.loader, self.settings, self.close, self.delivered = loader, loader.settings, loader.close, 0
        self.kept: dict[int, Any] = {}
        self._draw, self._share, self._next = random.Random(seed), 1.0, BATCHES_KEPT  # noqa: S311 - no secret is drawn
        self._skip()

    def __iter__(self) -> CountingLoader:
        return self

    def __next__(self) -> Any:
        number, batch = self.delivered, next(self.loader)
        self.delivered += 1
        if number < BATCHES_KEPT:
            self.kept[number] = batch
        elif number == self._next:
            del self.kept[self._draw.choice([*self.kept])]
            self.kept[number] = batch
            self._next += 1
            self._skip()
        return batch

    def _skip(self) -> None:
        self._share *= math.exp(math.log(1 - self._draw.random()) / BATCHES_KEPT)
        self._next += math.floor(math.log(1 - self._draw.random()) / math.log1p(-self._share))


DALI_PREFETCH = 2  # batches that the pipeline keeps ready


class Dali(Delivery):
    """NVIDIA DALI, for all three frameworks: one pipeline that crops and flips, on the GPU where there is one.

    The host gathers the samples of a batch; DALI's threads and, on CUDA, its kernels do the rest, some batches ahead.
    ``take`` makes a framework's tensor of a one on the GPU, as a copy, since DALI uses its buffers again.
    """

    def __init__(self, cell: Cell, source: Batches, device: str, put: Put, take: Put) -> None:
        refuse(cell.framework, cell.loader, "pin_memory", "cache")
        try:
            from nvidia.dali import fn, pipeline_def
        except ImportError as error:
            raise UnsupportedError(
                f"NVIDIA DALI cannot be imported ({error}): install it beside the framework with "
                "pip install 'framework-training-suite[dali]'"
            ) from None
        refuse_own(source, "images", "tokens")
        images, gpu = source.form == "images", device == "cuda"
        side = source.split.inputs.shape[1]
        batches = _images(source) if images else (source[number] for number in itertools.count())

        @pipeline_def
        def pipeline() -> Any:
            inputs, labels, *draws = fn.external_source(source=batches, num_outputs=4 if images else 2, batch=True)
            if gpu:
                inputs, labels = inputs.gpu(), labels.gpu()
            if images:
                starts, flips = draws
                crop = {"start": starts, "shape": (side, side), "axes": (0, 1), "out_of_bounds_policy": "pad"}
                inputs = fn.flip(fn.slice(inputs, **crop), horizontal=flips)
            return inputs, labels

        prefetch = DALI_PREFETCH if cell.loader.prefetch is None else cell.loader.prefetch
        if not prefetch:
            raise UnsupportedError("DALI keeps at least one batch ready; ask for prefetch 1")
        threads = max(1, tuned_workers(device))
        options = {"batch_size": source.batch, "num_threads": threads, "device_id": 0 if gpu else None}
        self.pipeline = pipeline(prefetch_queue_depth=prefetch, **options)
        self.pipeline.build()
        self.put, self.take = put, take if gpu else None
        self.settings = describe("nvidia.dali", threads, prefetch, pin_memory=gpu)

    def __next__(self) -> Any:
        outputs = [output.as_tensor() for output in self.pipeline.run()]
        if self.take:
            return tuple(self.take(output) for output in outputs)
        return self.put(tuple(np.array(output) for output in outputs))

    def close(self) -> None:
        del self.pipeline


def _images(source: Batches) -> Iterator[tuple[Array, ...]]:
    """Uncropped images, labels, where in the image each crop starts (it may be outside), and flips."""
    for number in itertools.count():
        chosen, plan = source.choose(number), source.plan(number // source.per_epoch)
        starts = np.stack([plan.rows[chosen], plan.columns[chosen]], axis=1) - np.int32(PAD)
        yield source.split.inputs[chosen], source.split.labels[chosen], starts, plan.flips[chosen].astype(np.int32)

"""PyTorch: `DataLoader`, over whole batches where it is tuned, over samples where it is naive.

The tuned data set answers `__getitems__`, so that a batch is one vectorised gather and crop, not one call per sample;
the sampler yields batch numbers without end, so that worker processes live through all epochs.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from suite.plan.cell import Cell
from suite.worker.frameworks import UnsupportedError
from suite.worker.loaders import Dali, Delivery, describe, refuse, refuse_own, start, tuned_workers
from workloads.data.augment import PAD, Batches
from workloads.data.dataset import Array
from workloads.data.formats import Container, Reader, Sample, require_all, shards

PREFETCH = 4  # batches that each worker keeps ready

# Python 3.14 no longer forks by itself. A forked worker has its imports at once, and leaves at once when it is told to:
# a spawned one takes the interpreter down around the thread that still hands over a tensor, and may abort.
START = "fork" if sys.platform == "linux" else None

Put = Callable[[Any], Any]


class NumberedBatches(Dataset):
    """A data set whose items are whole batches by number."""

    def __init__(self, source: Batches) -> None:
        self.source = source

    def __getitems__(self, numbers: list[int]) -> tuple[Array, Array]:
        (number,) = numbers
        return self.source[number]


class Samples(Dataset):
    """A data set whose items are samples, each cropped and flipped by itself."""

    def __init__(self, source: Batches) -> None:
        self.source = source

    def __getitem__(self, key: tuple[int, int]) -> tuple[Array, Array]:
        return self.source.sample(*key)


class Tuned(Delivery):
    """`DataLoader` over whole batches; page-locked memory where there is a GPU."""

    def __init__(self, cell: Cell, source: Batches, device: str, put: Put) -> None:
        loader, self.put = cell.loader, put
        workers = tuned_workers(device) if loader.kind == "tuned" else loader.workers
        if loader.pin_memory and device == "cpu":
            raise UnsupportedError("page-locked memory serves copies to a GPU; this device is a CPU")
        if loader.prefetch and not workers:
            raise UnsupportedError("DataLoader prefetches in worker processes only; ask for some")
        if workers and loader.prefetch == 0:
            raise UnsupportedError("DataLoader's worker processes keep at least one batch ready; ask for prefetch 1")
        self.loader = DataLoader(
            NumberedBatches(source.in_memory() if loader.cache else source),
            batch_sampler=([number] for number in itertools.count()),
            collate_fn=_tensors,
            num_workers=workers,
            prefetch_factor=(PREFETCH if loader.prefetch is None else loader.prefetch) if workers else None,
            pin_memory=device == "cuda" if loader.pin_memory is None else loader.pin_memory,
            multiprocessing_context=START if workers else None,
        )
        self.iterator: Iterator[Any] = iter(self.loader)
        self.settings = _settings(self.loader, bool(loader.cache))

    def __next__(self) -> Any:
        return self.put(next(self.iterator))

    def close(self) -> None:
        if shutdown := getattr(self.iterator, "_shutdown_workers", None):
            shutdown()


class Naive(Tuned):
    """`DataLoader` as the tutorials start: one process, sample by sample, the default collation."""

    def __init__(self, cell: Cell, source: Batches, device: str, put: Put) -> None:
        del device
        refuse("PyTorch", cell.loader, "prefetch", "pin_memory", "cache")
        self.put = put
        order = ([(number, int(index)) for index in source.choose(number)] for number in itertools.count())
        self.loader = DataLoader(Samples(source), batch_sampler=order)
        self.iterator = iter(self.loader)
        self.settings = _settings(self.loader, False)


class Resident(Delivery):
    """The data set on the device, padded once; gather, crop and flip there, with one plan per epoch."""

    def __init__(self, cell: Cell, source: Batches, device: str, put: Put) -> None:
        refuse("PyTorch", cell.loader, "prefetch", "pin_memory", "cache")
        refuse_own(source)
        self.images, self.tokens = source.form == "images", source.form == "tokens"
        inputs = source.split.inputs[:]
        if self.tokens:  # PyTorch has no kernel on CUDA that picks rows of uint16
            inputs = np.ascontiguousarray(inputs[:, -(source.length or 0) :], np.int32)
        inputs, self.labels = put((inputs, source.split.labels[:]))
        self.inputs = F.pad(inputs, (0, 0, PAD, PAD, PAD, PAD)) if self.images else inputs
        self.source, self.device, self.number = source, device, 0
        self.plan: list[torch.Tensor] = []
        self.settings = describe("resident", cache=True)

    def __next__(self) -> Any:
        start = self.number % self.source.per_epoch * self.source.batch
        if not start:
            plan = self.source.plan(self.number // self.source.per_epoch)
            arrays = (plan.order, plan.rows, plan.columns, plan.flips)
            self.plan = [torch.as_tensor(array).to(self.device) for array in arrays]
        self.number += 1
        order, rows, columns, flips = self.plan
        chosen = order[start : start + self.source.batch]
        labels = self.labels[chosen]
        if not self.images:
            return self.inputs[chosen], labels
        side = torch.arange(self.inputs.shape[1] - 2 * PAD, device=self.device)
        row = rows[chosen, None] + side
        column = columns[chosen, None] + torch.where(flips[chosen, None], side.flip(0), side)
        return self.inputs[chosen[:, None, None], row[:, :, None], column[:, None, :]], labels


def dali(cell: Cell, source: Batches, device: str, put: Put) -> Dali:
    def take(tensor: Any) -> torch.Tensor:
        copy = torch.from_dlpack(tensor).clone()
        torch.cuda.current_stream().synchronize()  # DALI writes over its own when it makes the next batch
        return copy

    return Dali(cell, source, device, put, take=take)


KINDS = {"tuned": Tuned, "workers": Tuned, "naive": Naive, "resident": Resident, "dali": dali}


def batches(cell: Cell, source: Batches, device: str, put: Put) -> Any:
    return start(KINDS, cell, source, device, put, shards=SHARDS)


def _write_shards(folder: Path, samples: Iterator[Sample], suffix: str) -> None:
    import webdataset

    numbers = itertools.count()
    for path, part in shards(samples, folder, "tar"):
        with webdataset.TarWriter(path, encoder=False, mtime=0) as tar:
            for content, label in part:
                tar.write({"__key__": f"{next(numbers):08d}", suffix: content, "cls": str(label).encode()})


def _open_shards(folder: Path, samples: int) -> Reader:
    """A tar has no index: its samples go, still encoded, through a shuffle buffer as large as the split.

    For each sample that leaves the buffer one is read from the shards, as it is when they are streamed.
    """
    buffer = list(_stream(folder))
    require_all(folder, len(buffer), samples)
    again = itertools.chain.from_iterable(enumerate(_stream(folder)) for _ in itertools.count())

    def read(indices: Sequence[int]) -> list[Sample]:
        for place, sample in itertools.islice(again, len(indices)):
            buffer[place] = sample
        return [buffer[index] for index in indices]

    return read


def _stream(folder: Path) -> Iterator[Sample]:
    from webdataset import tariterators

    for place in sorted(folder.glob("*.tar")):
        with place.open("rb") as stream:
            files = tariterators.tar_file_expander([{"url": str(place), "stream": stream}])
            for sample in tariterators.group_by_keys(files):
                yield next(sample[suffix] for suffix in ("png", "bin") if suffix in sample), int(sample["cls"])


SHARDS = Container("tar", "webdataset", "webdataset", _write_shards, _open_shards)


def _settings(loader: DataLoader, cache: bool) -> dict[str, Any]:
    workers, prefetch = loader.num_workers, (loader.prefetch_factor or 0) * loader.num_workers
    return describe("torch.utils.data.DataLoader", workers, prefetch, pin_memory=loader.pin_memory, cache=cache)


def _tensors(batch: tuple[Array, Array]) -> tuple[torch.Tensor, torch.Tensor]:
    inputs, labels = batch
    return torch.from_numpy(inputs), torch.from_numpy(labels)

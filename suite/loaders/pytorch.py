"""PyTorch: `DataLoader` over whole batches.

The data set answers `__getitems__`, so that a batch is one vectorised gather and crop, not one call per sample; the
sampler yields batch numbers without end, so that worker processes live through all epochs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from suite.cell import Cell
from suite.loaders import tuned_workers
from workloads.data.augment import Batches
from workloads.data.dataset import Array

PREFETCH = 4  # batches that each worker keeps ready


class NumberedBatches(Dataset):
    """A data set whose items are whole batches by number."""

    def __init__(self, source: Batches) -> None:
        self.source = source

    def __getitems__(self, numbers: list[int]) -> tuple[Array, Array]:
        (number,) = numbers
        return self.source[number]


class Loader:
    """An endless iterator over device batches."""

    def __init__(self, cell: Cell, source: Batches, device: str, put: Callable[[Any], Any]) -> None:
        workers = tuned_workers(device) if cell.loader.kind == "tuned" else cell.loader.workers
        self.put = put
        self.loader = DataLoader(
            NumberedBatches(source),
            batch_sampler=([number] for number in itertools.count()),
            collate_fn=_tensors,
            num_workers=workers,
            prefetch_factor=PREFETCH if workers else None,
            pin_memory=device == "cuda",
        )
        self.iterator: Iterator[Any] = iter(self.loader)
        self.settings = {
            "kind": "torch.utils.data.DataLoader",
            "workers": self.loader.num_workers,
            "prefetch": (self.loader.prefetch_factor or 0) * self.loader.num_workers,
            "pin_memory": self.loader.pin_memory,
        }

    def __iter__(self) -> Loader:
        return self

    def __next__(self) -> Any:
        return self.put(next(self.iterator))

    def close(self) -> None:
        """End the worker processes."""
        shutdown = getattr(self.iterator, "_shutdown_workers", None)
        if shutdown:
            shutdown()


def batches(cell: Cell, source: Batches, device: str, put: Callable[[Any], Any]) -> Loader:
    """Start the loader; ``put`` brings a host batch to the device."""
    return Loader(cell, source, device, put)


def _tensors(batch: tuple[Array, Array]) -> tuple[torch.Tensor, torch.Tensor]:
    inputs, labels = batch
    return torch.from_numpy(inputs), torch.from_numpy(labels)

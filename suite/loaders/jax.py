"""JAX: grain over whole batches, read ahead by grain's threads or worker processes, then put on the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import grain
from absl import flags

from suite.cell import Cell
from suite.loaders import tuned_workers
from workloads.data.augment import Batches

PREFETCH = 4  # batches that are kept ready, or that each worker process keeps ready
ENDLESS = 2**40


class Loader:
    """An endless iterator over device batches."""

    def __init__(self, cell: Cell, source: Batches, device: str, put: Callable[[Any], Any]) -> None:
        workers = tuned_workers(device) if cell.loader.kind == "tuned" else cell.loader.workers
        self.put = put
        read = grain.ReadOptions(num_threads=1, prefetch_buffer_size=PREFETCH)
        dataset = grain.MapDataset.range(ENDLESS).map(source.__getitem__).to_iter_dataset(read)
        if workers:
            flags.FLAGS.mark_as_parsed()  # grain reads absl flags, which only an absl program parses
            options = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=PREFETCH)
            dataset = dataset.mp_prefetch(options)
        self.iterator: Iterator[Any] = iter(dataset)
        self.settings = {
            "kind": "grain",
            "workers": workers,
            "prefetch": PREFETCH * max(1, workers),
            "pin_memory": False,
        }

    def __iter__(self) -> Loader:
        return self

    def __next__(self) -> Any:
        return self.put(next(self.iterator))

    def close(self) -> None:
        """End threads and worker processes; grain's own can outlive the process that started them."""
        close = getattr(self.iterator, "close", None)
        if close:
            close()


def batches(cell: Cell, source: Batches, device: str, put: Callable[[Any], Any]) -> Loader:
    """Start the loader; ``put`` brings a host batch to the device."""
    return Loader(cell, source, device, put)

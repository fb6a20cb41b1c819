"""JAX: grain over whole batches where it is tuned, a Python loop over samples where it is naive."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import grain
import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from suite.plan.cell import Cell
from suite.worker.frameworks import UnsupportedError
from suite.worker.loaders import Dali, Delivery, describe, refuse, refuse_own, start, tuned_workers
from workloads.data.augment import PAD, Batches
from workloads.data.dataset import Array
from workloads.data.formats import Container, Reader, Sample, require_all, shards

PREFETCH = 4  # batches that are kept ready, or that each worker process keeps ready
BATCHES_AHEAD = 2  # batches that a tuned loader keeps on a GPU
ENDLESS = 2**40
LABEL_BYTES = 8  # at the beginning of a record

Put = Callable[[Any], Any]


class Tuned(Delivery):
    """Grain over whole batches, read ahead by a thread or by worker processes; tuned, also put on a GPU ahead."""

    def __init__(self, cell: Cell, source: Batches, device: str, put: Put) -> None:
        loader, self.put = cell.loader, put
        refuse("JAX", loader, "pin_memory")
        tuned = loader.kind == "tuned"
        workers = tuned_workers(device) if tuned else loader.workers
        prefetch = PREFETCH if loader.prefetch is None else loader.prefetch
        if workers and not prefetch:
            raise UnsupportedError("grain's worker processes keep at least one batch ready; ask for prefetch 1")
        source = source.in_memory() if loader.cache else source
        read = grain.ReadOptions(num_threads=min(1, prefetch), prefetch_buffer_size=prefetch)
        dataset = grain.MapDataset.range(ENDLESS).map(source.__getitem__).to_iter_dataset(read)
        if workers:
            flags.FLAGS.mark_as_parsed()  # grain reads absl flags, which only an absl program parses
            options = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=prefetch)
            dataset = dataset.mp_prefetch(options)
        self.iterator: Iterator[Any] = iter(dataset)
        self.ahead: deque[Any] = deque()
        for _ in range(BATCHES_AHEAD if tuned and device == "cuda" else 0):
            self.ahead.append(put(next(self.iterator)))
        self.settings = describe("grain", workers, prefetch * max(1, workers), cache=bool(loader.cache))

    def __next__(self) -> Any:
        self.ahead.append(self.put(next(self.iterator)))
        return self.ahead.popleft()

    def close(self) -> None:
        """End threads and worker processes; grain's own can outlive the process that started them."""
        if close := getattr(self.iterator, "close", None):
            close()


class Naive(Delivery):
    """A Python loop: sample by sample, stacked, put on the device."""

    def __init__(self, cell: Cell, source: Batches, device: str, put: Put) -> None:
        del device
        refuse("JAX", cell.loader, "prefetch", "pin_memory", "cache")
        self.source, self.put, self.numbers = source, put, itertools.count()
        self.settings = describe("python")

    def __next__(self) -> Any:
        number = next(self.numbers)
        samples = [self.source.sample(number, int(index)) for index in self.source.choose(number)]
        return self.put(tuple(np.stack(arrays) for arrays in zip(*samples, strict=True)))


class Resident(Delivery):
    """The data set on the device; gather, crop and flip in one jitted function there, with one plan per epoch."""

    def __init__(self, cell: Cell, source: Batches, device: str, put: Put) -> None:
        del device
        refuse("JAX", cell.loader, "prefetch", "pin_memory", "cache")
        refuse_own(source)
        self.source, self.put, self.number = source, put, 0
        self.data = put((np.asarray(source.split.inputs), np.asarray(source.split.labels)))
        makers: dict[str, Callable[..., Any]] = {
            "images": _images,
            "tokens": partial(_tokens, length=source.length or 0),
            "plain": _plain,
        }
        self.make = jax.jit(partial(makers[source.form], batch=source.batch))
        self.plan: Any = None
        self.settings = describe("resident", cache=True)

    def __next__(self) -> Any:
        start = self.number % self.source.per_epoch * self.source.batch
        if not start:
            plan = self.source.plan(self.number // self.source.per_epoch)
            order = plan.order.astype(np.int32)
            self.plan = self.put((order, plan.rows, plan.columns, plan.flips))
        self.number += 1
        return self.make(self.data, self.plan, start)


def dali(cell: Cell, source: Batches, device: str, put: Put) -> Dali:
    def take(tensor: Any) -> jax.Array:
        return jnp.array(jnp.from_dlpack(tensor)).block_until_ready()  # DALI writes over its own for the next batch

    return Dali(cell, source, device, put, take=take)


KINDS = {"tuned": Tuned, "workers": Tuned, "naive": Naive, "resident": Resident, "dali": dali}


def batches(cell: Cell, source: Batches, device: str, put: Put) -> Any:
    return start(KINDS, cell, source, device, put, shards=SHARDS)


def _write_shards(folder: Path, samples: Iterator[Sample], suffix: str) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    del suffix  # the split says what its samples are
    for path, part in shards(samples, folder, "arrayrecord"):
        writer = ArrayRecordWriter(path, "group_size:1")  # so that each sample can be read by itself
        for content, label in part:
            writer.write(label.to_bytes(LABEL_BYTES, "little", signed=True) + content)
        writer.close()


def _open_shards(folder: Path, samples: int) -> Reader:
    """ArrayRecord has an index: grain reads the samples of a batch when it is made."""
    records = grain.sources.ArrayRecordDataSource(sorted(str(path) for path in folder.glob("*.arrayrecord")))
    require_all(folder, len(records), samples)

    def read(indices: Sequence[int]) -> list[Sample]:
        chosen = records.__getitems__(indices)
        return [(each[LABEL_BYTES:], int.from_bytes(each[:LABEL_BYTES], "little", signed=True)) for each in chosen]

    return read


SHARDS = Container("arrayrecord", "array_record", "array_record", _write_shards, _open_shards)


def _images(data: Any, plan: Any, start: Array, batch: int) -> tuple[jax.Array, jax.Array]:
    inputs, labels = data
    order, rows, columns, flips = plan
    chosen = jax.lax.dynamic_slice_in_dim(order, start, batch)
    _, height, width, _ = inputs.shape
    padded = jnp.pad(inputs[chosen], ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)))
    row = rows[chosen, None] + jnp.arange(height)
    across = jnp.arange(width)
    column = columns[chosen, None] + jnp.where(flips[chosen, None], across[::-1], across)
    return padded[jnp.arange(batch)[:, None, None], row[:, :, None], column[:, None, :]], labels[chosen]


def _tokens(data: Any, plan: Any, start: Array, batch: int, length: int) -> tuple[jax.Array, jax.Array]:
    inputs, labels = data
    chosen = jax.lax.dynamic_slice_in_dim(plan[0], start, batch)
    return inputs[chosen][:, -length:].astype(jnp.int32), labels[chosen]


def _plain(data: Any, plan: Any, start: Array, batch: int) -> tuple[jax.Array, jax.Array]:
    inputs, labels = data
    chosen = jax.lax.dynamic_slice_in_dim(plan[0], start, batch)
    return inputs[chosen], labels[chosen]

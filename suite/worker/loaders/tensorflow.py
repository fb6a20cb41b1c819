"""TensorFlow: `tf.data`, over whole batches where it is tuned, over samples where it is naive.

One `numpy_function` call per epoch brings the plan in; gather, crop and flip are TensorFlow operations, and all of it
runs in tf.data's own threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from suite.plan.cell import Cell
from suite.worker.frameworks import UnsupportedError
from suite.worker.frameworks.tensorflow.device import integers, place, place_array, synchronise
from suite.worker.loaders import Dali, Delivery, describe, refuse, refuse_own, tuned_workers
from workloads.data.augment import PAD, Batches
from workloads.data.dataset import Array

BATCHES_AHEAD = 2  # batches that a tuned loader keeps on a GPU

Put = Callable[[Any], Any]

_LEFT: list[Any] = []  # closed iterators, which must not be collected before the process ends


class Tuned(Delivery):
    """`tf.data` over whole batches; tuned, it chooses its own threads and prefetches to a GPU."""

    def __init__(self, cell: Cell, source: Batches, device: str, put: Put) -> None:
        loader, self.put = cell.loader, put
        _refuse(cell)
        tuned = loader.kind == "tuned"
        workers = tuned_workers(device) if tuned else loader.workers
        prefetch = tf.data.AUTOTUNE if loader.prefetch is None else loader.prefetch
        with tf.device("/CPU:0"):
            parallel = tf.data.AUTOTUNE if tuned else workers or None
            if source.augment:
                dataset = tf.data.Dataset.counter().map(_own_batch(source, device), parallel, deterministic=True)
            else:
                dataset = _epochs(source).map(_batch(source, device), num_parallel_calls=parallel, deterministic=True)
            if prefetch:
                dataset = dataset.prefetch(prefetch)
        if tuned and device == "cuda":
            dataset = dataset.apply(tf.data.experimental.prefetch_to_device(place(device), BATCHES_AHEAD))
        self.iterator = iter(dataset)
        chosen = "autotune" if tuned else workers, "autotune" if loader.prefetch is None else loader.prefetch
        self.settings = describe("tf.data", *chosen, cache=True)

    def __next__(self) -> Any:
        return self.put(next(self.iterator))

    def close(self) -> None:
        """Leave the threads to the end of the process; their buffers are full, so that they wait.

        Taking them down here took up to 20 s in one launch of eight: tf.data's tuner sleeps, for longer the longer it
        has run, and does not always hear that it is to end.
        """
        _LEFT.append(self.iterator)


class Naive(Tuned):
    """`tf.data` as the tutorials start: one sample at a time, then ``batch``; nothing runs ahead."""

    def __init__(self, cell: Cell, source: Batches, device: str, put: Put) -> None:
        _refuse(cell)
        refuse("TensorFlow", cell.loader, "prefetch")
        refuse_own(source)
        self.put = put
        with tf.device("/CPU:0"):
            augment = _batch(source, device)

            def sample(
                chosen: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, flips: tf.Tensor
            ) -> tuple[tf.Tensor, tf.Tensor]:
                inputs, labels = augment(chosen[None], rows[None], columns[None], flips[None])
                return inputs[0], labels[0]

            dataset = _epochs(source).unbatch().map(sample).batch(source.batch, drop_remainder=True)
        self.iterator = iter(dataset)
        self.settings = describe("tf.data", cache=True)


class Resident(Delivery):
    """The data set on the device; gather, crop and flip in one `tf.function` there, with one plan per epoch."""

    def __init__(self, cell: Cell, source: Batches, device: str, put: Put) -> None:
        _refuse(cell)
        refuse("TensorFlow", cell.loader, "prefetch")
        refuse_own(source)
        self.source, self.put, self.number, self.device = source, put, 0, device
        with tf.device(place(device)):
            self.make = tf.function(_batch(source, device), jit_compile=device == "cuda")
        self.plan: list[tf.Tensor] = []
        self.settings = describe("resident", cache=True)

    def __next__(self) -> Any:
        start = self.number % self.source.per_epoch * self.source.batch
        with tf.device(place(self.device)):
            if not start:
                arrays = _epoch_plan(self.source, self.number // self.source.per_epoch)
                self.plan = [place_array(array, self.device) for array in arrays]
            self.number += 1
            return self.make(*(array[start : start + self.source.batch] for array in self.plan))


def dali(cell: Cell, source: Batches, device: str, put: Put) -> Dali:
    def take(tensor: Any) -> tf.Tensor:
        shared = tf.experimental.dlpack.from_dlpack(tensor.__dlpack__())
        with tf.device(place(device)):  # `tf.identity` would share the memory
            copy = place_array(tf.bitwise.bitwise_or(shared, tf.zeros((), shared.dtype)), device)
        synchronise(device)  # DALI writes over its own when it makes the next batch
        return copy

    return Dali(cell, source, device, put, take=take)


KINDS = {"tuned": Tuned, "workers": Tuned, "naive": Naive, "resident": Resident, "dali": dali}


def batches(cell: Cell, source: Batches, device: str, put: Put) -> Any:
    return KINDS[cell.loader.kind](cell, source, device, put)


def _refuse(cell: Cell) -> None:
    refuse("TensorFlow", cell.loader, "pin_memory")
    if cell.loader.cache is False:
        raise UnsupportedError("tf.data here holds the data set as a tensor in memory; it cannot read mapped files")


def _epoch_plan(source: Batches, number: int) -> tuple[Array, ...]:
    """The plan of an epoch in the order of its samples: samples, rows, columns, flips, each (n,)."""
    plan = source.plan(number)
    order = plan.order[: source.per_epoch * source.batch]
    return order, plan.rows[order], plan.columns[order], plan.flips[order]


def _epochs(source: Batches) -> tf.data.Dataset:
    """The plans of all epochs, cut into batches: samples (b,), rows (b,), columns (b,), flips (b,)."""

    def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
        types = (tf.int64, tf.int32, tf.int32, tf.bool)
        arrays = tf.numpy_function(lambda epoch: _epoch_plan(source, int(epoch)), [number], types)
        batched = tuple(tf.reshape(array, (source.per_epoch, source.batch)) for array in arrays)
        return tf.data.Dataset.from_tensor_slices(batched)

    return tf.data.Dataset.counter().flat_map(one_epoch)


def _batch(source: Batches, device: str) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    integer = integers(device)
    # Not tf.constant, which takes seven times as long over a mapped array.
    inputs, labels = (tf.convert_to_tensor(np.asarray(array)) for array in (source.split.inputs, source.split.labels))
    labels = tf.cast(labels, integer) if labels.dtype.is_integer else labels

    def tokens(chosen: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, flips: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        del rows, columns, flips  # words are neither cropped nor mirrored
        return tf.cast(tf.gather(inputs, chosen)[:, -(source.length or 0) :], integer), tf.gather(labels, chosen)

    def images(chosen: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, flips: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        height, width = inputs.shape[1:3]
        padded = tf.pad(tf.gather(inputs, chosen), ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)))
        down, across = (tf.range(side, dtype=rows.dtype) for side in (height, width))
        row = rows[:, None] + down
        column = columns[:, None] + tf.where(flips[:, None], across[::-1], across)
        cropped = tf.gather(padded, row, axis=1, batch_dims=1)
        return tf.gather(cropped, column, axis=2, batch_dims=1), tf.gather(labels, chosen)

    def plain(chosen: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, flips: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        del rows, columns, flips  # samples stay as they are
        return tf.gather(inputs, chosen), tf.gather(labels, chosen)

    return {"images": images, "tokens": tokens, "plain": plain}[source.form]


def _own_batch(source: Batches, device: str) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    specs = [(tf.as_dtype(array.dtype), array.shape) for array in source[0]]

    def batch(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        types = [dtype for dtype, _ in specs]
        arrays = tf.numpy_function(lambda which: source[int(which)], [number], types)
        inputs, labels = (tf.ensure_shape(array, shape) for array, (_, shape) in zip(arrays, specs, strict=True))
        return inputs, tf.cast(labels, integers(device)) if labels.dtype.is_integer else labels

    return batch

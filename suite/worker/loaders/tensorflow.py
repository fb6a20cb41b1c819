"""TensorFlow: `tf.data`, over whole batches where it is tuned, over samples where it is naive.

One `numpy_function` call per epoch brings the plan in; gather, crop and flip are TensorFlow operations, and all of it
runs in tf.data's own threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from suite.plan.cell import Cell
from suite.worker.frameworks import UnsupportedError
from suite.worker.frameworks.tensorflow.device import integers, place, place_array, synchronise
from suite.worker.loaders import Dali, Delivery, describe, refuse, refuse_own, start, tuned_workers
from workloads.data.augment import PAD, Batches
from workloads.data.dataset import Array
from workloads.data.formats import FILES, Container, Sample, Stored, is_image, list_labelled, require_all, shards

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
                if isinstance(source.split, Stored) and not source.split.container.open:
                    raise UnsupportedError("tf.data cannot run the data's own augmentation on TFRecords; use files")
                dataset = tf.data.Dataset.counter().map(_own_batch(source, device), parallel, deterministic=True)
            elif isinstance(source.split, Stored):
                dataset = _decoded(source, source.split, device, parallel)
            else:
                dataset = _epochs(source).map(_batch(source, device), num_parallel_calls=parallel, deterministic=True)
            if prefetch:
                dataset = dataset.prefetch(prefetch)
        if tuned and device == "cuda":
            dataset = dataset.apply(tf.data.experimental.prefetch_to_device(place(device), BATCHES_AHEAD))
        self.iterator = iter(dataset)
        chosen = "autotune" if tuned else workers, "autotune" if loader.prefetch is None else loader.prefetch
        self.settings = describe("tf.data", *chosen, cache=not isinstance(source.split, Stored))

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
        if source.varied:
            raise UnsupportedError("tf.data pads a batch of single samples behind the words, not before them")
        self.put = put
        with tf.device("/CPU:0"):
            dataset = (
                _decoded(source, source.split, device, None)
                if isinstance(source.split, Stored)
                else self._sampled(source, device)
            )
        self.iterator = iter(dataset)
        self.settings = describe("tf.data", cache=not isinstance(source.split, Stored))

    def _sampled(self, source: Batches, device: str) -> tf.data.Dataset:
        augment = _batch(source, device)

        def sample(
            chosen: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, flips: tf.Tensor
        ) -> tuple[tf.Tensor, tf.Tensor]:
            inputs, labels = augment(chosen[None], rows[None], columns[None], flips[None])
            return inputs[0], labels[0]

        return _epochs(source).unbatch().map(sample).batch(source.batch, drop_remainder=True)


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
    return start(KINDS, cell, source, device, put, shards=SHARDS, in_memory=("memmap",))


def _write_shards(folder: Path, samples: Iterator[Sample], suffix: str) -> None:
    del suffix  # the split says what its samples are
    for path, part in shards(samples, folder, "tfrecord"):
        with tf.io.TFRecordWriter(path) as writer:
            for content, label in part:
                features = {
                    "input": tf.train.Feature(bytes_list=tf.train.BytesList(value=[content])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(example.SerializeToString(deterministic=True))


SHARDS = Container("tfrecord", "tensorflow", "tensorflow", _write_shards)


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
    """Makes batches from the arrays of the split: of samples, rows, columns and flips (b,)."""
    integer, form = integers(device), _form(source, device)
    # Not tf.constant, which takes seven times as long over a mapped array.
    inputs, labels = (tf.convert_to_tensor(np.asarray(array)) for array in (source.split.inputs, source.split.labels))
    labels = tf.cast(labels, integer) if labels.dtype.is_integer else labels

    def batch(chosen: tf.Tensor, *draws: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return form(tf.gather(inputs, chosen), *draws), tf.gather(labels, chosen)

    return batch


def _form(source: Batches, device: str) -> Callable[..., tf.Tensor]:
    """Makes inputs of samples (b, ...), rows, columns and flips (b,)."""

    def tokens(inputs: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:  # words are neither cropped nor mirrored
        length = source.length or 0
        if source.varied:
            longest = tf.reduce_max(tf.math.count_nonzero(inputs[:, -length:], 1))
            length = tf.gather(source.paddings, longest)
        return tf.cast(inputs[:, -length:], integers(device))

    def images(inputs: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, flips: tf.Tensor) -> tf.Tensor:
        height, width = inputs.shape[1:3]
        padded = tf.pad(inputs, ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)))
        down, across = (tf.range(side, dtype=rows.dtype) for side in (height, width))
        row = rows[:, None] + down
        column = columns[:, None] + tf.where(flips[:, None], across[::-1], across)
        cropped = tf.gather(padded, row, axis=1, batch_dims=1)
        return tf.gather(cropped, column, axis=2, batch_dims=1)

    def plain(inputs: tf.Tensor, *_: tf.Tensor) -> tf.Tensor:
        return inputs

    return {"images": images, "tokens": tokens, "plain": plain}[source.form]


def _decoded(source: Batches, split: Stored, device: str, parallel: int | None) -> tf.data.Dataset:
    """Batches of a store's samples, each read and decoded by itself, by ``parallel`` threads."""
    read, samples = (_files if split.container is FILES else _records)(source, split)
    like, form, integer = split.inputs[0], _form(source, device), integers(device)

    def decode(*sample: tf.Tensor) -> tuple[tf.Tensor, ...]:
        content, label, draws = read(*sample)
        if is_image(like):
            return tf.ensure_shape(tf.io.decode_png(content, 3), like.shape), tf.cast(label, integer), *draws
        return tf.reshape(tf.io.decode_raw(content, like.dtype), like.shape), tf.cast(label, integer), *draws

    def batch(inputs: tf.Tensor, labels: tf.Tensor, *draws: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return form(inputs, *draws), labels

    threads = {"num_parallel_calls": parallel, "deterministic": True} if parallel else {}
    return samples.map(decode, **threads).batch(source.batch, drop_remainder=True).map(batch, **threads)


Read = Callable[..., tuple[tf.Tensor, tf.Tensor, tuple[tf.Tensor, ...]]]


def _files(source: Batches, split: Stored) -> tuple[Read, tf.data.Dataset]:
    places, labels = (tf.constant(each) for each in zip(*list_labelled(split.folder, len(split)), strict=True))

    def read(chosen: tf.Tensor, *draws: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tuple[tf.Tensor, ...]]:
        return tf.io.read_file(places[chosen]), labels[chosen], draws

    return read, _epochs(source).unbatch()


def _records(source: Batches, split: Stored) -> tuple[Read, tf.data.Dataset]:
    """A TFRecord has no index: its records go, still encoded, through a shuffle buffer as large as the split.

    For each sample that leaves the buffer one is read from the shards, so that nothing is read further ahead than the
    data set prefetches.
    """
    features = {name: tf.io.FixedLenFeature([], kind) for name, kind in (("input", tf.string), ("label", tf.int64))}
    records = tf.data.TFRecordDataset(sorted(str(path) for path in split.folder.glob("*.tfrecord")))
    buffer = np.array(next(records.batch(2 * len(split)).as_numpy_iterator(), ()), object)
    require_all(split.folder, len(buffer), len(split))

    def exchange(places: Array, contents: Array, chosen: Array) -> Array:
        buffer[places] = contents
        return buffer[chosen]

    def shuffle(plan: tuple[tf.Tensor, ...], streamed: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
        chosen, *draws = plan
        left = tf.numpy_function(exchange, [*streamed, chosen], tf.string)
        return tf.ensure_shape(left, (source.batch,)), *draws

    def read(record: tf.Tensor, *draws: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tuple[tf.Tensor, ...]]:
        parsed = tf.io.parse_single_example(record, features)
        return parsed["input"], parsed["label"], draws

    streamed = records.enumerate().repeat().batch(source.batch)
    return read, tf.data.Dataset.zip((_epochs(source), streamed)).map(shuffle).unbatch()


def _own_batch(source: Batches, device: str) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    specs = [(tf.as_dtype(array.dtype), array.shape) for array in source[0]]

    def batch(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        types = [dtype for dtype, _ in specs]
        arrays = tf.numpy_function(lambda which: source[int(which)], [number], types)
        inputs, labels = (tf.ensure_shape(array, shape) for array, (_, shape) in zip(arrays, specs, strict=True))
        return inputs, tf.cast(labels, integers(device)) if labels.dtype.is_integer else labels

    return batch

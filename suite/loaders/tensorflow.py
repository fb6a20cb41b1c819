"""TensorFlow: `tf.data` over whole batches, gather, crop and flip as TensorFlow operations.

One `numpy_function` call per epoch brings the plan in; all else runs in tf.data's own threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from suite.cell import Cell
from suite.loaders import tuned_workers
from workloads.data.augment import PAD, Batches
from workloads.data.dataset import Array


class Loader:
    """An endless iterator over device batches."""

    def __init__(self, cell: Cell, source: Batches, device: str, put: Callable[[Any], Any]) -> None:
        tuned = cell.loader.kind == "tuned"
        workers = tuned_workers(device) if tuned else cell.loader.workers
        parallel = tf.data.AUTOTUNE if tuned else workers or None
        self.put = put
        with tf.device("/CPU:0"):
            dataset = _epochs(source).map(_batch(source), num_parallel_calls=parallel, deterministic=True)
            self.dataset = dataset.prefetch(tf.data.AUTOTUNE)
        self.iterator = iter(self.dataset)
        self.settings = {
            "kind": "tf.data",
            "workers": "autotune" if tuned else workers,
            "prefetch": "autotune",
            "pin_memory": False,
        }

    def __iter__(self) -> Loader:
        return self

    def __next__(self) -> Any:
        return self.put(next(self.iterator))

    def close(self) -> None:
        """End the threads."""
        del self.iterator, self.dataset


def batches(cell: Cell, source: Batches, device: str, put: Callable[[Any], Any]) -> Loader:
    """Start the loader; ``put`` brings a host batch to the device."""
    return Loader(cell, source, device, put)


def _epochs(source: Batches) -> tf.data.Dataset:
    """Slices of the plans of all epochs: samples (b,), rows (b,), columns (b,), flips (b,)."""

    def plan(number: Array) -> tuple[Array, ...]:
        made = source.plan(int(number))
        order = made.order[: source.per_epoch * source.batch]
        return order, made.rows[order], made.columns[order], made.flips[order]

    def one_epoch(number: tf.Tensor) -> tf.data.Dataset:
        types = (tf.int64, tf.int32, tf.int32, tf.bool)
        arrays = tf.numpy_function(plan, [number], types)
        cut = tuple(tf.reshape(array, (source.per_epoch, source.batch)) for array in arrays)
        return tf.data.Dataset.from_tensor_slices(cut)

    return tf.data.Dataset.counter().flat_map(one_epoch)


def _batch(source: Batches) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
    # Not tf.constant, which takes seven times as long over a mapped array.
    inputs, labels = (tf.convert_to_tensor(np.asarray(array)) for array in (source.split.inputs, source.split.labels))

    def tokens(chosen: tf.Tensor, *_: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        rows = tf.gather(inputs, chosen)[:, -(source.length or 0) :]
        return tf.cast(rows, tf.int32), tf.gather(labels, chosen)

    def images(chosen: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, flips: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        height, width = inputs.shape[1:3]
        padded = tf.pad(tf.gather(inputs, chosen), ((0, 0), (PAD, PAD), (PAD, PAD), (0, 0)))
        row = rows[:, None] + tf.range(height)
        column = columns[:, None] + tf.where(flips[:, None], tf.range(width - 1, -1, -1), tf.range(width))
        cropped = tf.gather(padded, row, axis=1, batch_dims=1)
        return tf.gather(cropped, column, axis=2, batch_dims=1), tf.gather(labels, chosen)

    return images if inputs.shape.rank == 4 else tokens

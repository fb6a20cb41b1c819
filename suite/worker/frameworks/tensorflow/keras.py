"""Keras on TensorFlow: what differs between the backends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from suite.plan.cell import Cell
from suite.worker.frameworks import keras
from suite.worker.frameworks.keras import DISTRIBUTIONS, draws, explain_step, updates
from suite.worker.frameworks.tensorflow import training as tensorflow
from suite.worker.frameworks.tensorflow.device import place, synchronise
from suite.worker.frameworks.tensorflow.evidence import programs_kept, read_program

__all__ = (
    "DISTRIBUTIONS", "Training", "applied", "draws", "explain_step", "on_host", "prepare", "programs_kept", "updates",
)  # fmt: skip


def prepare(cell: Cell, device: str, seed: int) -> dict[str, Any]:
    """Set Keras' global switches; the settings that it adds."""
    del device
    return keras.prepare(cell, seed, "tensorflow")


@contextmanager
def on_host() -> Iterator[None]:
    """A context in which a `Training` on ``cpu`` computes there, in float64 if its cell asks for it."""
    with tf.device("/CPU:0"), keras.in_float64():
        yield


class Training(keras.Training):
    """A Keras model with its optimizer, and the step that is measured."""

    def __init__(
        self, cell: Cell, spec: Any, module: Any, weights: Any, device: str, *, seed: int = 0, **options: Any
    ) -> None:
        del seed  # dropout draws from the global seed, which `prepare` sets
        with tf.device(place(device)):
            super().__init__(
                cell, spec, module, weights, device, numbers=tensorflow.NUMBERS[cell.precision], dense=_dense, **options
            )

    put, get = tensorflow.Training.put, tensorflow.Training.get

    def fence(self, pending: Any = None) -> None:
        """Wait until the device has finished all pending work."""
        if pending is not None:
            synchronise(self.device)


def _dense(gradient: tf.Tensor | tf.IndexedSlices) -> tf.Tensor:
    return tf.convert_to_tensor(gradient)


def applied(training: Training, batch: Any) -> dict[str, Any]:
    """The settings of a cell that Keras and TensorFlow apply, read back from what ran."""
    del batch
    running = context.context()
    steps = [running.get_function_def(name) for name in running.list_function_names() if "one_step_on_data" in name]
    return read_program(training, steps, [node for each in steps for node in each.node_def]) | keras.applied(training)

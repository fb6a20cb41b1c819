"""Keras on JAX: what differs between the backends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

from suite.plan.cell import Cell
from suite.worker.frameworks import keras
from suite.worker.frameworks.jax import evidence as jax_evidence
from suite.worker.frameworks.jax import training as native
from suite.worker.frameworks.jax.evidence import programs_kept, read_process
from suite.worker.frameworks.keras import DISTRIBUTIONS, draws, explain_step, updates

__all__ = (
    "DISTRIBUTIONS", "Training", "applied", "draws", "explain_step", "on_host", "prepare", "programs_kept", "updates",
)  # fmt: skip


def prepare(cell: Cell, device: str, seed: int) -> dict[str, Any]:
    """Set Keras' global switches; the settings that it adds."""
    del device
    return keras.prepare(cell, seed, "jax")


@contextmanager
def on_host() -> Iterator[None]:
    """A context in which a `Training` on ``cpu`` computes there, in float64 if its cell asks for it."""
    with jax_evidence.on_host(), keras.in_float64():
        yield


class Training(keras.Training):
    """A Keras model with its optimizer, and the step that is measured."""

    def __init__(self, cell: Cell, *arguments: Any, seed: int = 0, **options: Any) -> None:
        del seed  # dropout draws from the global seed, which `prepare` sets
        super().__init__(cell, *arguments, numbers=native.NUMBERS[cell.precision], dense=_dense, **options)

    def put(self, batch: tuple[Any, Any]) -> Any:
        """The batch on the default device, and not bound to it: what is bound would have the second step compile."""
        return jax.device_put(batch)

    get = native.Training.get

    def fence(self, pending: Any = None) -> None:
        """Wait until the device has finished all pending work."""
        jax.block_until_ready([pending, *(variable.value for variable in self.model.variables)])


def _dense(gradient: jax.Array) -> jax.Array:
    return gradient


def applied(training: Training, batch: Any) -> dict[str, Any]:
    """The settings of a cell that Keras and JAX apply, read back from what ran."""
    del batch
    return read_process(training, hasattr(training.model.train_function, "lower")) | keras.applied(training)

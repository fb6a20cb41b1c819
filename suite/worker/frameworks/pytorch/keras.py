"""Keras on PyTorch: what differs between the backends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras as library
import torch
from torch._dynamo.utils import counters

from suite.plan.cell import Cell
from suite.worker.frameworks import keras
from suite.worker.frameworks.keras import DISTRIBUTIONS, draws, explain_step, updates
from suite.worker.frameworks.pytorch import training as pytorch
from suite.worker.frameworks.pytorch.evidence import programs_kept, read_process

__all__ = (
    "DISTRIBUTIONS", "Training", "applied", "draws", "explain_step", "on_host", "prepare", "programs_kept", "updates",
)  # fmt: skip


def prepare(cell: Cell, device: str, seed: int) -> dict[str, Any]:
    """Set Keras' global switches; the settings that it adds."""
    del device  # Keras puts its variables on a GPU where PyTorch sees one
    return keras.prepare(cell, seed, "torch")


@contextmanager
def on_host() -> Iterator[None]:
    """A context in which a `Training` on ``cpu`` computes there, in float64 if its cell asks for it."""
    with library.device("cpu"), keras.in_float64():
        yield


class Training(keras.Training):
    """A Keras model with its optimizer, and the step that is measured."""

    def __init__(self, cell: Cell, *arguments: Any, seed: int = 0, **options: Any) -> None:
        del seed  # dropout draws from the global seed, which `prepare` sets
        super().__init__(cell, *arguments, numbers=pytorch.NUMBERS[cell.precision], dense=_dense, **options)

    put, get, fence = pytorch.Training.put, pytorch.Training.get, pytorch.Training.fence

    def count_compiled(self) -> dict[str, int]:
        """The number of compiled graphs and of graph breaks so far; an eager step is none, and Python runs each."""
        return {"graphs": counters["stats"]["unique_graphs"], "graph_breaks": sum(counters["graph_break"].values())}


def _dense(gradient: torch.Tensor) -> torch.Tensor:
    return gradient


def applied(training: Training, batch: Any) -> dict[str, Any]:
    """The settings of a cell that Keras and PyTorch apply, read back from what ran."""
    del batch
    return read_process(training) | keras.applied(training)

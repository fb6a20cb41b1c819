"""Lightning, as its users drive it: a `LightningModule`, whose steps the loop of `Trainer.fit` takes.

Model, loss, optimizer and batches are those of the suite's own loop. Each timed window is one `fit` of an epoch of as
many steps as the window has, since Lightning has no other loop.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from lightning.pytorch import LightningModule, Trainer
from torch import Tensor

from suite.plan.cell import Cell
from suite.worker.frameworks import check_batch
from suite.worker.frameworks.pytorch import training as pytorch
from suite.worker.frameworks.pytorch.evidence import applied, compile_cache, draws, on_host, updates
from suite.worker.interfaces import LEAST_EPOCH_S
from workloads.data.dataset import Array

__all__ = (
    "DISTRIBUTIONS",
    "Training",
    "applied",
    "compile_cache",
    "draws",
    "explain_step",
    "on_host",
    "updates",
)  # fmt: skip

DISTRIBUTIONS = ("lightning",)

#: Lightning's names of the precisions.
PRECISIONS = {"fp32": "32-true", "tf32": "32-true", "bf16": "bf16-mixed", "fp64": "64-true"}


class Module(LightningModule):
    """What a user of Lightning writes: the loss of a batch, and the optimizer."""

    def __init__(self, training: Training) -> None:
        super().__init__()
        self.model, self.loss, self.optimizer = training.model, training.loss, training.optimizer
        self.last: Tensor | None = None

    def training_step(self, batch: Any, number: int) -> Tensor:
        del number
        loss: Tensor = self.loss(self.model, *batch)
        self.last = loss.detach()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.optimizer


class Training(pytorch.Training):
    #: Seconds of the shortest window that says something: each one is an epoch, which has a start.
    least_window_s = LEAST_EPOCH_S

    def __init__(self, cell: Cell, *arguments: Any, **options: Any) -> None:
        super().__init__(cell, *arguments, **options)
        self.user_module = Module(self)

    def step(self, batch: Any) -> Tensor:
        check_batch(self.cell, len(batch[1]))
        return self.run(iter([batch]), 1)

    def run(self, batches: Iterator[Any], count: int) -> Tensor:
        """Make ``count`` updates in one `fit`; returns the last loss, still on the device."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few workers, and of a loader that does not say how long it is
            trainer = Trainer(
                accelerator="gpu" if self.device == "cuda" else "cpu", devices=1, max_epochs=1, logger=False,
                precision=PRECISIONS[self.cell.precision], enable_checkpointing=False, enable_progress_bar=False,
                enable_model_summary=False, use_distributed_sampler=False,
            )  # fmt: skip
            trainer.fit(self.user_module, train_dataloaders=_Epoch(batches, count))
        self.model.to(self.device)  # Lightning leaves it on the host
        assert self.user_module.last is not None
        return self.user_module.last


class _Epoch:
    """The next batches of a loader, as often as Lightning asks for an iterator: once."""

    def __init__(self, batches: Iterator[Any], count: int) -> None:
        self.batches, self.count = batches, count

    def __iter__(self) -> Iterator[Any]:
        return islice(self.batches, self.count)


def explain_step(training: Training, batch: Any) -> tuple[float, dict[str, Array]]:
    loss = training.step(batch)
    return float(loss), training.weights("grad")  # which Lightning leaves until the next step

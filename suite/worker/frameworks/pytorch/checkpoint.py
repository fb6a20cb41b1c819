"""How PyTorch saves a training: `torch.save`, or `torch.distributed.checkpoint.async_save`, whose thread goes on.

As PyTorch's own documentation has it ("Saving and loading a general checkpoint"): the state dictionaries of the model
and the optimizer, that of the loss scale, the number of steps, and the state of the generator that dropout draws from.
"""

from __future__ import annotations

import warnings
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp

#: What the phases save by.
WAYS = {"checkpoint": "torch.save", "checkpoint_async": "torch.distributed.checkpoint.async_save"}
#: The file of what all ranks share, and that of a rank's own.
SHARED, OWN = "training.pt", "random.pt"


class Saver:
    """Saves a `Training`, and gives it back. Of several ranks, the first saves what all share; each its own draws."""

    def __init__(self, training: Any, name: str, rank: int = 0) -> None:
        self.training, self.way, self.rank = training, WAYS[name], rank
        self.asynchronous = name == "checkpoint_async"
        self.pending: Future[Any] | None = None
        if self.asynchronous:  # for as long as its thread runs
            warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)

    def state(self) -> dict[str, Any]:
        """What a checkpoint has: what the next step depends on besides its batch."""
        training = self.training
        scaler = {"scaler": training.scaler.state_dict()} if training.scaler else {}
        held = {"model": training.model.state_dict(), "optimizer": training.optimizer.state_dict(), **scaler}
        return held | {"steps": training.steps} | (self._draws() if self.asynchronous else {})

    def save(self, folder: Path) -> None:
        """Begin a save, to a folder that is not there yet; training may go on when it returns."""
        folder.mkdir(parents=True)
        if self.asynchronous:
            self.pending = dcp.async_save(self.state(), checkpoint_id=folder, no_dist=True)
            return
        if not self.rank:
            torch.save(self.state(), folder / SHARED)
        torch.save(self._draws(), folder / OWN)

    def wait(self) -> None:
        """Wait until it is whole."""
        if self.pending:
            self.pending.result()
        self.pending = None

    def restore(self, shared: Path, own: Path) -> None:
        """Give back what was saved: the folder of the first rank, and this one's own."""
        training = self.training
        if self.asynchronous:
            state = self.state()
            dcp.load(state, checkpoint_id=shared, no_dist=True)
        else:
            state = torch.load(shared / SHARED, map_location=training.device, weights_only=True)
            state |= torch.load(own / OWN, weights_only=True)
        training.model.load_state_dict(state["model"])
        training.optimizer.load_state_dict(state["optimizer"])
        if training.scaler:
            training.scaler.load_state_dict(state["scaler"])
        training.steps = state["steps"]
        torch.set_rng_state(state["random"])
        if training.device == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"])

    def close(self) -> None:
        self.wait()

    def _draws(self) -> dict[str, Any]:
        on_gpu = {"random_cuda": torch.cuda.get_rng_state()} if self.training.device == "cuda" else {}
        return {"random": torch.get_rng_state(), **on_gpu}

"""What PyTorch's `Training` shows of itself for the evidence in a record; nothing here is timed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from suite.worker.evidence.owners import once, part
from suite.worker.frameworks.pytorch.proof import calls, parameters_by_layer  # noqa: F401 - for the spread at each layer
from workloads.data.dataset import Array


def on_host() -> AbstractContextManager[Any]:
    """A context in which a `Training` on ``cpu`` computes there, in float64 if its cell asks for it."""
    return nullcontext()  # tensors say so themselves


@contextmanager
def programs_kept(folder: str, how: str) -> Iterator[None]:
    """A context in which compiled programs are kept in the folder and taken from there."""
    del how  # what is small runs eagerly, and no program depends on where it is kept
    places = {"TORCHINDUCTOR_CACHE_DIR": Path(folder, "inductor"), "TRITON_CACHE_DIR": Path(folder, "triton")}
    previous = {name: os.environ.get(name) for name in places}
    try:
        os.environ.update({name: str(place) for name, place in places.items()})  # read at every compilation
        yield
    finally:
        for name, value in previous.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def without_dropout(training: Any) -> None:
    """Train without dropout from now on."""
    for module in training.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0


def explain_step(training: Any, batch: Any) -> tuple[float, dict[str, Array]]:
    """One update as `Training.step` makes it; returns the loss before it and its gradient, in canonical layout."""
    losses = training.backward(batch)
    scale = training.scaler.get_scale() if training.scaler else 1.0
    gradients: dict[str, Array] = {name: each / scale for name, each in training.weights("grad").items()}
    training.update()
    return sum(training.read(losses)), gradients


def updates(training: Any) -> int | None:
    """How many steps the optimizer of a `Training` has counted itself; None where it keeps no count, as SGD."""
    counts = [int(state["step"]) for state in training.optimizer.state.values() if "step" in state]
    return min(counts, default=None)


def draws(training: Any, batch: Any, count: int) -> tuple[Array, dict[str, Array]]:
    """The logits of ``count`` forward passes in training mode, each with new dropout masks: (count, b, classes).

    And the input of each layer that is called once, of as many samples as `part` takes.
    """
    logits, inputs = [], []
    for _ in range(count):
        with calls(training, of=lambda x: part(x).float().cpu().numpy() if isinstance(x, Tensor) else None) as called:
            logits.append(training.logits(batch))  # the model is in training mode
        inputs.append(once(called))
    return np.stack(logits), {path: np.stack([each[path] for each in inputs]) for path in inputs[0]}


def seed_draws(seed: int) -> None:
    """Start the generator that dropout draws from anew."""
    torch.manual_seed(seed)


def count_kept_bytes(training: Any, batch: Any) -> int:
    """Bytes that a forward pass keeps for the backward pass, besides weights, statistics and the batch."""
    saved: list[Tensor] = []  # which also keeps them alive, so that no two have the same place

    def keep(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        training._forward(*batch)
    known = [*training.model.parameters(), *training.model.buffers(), *batch]
    sizes = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in saved}
    for tensor in known:
        sizes.pop(tensor.untyped_storage().data_ptr(), None)
    return sum(sizes.values())

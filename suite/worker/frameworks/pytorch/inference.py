"""How a trained model of PyTorch serves from Python: in evaluation mode, under `inference_mode`, compiled as training.

The usual way by PyTorch's own documentation ("Autograd mechanics", on locally disabling gradient computation).
"""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.utils import counters

from suite.worker.frameworks.pytorch.training import COMPILE_MODES, _autocast
from workloads.data.dataset import Array

#: Answers of a window that must be waited for: a device computes them one after the other.
PENDING = 1
#: Whether the framework's peak of memory can be forgotten, so that the next one is inference's own.
FORGETS_PEAKS = True


class Model:
    """The model of a `Training` in evaluation mode, and the function that is measured; `close` gives it back."""

    def __init__(self, training: Any) -> None:
        self.device, self.model = training.device, training.model.eval()
        mode = COMPILE_MODES[training.cell.compile]
        self.forward = torch.compile(self.model, fullgraph=True, dynamic=False, mode=mode) if mode else self.model
        self.copies = training.cell.compile == "max"  # the next replay of a CUDA graph overwrites an answer
        context = _autocast(training.cell, training.device)
        self.autocast = context if context._enabled else None
        self.last: Any = None

    @torch.inference_mode()
    def predict(self, inputs: Tensor) -> Tensor:
        """The logits of inputs that are on the device, still there."""
        if self.autocast:
            with self.autocast:
                logits = self.forward(inputs)
        else:
            logits = self.forward(inputs)
        return logits.clone() if self.copies else logits

    def answer(self, inputs: Array) -> Array:
        """A request: inputs from the host, their logits back on it, as they are of use there."""
        logits = self.predict(torch.from_numpy(inputs).to(self.device))
        self.last = logits
        return (logits.float() if self.autocast else logits).cpu().numpy()

    def fence(self, pending: deque[Tensor]) -> None:
        """Wait until the device has computed these answers."""
        if self.device == "cuda" and pending:
            torch.cuda.synchronize()

    def on_host(self, logits: Tensor) -> Array:
        """Answers of `predict`, on the host."""
        return logits.float().cpu().numpy() if self.autocast else logits.cpu().numpy()

    def compiled(self) -> int:
        """The number of programs that were compiled so far."""
        return int(counters["stats"]["unique_graphs"])

    def keeps_gradient(self, inputs: Array) -> bool:
        """Whether the last request's answer can be differentiated, so that its pass kept what that needs."""
        del inputs
        return self.last is not None and self.last.requires_grad

    def close(self) -> None:
        """Give the model back for training."""
        self.model.train()

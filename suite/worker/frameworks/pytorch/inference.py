"""How a trained model of PyTorch serves from Python: in evaluation mode, under `inference_mode`, compiled as training.

The usual way by PyTorch's own documentation ("Autograd mechanics", on locally disabling gradient computation). A
workload whose answers are not the model's output has a function `answers`.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.utils import counters

from suite.worker.frameworks.pytorch.training import COMPILE_MODES, _autocast
from workloads.data.dataset import Array

Decoding = tuple[Tensor, list[Tensor], int | Tensor]

#: Answers of a window that must be waited for: a device computes them one after the other.
PENDING = 1
#: Types that NumPy has not, or that logits on a host are not expected in.
NARROW = (torch.bfloat16, torch.float16)
#: Whether the framework's peak of memory can be forgotten, so that the next one is inference's own.
FORGETS_PEAKS = True


class Model:
    """The model of a `Training` in evaluation mode, and the function that is measured; `close` gives it back."""

    def __init__(self, training: Any) -> None:
        self.device, self.model = training.device, training.model.eval()
        mode = COMPILE_MODES[training.cell.compile]
        answers = getattr(training.module, "answers", None)
        forward = partial(answers, self.model) if answers else self.model
        self.forward = torch.compile(forward, fullgraph=True, dynamic=False, mode=mode) if mode else forward
        self.compiles = mode is not None
        self.copies = training.cell.compile == "max"  # the next replay of a CUDA graph overwrites an answer
        self.module = training.module
        self.last: Any = None
        self.prefilled: Any
        self.decoded: Any
        self.prefilled, self.decoded = (
            torch.compile(each, fullgraph=True, dynamic=False, mode=mode) if mode else each
            for each in (self._prefill, self._decode)
        )
        # Until `close`, so that weights, which do not change, are cast once and not in every pass.
        self.autocast = _autocast(training.cell, training.device)
        self.autocast.__enter__()

    @torch.inference_mode()
    def predict(self, inputs: Tensor) -> Tensor:
        """The logits of inputs that are on the device, still there."""
        logits = self.forward(inputs)
        return logits.clone() if self.copies else logits

    def answer(self, inputs: Array) -> Array:
        """A request: inputs from the host, their logits back on it, as they are of use there."""
        self.last = self.predict(torch.from_numpy(inputs).to(self.device))
        return self.on_host(self.last)

    @torch.inference_mode()
    def prefill(self, inputs: Tensor) -> Decoding:
        """The pass over prompts (b, n) that are on the device, which leaves all that the next words depend on."""
        logits, caches, at = self.prefilled(inputs)
        if self.copies:
            return logits.clone(), [cache.clone() for cache in caches], at.clone()
        return logits, caches, at

    @torch.inference_mode()
    def decode(self, state: Decoding) -> tuple[Tensor, Decoding]:
        """The next word of each prompt, (b,), by the largest logit, and what those after it depend on."""
        words, logits, at = self.decoded(*state)
        if self.copies:
            words, logits, at = words.clone(), logits.clone(), at.clone()
        return words, (logits, state[1], at)  # the caches were changed

    def _prefill(self, inputs: Tensor) -> Decoding:
        at = inputs.shape[1]
        if self.compiles:  # one program for all words
            at = torch.full((1,), at, device=inputs.device)
        return *self.module.prefill(self.model, inputs), at

    def _decode(self, logits: Tensor, caches: list[Tensor], at: int | Tensor) -> tuple[Tensor, Tensor, int | Tensor]:
        words = logits.argmax(-1)
        logits, _ = self.module.decode(self.model, words, caches, at)
        return words, logits, at + 1

    def fence(self, pending: deque[Tensor]) -> None:
        """Wait until the device has computed these answers."""
        if self.device == "cuda" and pending:
            torch.cuda.synchronize()

    def on_host(self, logits: Tensor) -> Array:
        """Answers of `predict`, on the host."""
        return (logits.float() if logits.dtype in NARROW else logits).cpu().numpy()

    def count_compiled(self) -> int:
        """The number of programs that were compiled so far."""
        return int(counters["stats"]["unique_graphs"])

    def keeps_gradient(self, inputs: Array) -> bool:
        """Whether the last request's answer can be differentiated, so that its pass kept what that needs."""
        del inputs
        return self.last is not None and self.last.requires_grad

    def close(self) -> None:
        """Give the model back for training."""
        self.autocast.__exit__(None, None, None)
        self.model.train()

"""`imdb_lstm` in PyTorch: `nn.LSTM`, which is cuDNN's on CUDA.

`nn.LSTM` has two biases whose gradients are equal, so that training both would move their sum twice as fast as the
one bias of the others. The second stays at zero and takes no gradient.

In bf16 on CUDA the layer gets bfloat16 by hand: autocast casts cuDNN's recurrent layers to float16, whatever type it is
asked for (`aten/src/ATen/cudnn/AutocastRNN.cpp`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from workloads.defaults.pytorch import binary_loss as loss
from workloads.defaults.pytorch import binary_scores as scores
from workloads.defaults.pytorch import export_weights, import_weights
from workloads.imdb_lstm.spec import VOCABULARY, LstmSpec
from workloads.spec import Numbers

__all__ = ("Lstm", "build", "export_weights", "import_weights", "kernels", "loss", "scores", "stages")


class Lstm(nn.Module):
    """int32 tokens (batch, length) to logits (batch,)."""

    def __init__(self, spec: LstmSpec, dtype: torch.dtype) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, spec.embedding, dtype=dtype)
        self.lstm = nn.LSTM(spec.embedding, spec.units, batch_first=True, dtype=dtype)
        self.logits = nn.Linear(spec.units, 1, dtype=dtype)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.classify(self.embedding(tokens))

    def classify(self, words: Tensor) -> Tensor:
        """The logits from the words, (batch, length, embedding)."""
        bfloat16 = torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") is torch.bfloat16
        if words.is_cuda and bfloat16:
            return self.logits(self.state_in_bfloat16(words)).squeeze(1)
        _, (state, _) = self.lstm(words)
        return self.logits(state[-1]).squeeze(1)

    def state_in_bfloat16(self, words: Tensor) -> Tensor:
        """The state after the last of the words, (batch, length, embedding) to (batch, units), by bfloat16 weights."""
        with torch.autocast(words.device.type, enabled=False):
            weights = [weight.bfloat16() for weight in self.lstm._flat_weights]
            start = words.new_zeros((1, len(words), self.lstm.hidden_size), dtype=torch.bfloat16)
            # Biases, layers, dropout, training, both ways, batch first.
            settings = (True, 1, 0.0, self.training, False, True)
            _, state, _ = torch._VF.lstm(words.bfloat16(), (start, start), weights, *settings)
        return state[-1]


def build(spec: LstmSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto") -> Lstm:
    """The model in training mode, its weights not yet set; it has no dropout to switch off."""
    return Lstm(spec, getattr(torch, numbers.weights)).to(device)


def stages(model: Lstm) -> list[tuple[list[nn.Module], Callable[[Tensor], Tensor]]]:
    """Two stages, the layers of each and what it computes: the embedding, which has most weights, and the rest."""
    return [([model.embedding], model.embedding.forward), ([model.lstm, model.logits], model.classify)]


def kernels(spec: LstmSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    """Which implementation of a layer runs, where there is a choice."""
    if kernel == "auto":
        kernel = "cudnn" if device == "cuda" else "scan"
    if kernel == "cudnn" and numbers.compute == "bfloat16":  # as `use_cudnn` in ATen's RNN.cpp decides (PR 164411)
        new = device == "cuda" and (torch.backends.cudnn.version() or 0) >= 91300
        kernel = "cudnn" if new and torch.cuda.get_device_capability() >= (8, 0) else "scan"
    # Without cuDNN, PyTorch takes oneDNN's LSTM on a CPU and a loop of its own elsewhere.
    return {"lstm": "onednn" if kernel == "scan" and device == "cpu" else kernel}

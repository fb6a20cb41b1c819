"""`imdb_lstm` in PyTorch: `nn.LSTM`, which is cuDNN's on CUDA.

`nn.LSTM` has two biases whose gradients are equal, so that training both would move their sum twice as fast as the
one bias of the others. The second stays at zero and takes no gradient.

In bf16 on CUDA the layer gets bfloat16 by hand: autocast casts cuDNN's recurrent layers to float16, whatever type it is
asked for (`aten/src/ATen/cudnn/AutocastRNN.cpp`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.data.dataset import Array
from workloads.imdb_lstm.spec import VOCABULARY, LstmSpec
from workloads.spec import Numbers


class Lstm(nn.Module):
    """int32 tokens (batch, length) to logits (batch,)."""

    def __init__(self, spec: LstmSpec, dtype: torch.dtype) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, spec.embedding, dtype=dtype)
        self.lstm = nn.LSTM(spec.embedding, spec.units, batch_first=True, dtype=dtype)
        self.lstm.bias_hh_l0.requires_grad_(False).zero_()
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


def loss(model: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
    """Binary cross entropy of int32 tokens (b, length) and int32 labels (b,), averaged over the batch."""
    logits = model(tokens)
    return F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))


def scores(model: nn.Module, tokens: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Of every sample the loss (b,), and whether the logit's sign is the label's (b,); of a model in evaluation."""
    logits = model(tokens)
    losses = F.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="none")
    return losses, (logits > 0) == (labels > 0)


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


def import_weights(model: Lstm, weights: dict[str, Array]) -> None:
    """Set every tensor from canonical weights."""
    with torch.no_grad():
        for name, (parameter, layout) in _tensors(model).items():
            parameter.copy_(torch.from_numpy(weights[name].transpose(layout)))


def export_weights(model: Lstm, of: str = "data") -> dict[str, Array]:
    """A copy of every tensor (or, with ``of="grad"``, of its gradient) in canonical layout, on the host."""
    exported = {}
    for name, (parameter, layout) in _tensors(model).items():
        array = getattr(parameter, of).detach().cpu().numpy()
        exported[name] = array.transpose([layout.index(axis) for axis in range(array.ndim)]).copy()
    return exported


def _tensors(model: Lstm) -> dict[str, tuple[nn.Parameter, list[int]]]:
    """Canonical name to parameter, and the canonical axes in the parameter's order."""
    return {
        "embedding/table": (model.embedding.weight, [0, 1]),
        "lstm/kernel": (model.lstm.weight_ih_l0, [1, 0]),
        "lstm/recurrent": (model.lstm.weight_hh_l0, [1, 0]),
        "lstm/bias": (model.lstm.bias_ih_l0, [0]),
        "logits/kernel": (model.logits.weight, [1, 0]),
        "logits/bias": (model.logits.bias, [0]),
    }

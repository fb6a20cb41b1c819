"""`imdb_transformer` in PyTorch: `scaled_dot_product_attention`, whose fused kernels take a mask.

Under autocast the sum that runs through all blocks stays in float32, as both other files have it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from workloads.defaults.pytorch import binary_loss as loss
from workloads.defaults.pytorch import binary_scores as scores
from workloads.defaults.pytorch import export_weights, import_weights, recompute
from workloads.imdb_transformer.spec import EPSILON, PADDING, VOCABULARY, TransformerSpec
from workloads.spec import Numbers, UnavailableKernelError, WorkloadSpec

__all__ = (
    "Transformer", "allow_fused_alone", "build", "export_weights", "import_weights", "kernels", "loss",
    "plain_attention", "scores",
)  # fmt: skip

#: What may run as the fused kernel: never PyTorch's own plain formula, which it would else fall back to in silence.
FUSED = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]


class Block(nn.Module):
    """Adds to ``x`` (batch, positions, width) what words learn from each other, then what each learns by itself."""

    def __init__(self, spec: TransformerSpec, dropout: bool, dtype: torch.dtype, kernel: str) -> None:
        super().__init__()
        self.heads, self.kernel = spec.heads, kernel
        self.norm1 = nn.LayerNorm(spec.width, EPSILON, dtype=dtype)
        self.attention = nn.Linear(spec.width, 3 * spec.width, bias=False, dtype=dtype)
        self.projection = nn.Linear(spec.width, spec.width, dtype=dtype)
        self.norm2 = nn.LayerNorm(spec.width, EPSILON, dtype=dtype)
        self.hidden = nn.Linear(spec.width, spec.hidden, dtype=dtype)
        self.output = nn.Linear(spec.hidden, spec.width, dtype=dtype)
        self.dropout = nn.Dropout(spec.dropout if dropout else 0)

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        x = x + self.dropout(self.projection(self.attend(self.attention(self.norm1(x)), words)))
        return x + self.dropout(self.output(F.gelu(self.hidden(self.norm2(x)))))

    def attend(self, projected: Tensor, words: Tensor) -> Tensor:
        """Attention over (batch, positions, 3 * width), whose keys are the ``words`` (batch, 1, 1, positions)."""
        batch, positions, _ = projected.shape
        parts = projected.chunk(3, -1)
        query, key, value = (part.view(batch, positions, self.heads, -1).transpose(1, 2) for part in parts)
        if self.kernel == "fused":
            attended = F.scaled_dot_product_attention(query, key, value, attn_mask=words)
        else:
            attended = plain_attention(query, key, value, words)
        return attended.transpose(1, 2).reshape(batch, positions, -1)


class Transformer(nn.Module):
    """int32 tokens (batch, length) to logits (batch,)."""

    def __init__(
        self, spec: TransformerSpec, dropout: bool, dtype: torch.dtype, kernel: str, checkpointing: bool = False
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, spec.width, dtype=dtype)
        self.positions, self.positions_at = nn.Embedding(spec.positions, spec.width, dtype=dtype), spec.positions_at
        self.dropout = nn.Dropout(spec.dropout if dropout else 0)
        self.blocks = nn.ModuleList(Block(spec, dropout, dtype, kernel) for _ in spec.blocks)
        self.within = partial(allow_fused_alone, kernel)
        again = partial(recompute, draws=dropout, within=self.within)
        self.canonical_names = {
            f"blocks.{n}.{layer}": f"block{n + 1}_{layer}"
            for n, block in enumerate(self.blocks) for layer, _ in block.named_children()
        }  # fmt: skip
        self.checkpointed = [again(block) for block in self.blocks] if checkpointing else []
        self.norm = nn.LayerNorm(spec.width, EPSILON, dtype=dtype)
        self.logits = nn.Linear(spec.width, 1, dtype=dtype)

    def forward(self, tokens: Tensor) -> Tensor:
        positions, places = self.positions_at(tokens.shape[1]), self.positions.weight
        if positions != len(places):  # of a slice, the gradient would be a copy
            places = places[:positions]
        tokens, words = move_to_front(tokens, positions)
        x = self.dropout(self.words(tokens) + places)
        with self.within():
            for block in self.checkpointed or self.blocks:
                x = block(x, words[:, None, None])
        counted = words[:, :, None].to(x.dtype)
        mean = (self.norm(x) * counted).sum(1) / counted.sum(1)
        return self.logits(mean).squeeze(1)


def allow_fused_alone(kernel: str) -> AbstractContextManager[None]:
    """What all blocks run within: with the fused kernel, PyTorch's own formula is forbidden."""
    return sdpa_kernel(FUSED) if kernel == "fused" else nullcontext()


def move_to_front(tokens: Tensor, positions: int) -> tuple[Tensor, Tensor]:
    """The words of (batch, length) moved to the front of so many positions, and where there are words: bool.

    A review without any has one, the padding.
    """
    length = tokens.shape[1]
    count = (tokens != PADDING).sum(1, keepdim=True).clamp(min=1)
    place = torch.arange(positions, device=tokens.device)
    return tokens.gather(1, (place + (length - count)).clamp(max=length - 1)), place < count


def plain_attention(query: Tensor, key: Tensor, value: Tensor, words: Tensor | None) -> Tensor:
    """The formula, for (batch, heads, positions, head width), to all keys or ``words``; softmax in float32 at least."""
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = ((query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)).to(wide)
    if words is not None:
        scores = scores.masked_fill(~words, float("-inf"))
    return scores.softmax(-1).to(query.dtype) @ value


def build(
    spec: TransformerSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    checkpointing: bool = False,
) -> Transformer:  # fmt: skip
    """The model in training mode, its weights not yet set."""
    chosen = kernels(spec, numbers, device, kernel)["attention"]
    return Transformer(spec, dropout, getattr(torch, numbers.weights), chosen, checkpointing).to(device)


def kernels(spec: WorkloadSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    """Which implementation of a layer runs, where there is a choice. Raises `UnavailableKernelError`."""
    if device == "cuda" and numbers.compute == "float64":
        if kernel == "fused":
            raise UnavailableKernelError("PyTorch has no fused attention in float64 on CUDA; use plain")
        kernel = "plain"
    return {"attention": "fused" if kernel == "auto" else kernel}

"""`gpt_small` in PyTorch: `scaled_dot_product_attention`, whose fused kernels know the causal mask.

Under autocast the sum that runs through all blocks stays in float32, as both other files have it.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workloads.defaults.pytorch import export_weights, import_weights, recompute
from workloads.gpt_small.spec import EPSILON, IGNORED, VOCABULARY, GptSpec
from workloads.imdb_transformer.pytorch import allow_fused_alone, kernels, plain_attention
from workloads.spec import Numbers

__all__ = (
    "Gpt", "answers", "build", "decode", "export_weights", "import_weights", "kernels", "loss", "prefill", "scores",
)  # fmt: skip


class Block(nn.Module):
    """Adds to ``x`` (batch, positions, width) what words learn from those before them, then what each learns by itself.

    A ``cache`` (2, batch, heads, length, head width) gets their keys and values from the place ``at`` on, 0 for a
    prompt; ``x`` is one word behind those that the cache has elsewhere. Where ``at`` is a number, it attends to these
    alone. As a tensor (1,), so that one compiled program serves all words, it comes with ``before`` (1, length), which
    says which places these are and its own.
    """

    def __init__(self, spec: GptSpec, dtype: torch.dtype, kernel: str) -> None:
        super().__init__()
        self.heads, self.kernel = spec.heads, kernel
        self.norm1 = nn.LayerNorm(spec.width, EPSILON, bias=False, dtype=dtype)
        self.attention = nn.Linear(spec.width, 3 * spec.width, bias=False, dtype=dtype)
        self.projection = nn.Linear(spec.width, spec.width, bias=False, dtype=dtype)
        self.norm2 = nn.LayerNorm(spec.width, EPSILON, bias=False, dtype=dtype)
        self.hidden = nn.Linear(spec.width, spec.hidden, bias=False, dtype=dtype)
        self.output = nn.Linear(spec.hidden, spec.width, bias=False, dtype=dtype)

    def forward(
        self, x: Tensor, cache: Tensor | None = None, at: int | Tensor = 0, before: Tensor | None = None
    ) -> Tensor:
        x = x + self.projection(self.attend(self.attention(self.norm1(x)), cache, at, before))
        return x + self.output(F.gelu(self.hidden(self.norm2(x))))

    def attend(self, projected: Tensor, cache: Tensor | None, at: int | Tensor, before: Tensor | None) -> Tensor:
        """Attention over (batch, positions, 3 * width), from each position to itself and those before it."""
        batch, positions, _ = projected.shape
        parts = projected.chunk(3, -1)
        query, key, value = (part.view(batch, positions, self.heads, -1).transpose(1, 2) for part in parts)
        if cache is not None and isinstance(at, Tensor):
            key, value = cache[0].index_copy_(2, at, key), cache[1].index_copy_(2, at, value)
        elif cache is not None:
            seen = at + positions
            cache[0, :, :, at:seen], cache[1, :, :, at:seen] = key, value
            if at:
                key, value = cache[:, :, :, :seen]
        one = positions == 1  # attends to all that there is
        if self.kernel == "fused":
            attended = F.scaled_dot_product_attention(query, key, value, before, is_causal=before is None and not one)
        else:
            if before is None and not one:
                before = torch.ones(positions, positions, dtype=torch.bool, device=query.device).tril()
            attended = plain_attention(query, key, value, before)
        return attended.transpose(1, 2).reshape(batch, positions, -1)


class Gpt(nn.Module):
    """int32 tokens (batch, length) to the logits of the word after each, (batch, length, vocabulary)."""

    def __init__(self, spec: GptSpec, dtype: torch.dtype, kernel: str, checkpointing: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, spec.width, dtype=dtype)
        self.positions = nn.Embedding(spec.length, spec.width, dtype=dtype)
        self.blocks = nn.ModuleList(Block(spec, dtype, kernel) for _ in spec.blocks)
        self.within = partial(allow_fused_alone, kernel)
        again = partial(recompute, draws=False, within=self.within)
        self.canonical_names = {
            f"blocks.{n}.{layer}": f"block{n + 1}_{layer}"
            for n, block in enumerate(self.blocks) for layer, _ in block.named_children()
        }  # fmt: skip
        self.checkpointed = [again(block) for block in self.blocks] if checkpointing else []
        self.norm = nn.LayerNorm(spec.width, EPSILON, bias=False, dtype=dtype)

    def forward(
        self, tokens: Tensor, last: bool = False, caches: list[Tensor] | None = None, at: int | Tensor = 0
    ) -> Tensor:
        places, before = self.positions.weight, None
        if isinstance(at, Tensor):
            before = torch.arange(len(places), device=at.device)[None] <= at
            places = self.positions(at)
        elif caches is not None:
            places = places[at : at + tokens.shape[1]]
        x = self.words(tokens) + places
        with self.within():
            if caches is None:
                for block in self.checkpointed or self.blocks:
                    x = block(x)
            else:
                for block, cache in zip(self.blocks, caches, strict=True):
                    x = block(x, cache, at, before)
        if last:  # the word after the whole window alone, (batch, vocabulary)
            x = x[:, -1]
        return F.linear(self.norm(x), self.words.weight)


def build(
    spec: GptSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    checkpointing: bool = False,
) -> Gpt:  # fmt: skip
    """The model in training mode, its weights not yet set."""
    del dropout  # there is none
    chosen = kernels(spec, numbers, device, kernel)["attention"]
    return Gpt(spec, getattr(torch, numbers.weights), chosen, checkpointing).to(device)


def loss(model: nn.Module, tokens: Tensor, labels: Tensor) -> Tensor:
    """Cross entropy of int32 tokens and the words that follow them, (b, length) each, averaged over all words."""
    return F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten().long())


def scores(model: nn.Module, tokens: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Of every window the mean loss of its words (b,), and the share of them that have the largest logit (b,).

    Words with the label `IGNORED` do not count.
    """
    logits = model(tokens)
    losses = F.cross_entropy(
        logits.flatten(0, 1), labels.flatten().long(), ignore_index=IGNORED, reduction="none"
    ).view(labels.shape)
    count = (labels != IGNORED).sum(1).to(losses.dtype)
    return losses.sum(1) / count, (logits.argmax(-1) == labels).sum(1) / count


def answers(model: nn.Module, tokens: Tensor) -> Tensor:
    """The logits of the word after each window, (b, vocabulary)."""
    return model(tokens, last=True)


def prefill(model: Gpt, tokens: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The logits of the word after tokens (b, n), (b, vocabulary), and the caches of all blocks, for `decode`."""
    weight, heads = model.words.weight, model.blocks[0].heads
    kind = weight.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
    shape = (2, len(tokens), heads, len(model.positions.weight), weight.shape[1] // heads)
    caches = [weight.new_zeros(shape, dtype=dtype) for _ in model.blocks]
    return model(tokens, last=True, caches=caches), caches


def decode(model: Gpt, tokens: Tensor, caches: list[Tensor], at: int | Tensor) -> tuple[Tensor, list[Tensor]]:
    """The same after one more token each, (b,), whose place is ``at``; the caches are changed.

    A number is fastest where nothing is compiled: no mask, and no look at places that have no word yet. A tensor (1,)
    lets one compiled program serve all words.
    """
    return model(tokens[:, None], last=True, caches=caches, at=at), caches

"""Gradient checkpointing in PyTorch, by `torch.utils.checkpoint`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.utils.checkpoint import checkpoint


def recompute(
    block: nn.Module, draws: bool, within: Callable[[], AbstractContextManager[Any]] = nullcontext
) -> Callable[..., Tensor]:
    """The block as a function whose activations the backward pass computes again.

    ``draws`` says whether the block draws random numbers, whose state is then kept and restored. ``within`` is what it
    runs within, which the backward pass has left.
    """

    def forward(*inputs: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return block(*inputs)
        # What torch.compile makes of a block has no side effects, and it takes no contexts of ours.
        options: dict[str, Any] = {} if torch.compiler.is_compiling() else {"context_fn": contexts}
        return checkpoint(block, *inputs, use_reentrant=False, preserve_rng_state=draws, **options)

    def contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        return nullcontext(), _again(block, within())

    return forward


@contextmanager
def _again(block: nn.Module, within: AbstractContextManager[Any]) -> Iterator[None]:
    """What the second pass runs ``within``, where batch normalisation does not move its running statistics.

    The numbers are the same: a momentum of 0 leaves the statistics as they are to the last bit. Without them the layer
    would keep other tensors, which `torch.utils.checkpoint` refuses.
    """
    layers = [layer for layer in block.modules() if isinstance(layer, _NormBase)]
    before = [(layer.momentum, layer.num_batches_tracked) for layer in layers]
    for layer in layers:
        layer.momentum, layer.num_batches_tracked = 0.0, None
    try:
        with within:
            yield
    finally:
        for layer, (momentum, count) in zip(layers, before, strict=True):
            layer.momentum, layer.num_batches_tracked = momentum, count

"""Gradient checkpointing in JAX, by `jax.checkpoint` as flax applies it to a part of a module."""

from __future__ import annotations

from collections.abc import Callable

import flax.linen as nn
import jax

Block = Callable[..., jax.Array]


def recompute(block: Block) -> Block:
    """A function of a module and its inputs, whose activations the backward pass computes again.

    Random keys and statistics are values in flax, so that a second pass has those of the first.
    """
    function: Block = nn.remat(block)
    return function

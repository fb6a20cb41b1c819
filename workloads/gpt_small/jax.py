"""`gpt_small` in JAX: flax modules; cuDNN's fused attention where JAX has it, else the formula, which XLA fuses.

See `workloads/imdb_transformer/jax.py` on both.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax

from workloads.defaults.jax import export_weights, import_weights, recompute, statistics
from workloads.gpt_small.spec import EPSILON, IGNORED, VOCABULARY, GptSpec
from workloads.imdb_transformer.jax import kernels, plain_attention
from workloads.spec import Numbers

__all__ = (
    "Gpt", "answers", "build", "decode", "export_weights", "import_weights", "kernels", "logits", "loss", "prefill",
    "scores", "statistics",
)  # fmt: skip

Tree = dict[str, Any]
Caches = tuple[jax.Array, ...]


class Gpt(nn.Module):
    """int32 tokens (batch, length) to the logits of the word after each, (batch, length, vocabulary)."""

    spec: GptSpec
    numbers: Numbers
    kernel: str
    checkpointing: bool = False

    @nn.compact
    def __call__(self, tokens: jax.Array, last: bool = False, caches: Caches = (), at: jax.Array | None = None) -> Any:
        # The sum that runs through all blocks stays in the weights' type.
        wide = {"dtype": self.numbers.weights, "param_dtype": self.numbers.weights}
        types = {"dtype": self.numbers.compute, "param_dtype": self.numbers.weights}
        words = nn.Embed(VOCABULARY, self.spec.width, name="words", **wide)
        positions = nn.Embed(self.spec.length, self.spec.width, name="positions", **wide)
        places = positions.embedding[: tokens.shape[1]]
        x = words(tokens) + (places if at is None else positions(at))
        for name in self.spec.blocks if not caches else ():
            block = partial(_block, name)
            x = (recompute(block) if self.checkpointing else block)(self, x)
        after = []
        for name, cache in zip(self.spec.blocks, caches, strict=False):
            x, filled = _block(name, self, x, cache, at)
            after.append(filled)
        if last:  # the word after the whole window alone, (batch, vocabulary)
            x = x[:, -1]
        x = nn.LayerNorm(EPSILON, use_bias=False, name="norm", **types)(x)
        found = x @ words.embedding.astype(x.dtype).T
        return (found, tuple(after)) if caches else found

    def attend(self, projected: jax.Array, cache: jax.Array | None, at: jax.Array | None) -> Any:
        """Attention over (batch, positions, 3 * width), from each position to itself and those before it; the cache."""
        batch, positions, _ = projected.shape
        parts = jnp.split(projected, 3, axis=-1)
        query, key, value = (part.reshape(batch, positions, self.spec.heads, -1) for part in parts)
        if cache is not None:
            both, place = jnp.stack([key, value]), 0 if at is None else at
            cache = jax.lax.dynamic_update_slice_in_dim(cache, both, place, 2)
        if cache is not None and at is not None:  # one query, for which cuDNN has no kernel of its own
            attended = plain_attention(query, cache[0], cache[1], jnp.arange(self.spec.length) <= at)
        elif self.kernel == "fused":
            attended = jax.nn.dot_product_attention(query, key, value, is_causal=True, implementation="cudnn")
        else:
            attended = plain_attention(query, key, value, jnp.tri(positions, dtype=bool))
        return attended.reshape(batch, positions, -1), cache


def _block(name: str, model: Gpt, x: jax.Array, cache: jax.Array | None = None, at: jax.Array | None = None) -> Any:
    """Adds to ``x`` (batch, positions, width) what words learn from those before them, then what each by itself.

    A ``cache`` (2, batch, length, heads, head width) with their keys and values is returned too. With ``at``, its
    place, ``x`` is one word behind those that the cache has.
    """
    spec, types = model.spec, {"dtype": model.numbers.compute, "param_dtype": model.numbers.weights}
    norm, dense = (partial(layer, use_bias=False, **types) for layer in (nn.LayerNorm, nn.Dense))
    y = norm(EPSILON, name=f"{name}_norm1")(x)
    y, cache = model.attend(dense(3 * spec.width, name=f"{name}_attention")(y), cache, at)
    x = x + dense(spec.width, name=f"{name}_projection")(y)
    y = norm(EPSILON, name=f"{name}_norm2")(x)
    y = nn.gelu(dense(spec.hidden, name=f"{name}_hidden")(y), approximate=False)
    x = x + dense(spec.width, name=f"{name}_output")(y)
    return x if cache is None else (x, cache)


def build(
    spec: GptSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    checkpointing: bool = False,
) -> Gpt:  # fmt: skip
    del dropout  # there is none
    return Gpt(spec, numbers, kernels(spec, numbers, device, kernel)["attention"], checkpointing)


def logits(model: Gpt, weights: Tree, statistics: Tree, tokens: jax.Array, last: bool = False) -> jax.Array:
    """The model's output."""
    return model.apply({"params": weights}, tokens, last)


def loss(
    model: Gpt, weights: Tree, statistics: Tree, key: jax.Array, tokens: jax.Array, labels: jax.Array
) -> tuple[jax.Array, Tree]:
    output = logits(model, weights, statistics, tokens).astype(model.numbers.weights)
    return optax.softmax_cross_entropy_with_integer_labels(output, labels).mean(), statistics


def scores(
    model: Gpt, weights: Tree, statistics: Tree, tokens: jax.Array, labels: jax.Array
) -> tuple[jax.Array, jax.Array]:
    output = logits(model, weights, statistics, tokens).astype(model.numbers.weights)
    counted = labels != IGNORED
    losses = optax.softmax_cross_entropy_with_integer_labels(output, jnp.where(counted, labels, 0))
    count = counted.sum(1).astype(output.dtype)
    return (losses * counted).sum(1) / count, (output.argmax(-1) == labels).sum(1) / count


def answers(model: Gpt, weights: Tree, statistics: Tree, tokens: jax.Array) -> jax.Array:
    """The logits of the word after each window, (b, vocabulary)."""
    return logits(model, weights, statistics, tokens, last=True)


def prefill(model: Gpt, weights: Tree, statistics: Tree, tokens: jax.Array) -> tuple[jax.Array, Caches]:
    """The logits of the word after tokens (b, n), (b, vocabulary), and the caches of all blocks, for `decode`."""
    spec = model.spec
    shape = (2, len(tokens), spec.length, spec.heads, spec.width // spec.heads)
    caches = tuple(jnp.zeros(shape, model.numbers.compute) for _ in spec.blocks)
    return model.apply({"params": weights}, tokens, True, caches)


def decode(
    model: Gpt, weights: Tree, statistics: Tree, tokens: jax.Array, caches: Caches, at: jax.Array
) -> tuple[jax.Array, Caches]:
    """The same after one more token each, (b,), whose place is ``at``."""
    return model.apply({"params": weights}, tokens[:, None], True, caches, at)

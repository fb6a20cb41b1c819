"""`imdb_transformer` in JAX: flax modules; cuDNN's fused attention where JAX has it, else the formula, which XLA fuses.

JAX reaches cuDNN's attention through `jax.nn.dot_product_attention`, on CUDA and in the types of `CUDNN_TYPES` only.
The formula is written out here because that function takes its softmax in float32 even in float64.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from workloads.defaults.jax import binary_loss as loss
from workloads.defaults.jax import binary_scores as scores
from workloads.defaults.jax import evaluate as logits
from workloads.defaults.jax import export_weights, import_weights, keep_if_off, recompute
from workloads.defaults.jax import switches as statistics
from workloads.imdb_transformer.spec import EPSILON, PADDING, VOCABULARY, TransformerSpec
from workloads.spec import Numbers, UnavailableKernelError, WorkloadSpec

__all__ = (
    "CUDNN_TYPES", "DROPOUT_IN_STATE", "Transformer", "build", "export_weights", "import_weights", "kernels",
    "logits", "loss", "move_to_front", "plain_attention", "scores", "statistics",
)  # fmt: skip

Tree = dict[str, Any]

CUDNN_TYPES = ("bfloat16", "float16")

#: Whether dropout is in a training's state, so that what is timed can train without it.
DROPOUT_IN_STATE = True


class Transformer(nn.Module):
    """int32 tokens (batch, length) to logits (batch,); needs a ``dropout`` key where ``dropout`` is on."""

    spec: TransformerSpec
    numbers: Numbers
    dropout: bool
    kernel: str
    checkpointing: bool = False

    @nn.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        # The sum that runs through all blocks stays in the weights' type.
        wide = {"dtype": self.numbers.weights, "param_dtype": self.numbers.weights}
        types = {"dtype": self.numbers.compute, "param_dtype": self.numbers.weights}
        places = self.spec.positions_at(tokens.shape[1])
        tokens, count = move_to_front(tokens, places)
        table = nn.Embed(self.spec.positions, self.spec.width, name="positions", **wide).embedding
        table = table if places == self.spec.positions else table[:places]
        x = nn.Embed(VOCABULARY, self.spec.width, name="words", **wide)(tokens) + table
        x = self.apply_dropout(x)
        for name in self.spec.blocks:
            block = partial(_block, name)
            x = (recompute(block) if self.checkpointing else block)(self, x, count)
        words = (jnp.arange(places) < count[:, None])[:, :, None].astype(x.dtype)
        mean = (nn.LayerNorm(EPSILON, name="norm", **wide)(x) * words).sum(1) / words.sum(1)
        return nn.Dense(1, name="logits", **types)(mean)[:, 0]

    def attend(self, projected: jax.Array, count: jax.Array) -> jax.Array:
        """Attention over (batch, positions, 3 * width), whose keys are the first ``count`` (batch,) positions."""
        batch, positions, _ = projected.shape
        # A split's gradient is one copy; that of three slices fills and adds up three arrays.
        parts = jnp.split(projected, 3, axis=-1)
        query, key, value = (part.reshape(batch, positions, self.spec.heads, -1) for part in parts)
        if self.kernel == "fused":
            lengths = {"key_value_seq_lengths": count}
            attended = jax.nn.dot_product_attention(query, key, value, **lengths, implementation="cudnn")
        else:
            words = jnp.arange(positions) < count[:, None, None, None]
            attended = plain_attention(query, key, value, words)
        return attended.reshape(batch, positions, -1)

    def apply_dropout(self, x: jax.Array) -> jax.Array:
        dropped = nn.Dropout(self.spec.dropout, deterministic=not self.dropout)(x)
        return keep_if_off(self, dropped, x) if self.dropout else x


def _block(name: str, model: Transformer, x: jax.Array, count: jax.Array) -> jax.Array:
    """Adds to ``x`` (batch, positions, width) what words learn from each other, then what each learns by itself."""
    spec, types = model.spec, {"dtype": model.numbers.compute, "param_dtype": model.numbers.weights}
    y = nn.LayerNorm(EPSILON, name=f"{name}_norm1", **types)(x)
    y = model.attend(nn.Dense(3 * spec.width, use_bias=False, name=f"{name}_attention", **types)(y), count)
    x = x + model.apply_dropout(nn.Dense(spec.width, name=f"{name}_projection", **types)(y))
    y = nn.LayerNorm(EPSILON, name=f"{name}_norm2", **types)(x)
    y = nn.gelu(nn.Dense(spec.hidden, name=f"{name}_hidden", **types)(y), approximate=False)
    return x + model.apply_dropout(nn.Dense(spec.width, name=f"{name}_output", **types)(y))


def move_to_front(tokens: jax.Array, positions: int) -> tuple[jax.Array, jax.Array]:
    """The words of (batch, length) moved to the front of so many positions, and how many there are: int32 (batch,).

    A review without any has one, the padding.
    """
    length = tokens.shape[1]
    count = jnp.maximum((tokens != PADDING).sum(1, dtype=jnp.int32), 1)
    place = jnp.arange(positions, dtype=jnp.int32) + (length - count)[:, None]
    return jnp.take_along_axis(tokens, jnp.minimum(place, length - 1), 1), count


def plain_attention(query: jax.Array, key: jax.Array, value: jax.Array, words: jax.Array) -> jax.Array:
    """The formula, for (batch, positions, heads, head width) and the keys that count; softmax in float32 at least."""
    wide = jnp.promote_types(query.dtype, jnp.float32)
    # Heads first, once for all products: those of the gradient would bring each operand into this order by itself.
    query, key, value = (part.swapaxes(1, 2) for part in (query, key, value))
    scores = jnp.einsum("bhqd,bhkd->bhqk", query * query.shape[-1] ** -0.5, key)
    weights = nn.softmax(jnp.where(words, scores.astype(wide), -jnp.inf))
    return jnp.einsum("bhqk,bhkd->bhqd", weights.astype(query.dtype), value).swapaxes(1, 2)


def build(
    spec: TransformerSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    checkpointing: bool = False,
) -> Transformer:  # fmt: skip
    return Transformer(spec, numbers, dropout, kernels(spec, numbers, device, kernel)["attention"], checkpointing)


def kernels(spec: WorkloadSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    available = device == "cuda" and numbers.compute in CUDNN_TYPES
    if kernel == "fused" and not available:
        types = " and ".join(CUDNN_TYPES)
        raise UnavailableKernelError(
            f"JAX has fused attention on CUDA in {types} only, not on {device} in {numbers.compute}; use plain"
        )
    return {"attention": ("fused" if available else "plain") if kernel == "auto" else kernel}

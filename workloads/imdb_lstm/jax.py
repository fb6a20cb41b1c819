"""`imdb_lstm` in JAX: a flax module around `lax.scan`, or around cuDNN's LSTM where JAX has it.

JAX reaches cuDNN's LSTM through `jax.experimental.rnn`, on CUDA and in the types of `CUDNN_TYPES` only. Elsewhere the
time steps run in one `lax.scan`. Projecting the inputs of all steps at once, before the scan, is slower on a CPU (by
1.4 on two busy cores, batch 32, n = 10): the projected inputs are out of the cache before they are used.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.experimental import rnn

from workloads.defaults.jax import binary_loss as loss
from workloads.defaults.jax import binary_scores as scores
from workloads.defaults.jax import export_weights, import_weights, logits, statistics
from workloads.imdb_lstm.spec import VOCABULARY, LstmSpec
from workloads.spec import Numbers

__all__ = (
    "CUDNN_TYPES", "Lstm", "LstmLayer", "build", "cudnn_lstm", "export_weights", "import_weights", "kernels",
    "logits", "loss", "scan_lstm", "scores", "statistics",
)  # fmt: skip

#: Not float64: the gradient that `jax.experimental.rnn` gives holds a zero in float32, which fails there.
CUDNN_TYPES = ("float32",)


class LstmLayer(nn.Module):
    """Embedded tokens (batch, length, embedding) to the last hidden state (batch, units)."""

    spec: LstmSpec
    numbers: Numbers
    kernel: str

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        gates, zeros = 4 * self.spec.units, nn.initializers.zeros
        kernel = self.param("kernel", zeros, (self.spec.embedding, gates), self.numbers.weights)
        recurrent = self.param("recurrent", zeros, (self.spec.units, gates), self.numbers.weights)
        bias = self.param("bias", zeros, (gates,), self.numbers.weights)
        layer = cudnn_lstm if self.kernel == "cudnn" else scan_lstm
        return layer(x, *(array.astype(self.numbers.compute) for array in (kernel, recurrent, bias)))


class Lstm(nn.Module):
    """int32 tokens (batch, length) to logits (batch,)."""

    spec: LstmSpec
    numbers: Numbers
    kernel: str

    @nn.compact
    def __call__(self, tokens: jax.Array, evaluating: bool = False) -> jax.Array:
        del evaluating  # it is the same
        types = {"dtype": self.numbers.compute, "param_dtype": self.numbers.weights}
        x = nn.Embed(VOCABULARY, self.spec.embedding, name="embedding", **types)(tokens)
        state = LstmLayer(self.spec, self.numbers, self.kernel, name="lstm")(x)
        return nn.Dense(1, name="logits", **types)(state)[:, 0]


def scan_lstm(x: jax.Array, kernel: jax.Array, recurrent: jax.Array, bias: jax.Array) -> jax.Array:
    """Last hidden state of an LSTM over (batch, length, width), the time steps in one `lax.scan`."""

    def step(carry: tuple[jax.Array, jax.Array], word: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        cell, state = carry
        i, f, g, o = jnp.split(word @ kernel + state @ recurrent + bias, 4, axis=-1)
        cell = nn.sigmoid(f) * cell + nn.sigmoid(i) * jnp.tanh(g)
        return (cell, nn.sigmoid(o) * jnp.tanh(cell)), None

    start = jnp.zeros((len(x), len(recurrent)), x.dtype)
    (_, state), _ = jax.lax.scan(step, (start, start), jnp.swapaxes(x, 0, 1))
    return state


def cudnn_lstm(x: jax.Array, kernel: jax.Array, recurrent: jax.Array, bias: jax.Array) -> jax.Array:
    """The same on cuDNN, whose weights are one vector: both kernels as (4 * units, in), then two biases."""
    batch, length, width = x.shape
    units = len(recurrent)
    flat = jnp.concatenate([kernel.T.ravel(), recurrent.T.ravel(), bias, jnp.zeros_like(bias)])
    start = jnp.zeros((1, batch, units), x.dtype)
    lengths = jnp.full((batch,), length, jnp.int32)
    sizes = {"input_size": width, "hidden_size": units, "num_layers": 1}
    _, state, _ = rnn.lstm(x, start, start, flat, lengths, **sizes, dropout=0.0, bidirectional=False)
    return state[0]


def build(spec: LstmSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto") -> Lstm:
    return Lstm(spec, numbers, kernels(spec, numbers, device, kernel)["lstm"])


def kernels(spec: LstmSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    if kernel == "auto":
        kernel = "cudnn" if device == "cuda" and numbers.compute in CUDNN_TYPES else "scan"
    return {"lstm": kernel}

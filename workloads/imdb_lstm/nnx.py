"""`imdb_lstm` in flax.nnx: the module that the interface `nnx` trains. It has no layer for cuDNN's LSTM."""

from __future__ import annotations

import jax
import optax
from flax import nnx

from workloads.defaults.nnx import export_weights, import_weights
from workloads.imdb_lstm.spec import VOCABULARY, LstmSpec
from workloads.spec import Numbers

__all__ = ("build", "export_weights", "import_weights", "kernels", "loss", "scores")


class Lstm(nnx.Module):
    """int32 tokens (batch, length) to logits (batch,)."""

    def __init__(self, spec: LstmSpec, numbers: Numbers, rngs: nnx.Rngs) -> None:
        self.numbers, zeros = numbers, nnx.initializers.zeros_init()  # the weights come from `import_weights`
        options = {"dtype": numbers.compute, "param_dtype": numbers.weights, "rngs": rngs}
        self.embedding = nnx.Embed(VOCABULARY, spec.embedding, embedding_init=zeros, **options)
        cell = nnx.OptimizedLSTMCell(
            spec.embedding, spec.units, kernel_init=zeros, recurrent_kernel_init=zeros, **options
        )
        self.lstm = nnx.RNN(cell, return_carry=True)
        self.logits = nnx.Linear(spec.units, 1, kernel_init=zeros, **options)

    def __call__(self, tokens: jax.Array) -> jax.Array:
        (_, state), _ = self.lstm(self.embedding(tokens))
        return self.logits(state)[:, 0]


def build(
    spec: LstmSpec, numbers: Numbers, dropout: bool = True, device: str = "cpu", kernel: str = "auto",
    *, rngs: nnx.Rngs,
) -> Lstm:  # fmt: skip
    return Lstm(spec, numbers, rngs)


def loss(model: Lstm, tokens: jax.Array, labels: jax.Array) -> jax.Array:
    return scores(model, tokens, labels)[0].mean()


def scores(model: Lstm, tokens: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    output = model(tokens).astype(model.numbers.weights)
    return optax.sigmoid_binary_cross_entropy(output, labels.astype(output.dtype)), (output > 0) == (labels > 0)


def kernels(spec: LstmSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    return {"lstm": "scan"}

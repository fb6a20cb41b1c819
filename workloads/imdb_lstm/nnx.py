"""`imdb_lstm` in flax.nnx: the module that the interface `nnx` trains. It has no layer for cuDNN's LSTM."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from workloads.data.dataset import Array
from workloads.imdb_lstm.spec import VOCABULARY, LstmSpec
from workloads.spec import Numbers


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
    """The module, its weights not yet set; it has no dropout to switch off."""
    return Lstm(spec, numbers, rngs)


def loss(model: Lstm, tokens: jax.Array, labels: jax.Array) -> jax.Array:
    """Binary cross entropy of int32 tokens (b, length) and int32 labels (b,), averaged over the batch."""
    return scores(model, tokens, labels)[0].mean()


def scores(model: Lstm, tokens: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Of every sample the loss (b,), and whether the logit's sign is the label's (b,)."""
    output = model(tokens).astype(model.numbers.weights)
    return optax.sigmoid_binary_cross_entropy(output, labels.astype(output.dtype)), (output > 0) == (labels > 0)


def kernels(spec: LstmSpec, numbers: Numbers, device: str, kernel: str) -> dict[str, str]:
    """Which implementation of a layer runs, where there is a choice."""
    return {"lstm": "scan"}


def import_weights(model: Lstm, weights: dict[str, Array]) -> None:
    """Set every tensor from canonical weights."""
    for name, tensor in variables(model).items():
        tensor.set_value(jnp.array(weights[name], model.numbers.weights))


def export_weights(model: Lstm, variables_of: nnx.State | None = None) -> dict[str, Array]:
    """A copy of every tensor (or of its gradient, in a state like the model's) in canonical layout, on the host."""
    return {name: np.array(tensor.get_value()) for name, tensor in variables(variables_of or model).items()}


def variables(model: Lstm | nnx.State) -> dict[str, nnx.Variable]:
    """Canonical name to variable; the layouts are the canonical ones."""
    flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
    return {_NAMES.get(name := "/".join(map(str, path)), name): tensor for path, tensor in flat}


#: Canonical names that nnx spells otherwise.
_NAMES = {
    "embedding/embedding": "embedding/table",
    "lstm/cell/dense_i/kernel": "lstm/kernel",
    "lstm/cell/dense_h/kernel": "lstm/recurrent",
    "lstm/cell/dense_h/bias": "lstm/bias",
}

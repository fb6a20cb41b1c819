"""LSTMs that compute something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.studies.mutants.models import Weights, rearranged
from tests.studies.mutants.mutant import Overlay, Plant, Target, mutants

LSTM = "imdb_lstm"


def forget_bias(more: float) -> Callable[[Weights], Weights]:
    """The forget gate's bias with so much added."""

    def change(weights: Weights) -> Weights:
        bias = np.array(weights["lstm/bias"])
        units = len(bias) // 4
        bias[units : 2 * units] += more
        return weights | {"lstm/bias": bias}

    return change


def mean_of_states(target: Target) -> None:
    """The mean over the LSTM's states in place of the last one."""
    if target.name == "pytorch":

        def forward(self: Any, tokens: Any) -> Any:
            states, _ = self.lstm(self.embedding(tokens))
            return self.logits(states.mean(1)).squeeze(1)

        target.patch.setattr(target.workload.Lstm, "forward", forward)
    elif target.name == "tensorflow":
        import keras

        layers = keras.layers

        def lstm(units: int, **settings: Any) -> Any:
            states = layers.LSTM(units, return_sequences=True, **settings)
            return keras.Sequential([states, layers.GlobalAveragePooling1D()])

        target.overlay("keras", layers=Overlay(keras.layers, LSTM=lstm))
    else:
        import jax

        def scan(step: Any, start: Any, words: Any) -> Any:
            def keeping(carry: Any, word: Any) -> Any:
                after, _ = step(carry, word)
                return after, after[1]

            (cell, _), states = jax.lax.scan(keeping, start, words)
            return (cell, states.mean(0)), None

        target.overlay("jax", lax=Overlay(jax.lax, scan=scan))


def backwards(target: Target) -> None:
    """The LSTM reads from the last word to the first."""
    if target.name == "pytorch":
        target.wrap(target.workload.Lstm, "forward", lambda forward: lambda self, tokens: forward(self, tokens.flip(1)))
    elif target.name == "tensorflow":
        lstm_with(go_backwards=True)(target)
    else:
        scan = target.workload.scan_lstm
        target.patch.setattr(target.workload, "scan_lstm", lambda x, *weights: scan(x[:, ::-1], *weights))


def lstm_with(**changes: Any) -> Plant:
    """Keras' LSTM with other settings."""

    def plant(target: Target) -> None:
        from keras import layers

        target.overlay("keras", layers=Overlay(layers, LSTM=lambda units, **k: layers.LSTM(units, **k | changes)))

    return plant


def masked(target: Target) -> None:
    """Padding is left out: by a mask, or by an embedding that does not learn it."""
    if target.name == "pytorch":

        def build(build: Any) -> Any:
            def built(*arguments: Any) -> Any:
                model = build(*arguments)
                model.embedding.padding_idx = 0
                return model

            return built

        target.wrap(target.workload, "build", build)
    else:
        from keras import layers

        def embedding(*shape: int, **settings: Any) -> Any:
            return layers.Embedding(*shape, mask_zero=True, **settings)

        target.overlay("keras", layers=Overlay(layers, Embedding=embedding))


def hard_gates(target: Target) -> None:
    """The gates' sigmoid is piecewise linear."""
    if target.name == "tensorflow":
        lstm_with(recurrent_activation="hard_sigmoid")(target)
    else:
        import flax.linen as nn

        target.overlay("nn", sigmoid=nn.hard_sigmoid)


KIND = "LSTM"
FORGOTTEN = rearranged(forget_bias(1.0), forget_bias(-1.0))
MUTANTS = [
    *mutants(KIND, "mean of the states", LSTM, mean_of_states, "refused"),
    *mutants(KIND, "read backwards", LSTM, backwards, "refused"),
    *mutants(KIND, "padding masked", LSTM, masked, "fingerprint", of=["tensorflow"]),
    *mutants(KIND, "padding not embedded", LSTM, masked, "own", of=["pytorch"]),
    *mutants(KIND, "hard sigmoid", LSTM, hard_gates, "refused", of=["tensorflow", "jax"]),
    *mutants(KIND, "recurrent dropout", LSTM, lstm_with(recurrent_dropout=0.2), "refused", of=["tensorflow"]),
    *mutants(KIND, "forget bias added once more", LSTM, FORGOTTEN, "refused", of=["tensorflow", "jax"]),
]

"""Models that are built otherwise: layouts, layers, initial weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.studies.mutants.mutant import Overlay, Plant, Target, mutants
from tests.studies.mutants.steps import freezes
from workloads.data.dataset import Array
from workloads.spec import specification

CNN, LSTM = "cifar100_cnn", "imdb_lstm"

Weights = dict[str, Array]


def rearranged(there: Callable[[Weights], Weights], back: Callable[[Weights], Weights] = dict) -> Plant:
    """The model holds its weights otherwise than it says: changed on the way in, and changed back on the way out."""

    def plant(target: Target) -> None:
        def importing(import_weights: Any) -> Any:
            return lambda model, weights: import_weights(model, there(dict(weights)))

        def exporting(export_weights: Any) -> Any:
            return lambda *arguments, **keywords: back(export_weights(*arguments, **keywords))

        target.wrap(target.workload, "import_weights", importing)
        target.wrap(target.workload, "export_weights", exporting)

    return plant


def gates(order: tuple[int, ...]) -> Callable[[Weights], Weights]:
    """The gates of the LSTM's tensors in another order."""

    def change(weights: Weights) -> Weights:
        return {
            name: array.reshape(*array.shape[:-1], 4, -1)[..., order, :].reshape(array.shape)
            if name.startswith("lstm/")
            else array
            for name, array in weights.items()
        }

    return change


def flattened(forwards: bool) -> Callable[[Weights], Weights]:
    """The hidden layer's inputs ordered by channel, height, width, and back."""
    channels = specification(CNN, "small").layers[-1][2]

    def change(weights: Weights) -> Weights:
        kernel = weights["hidden/kernel"]
        side = round((len(kernel) / channels) ** 0.5)
        shape, order = ((side, side, channels), (2, 0, 1)) if forwards else ((channels, side, side), (1, 2, 0))
        moved = kernel.reshape(*shape, -1).transpose(*order, 3).reshape(kernel.shape)
        return weights | {"hidden/kernel": moved}

    return change


def forget_bias(more: float) -> Callable[[Weights], Weights]:
    """The forget gate's bias with so much added."""

    def change(weights: Weights) -> Weights:
        bias = np.array(weights["lstm/bias"])
        units = len(bias) // 4
        bias[units : 2 * units] += more
        return weights | {"lstm/bias": bias}

    return change


def other_seed(workload: str) -> Callable[[Weights], Weights]:
    return lambda _: specification(workload, "small").reference_weights(1)


def times(tensor: str, factor: float) -> Callable[[Weights], Weights]:
    return lambda weights: weights | {tensor: weights[tensor] * np.float32(factor)}


def exchanged(attribute: str, make: Callable[[Any], Any]) -> Plant:
    """In PyTorch every layer of a type is replaced by what ``make`` makes of it."""

    def plant(target: Target) -> None:
        from torch import nn

        def build(build: Any) -> Any:
            def built(*arguments: Any) -> Any:
                model = build(*arguments)
                for index, layer in enumerate(model.blocks):
                    if isinstance(layer, getattr(nn, attribute)):
                        model.blocks[index] = make(layer)
                return model

            return built

        target.wrap(target.workload, "build", build)

    return plant


def padding_swapped(target: Target) -> None:
    """The first convolution of a block is valid and the second padded: all shapes after it stay."""
    if target.name == "pytorch":
        other = {(1, 1): (0, 0), (0, 0): (1, 1)}

        def swapped(layer: Any) -> Any:
            layer.padding = other[layer.padding]
            return layer

        exchanged("Conv2d", swapped)(target)
    elif target.name == "tensorflow":
        from keras import layers

        other_word = {"same": "valid", "valid": "same"}

        def convolution(*shape: int, padding: str, **settings: Any) -> Any:
            return layers.Conv2D(*shape, padding=other_word[padding], **settings)

        target.overlay("keras", layers=Overlay(layers, Conv2D=convolution))
    else:
        import flax.linen as nn

        word = {"SAME": "VALID", "VALID": "SAME"}
        target.overlay("nn", Conv=lambda *shape, padding, **k: nn.Conv(*shape, padding=word[padding], **k))


def average_pool(target: Target) -> None:
    if target.name == "pytorch":
        from torch import nn

        exchanged("MaxPool2d", lambda _: nn.AvgPool2d(2))(target)
    elif target.name == "tensorflow":
        from keras import layers

        target.overlay("keras", layers=Overlay(layers, MaxPooling2D=layers.AveragePooling2D))
    else:
        import flax.linen as nn

        target.overlay("nn", max_pool=nn.avg_pool)


def gelu(target: Target) -> None:
    """GELU in place of ReLU."""
    if target.name == "pytorch":
        from torch import nn

        exchanged("ReLU", lambda _: nn.GELU())(target)
    elif target.name == "tensorflow":
        from keras import layers

        def dense(units: int, activation: str | None = None, **settings: Any) -> Any:
            return layers.Dense(units, activation="gelu" if activation else None, **settings)

        target.overlay("keras", layers=Overlay(layers, Dense=dense))
    else:
        import flax.linen as nn

        target.overlay("nn", relu=nn.gelu)


def without_activation(target: Target) -> None:
    """The hidden layer has no ReLU."""
    target.overlay("F", relu=lambda x: x)


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


LAYOUT, LAYER, RECURRENT, WEIGHTS = "layout", "layer", "LSTM", "initial weights"
FORGOTTEN = rearranged(forget_bias(1.0), forget_bias(-1.0))
MUTANTS = [
    *mutants(
        LAYOUT,
        "input and forget gate swapped",
        LSTM,
        rearranged(gates((1, 0, 2, 3)), gates((1, 0, 2, 3))),
        "refused",
    ),
    *mutants(
        LAYOUT,
        "cell and output gate swapped",
        LSTM,
        rearranged(gates((0, 1, 3, 2)), gates((0, 1, 3, 2))),
        "refused",
        of=["tensorflow"],
    ),
    *mutants(
        LAYOUT,
        "channels flattened first",
        CNN,
        rearranged(flattened(True), flattened(False)),
        "fingerprint",
        "float64",
        of=["pytorch", "tensorflow"],
    ),
    *mutants(
        LAYER,
        "same and valid padding swapped",
        CNN,
        padding_swapped,
        "fingerprint",
        "float64",
        of=["pytorch", "tensorflow"],
    ),
    *mutants(LAYER, "average pool", CNN, average_pool, "fingerprint", of=["pytorch", "tensorflow"]),
    *mutants(LAYER, "GELU", CNN, gelu, "fingerprint", of=["pytorch", "tensorflow"]),
    *mutants(LAYER, "no ReLU at the hidden layer", CNN, without_activation, "fingerprint", of=["pytorch"]),
    *mutants(
        LAYER,
        "a bias that is not trained",
        CNN,
        freezes("conv2b/bias", after=0),
        "fingerprint",
        "timed",
        of=["pytorch", "tensorflow"],
    ),
    *mutants(RECURRENT, "mean of the states", LSTM, mean_of_states, "refused"),
    *mutants(RECURRENT, "read backwards", LSTM, backwards, "refused"),
    *mutants(RECURRENT, "padding masked", LSTM, masked, "fingerprint", of=["tensorflow"]),
    *mutants(RECURRENT, "padding not embedded", LSTM, masked, "early", of=["pytorch"]),
    *mutants(RECURRENT, "hard sigmoid", LSTM, hard_gates, "refused", of=["tensorflow", "jax"]),
    *mutants(RECURRENT, "recurrent dropout", LSTM, lstm_with(recurrent_dropout=0.2), "refused", of=["tensorflow"]),
    *mutants(RECURRENT, "forget bias added once more", LSTM, FORGOTTEN, "refused", of=["tensorflow", "jax"]),
    *mutants(WEIGHTS, "another seed", CNN, rearranged(other_seed(CNN)), "weights", of=["pytorch"]),
    *mutants(WEIGHTS, "another seed", LSTM, rearranged(other_seed(LSTM)), "weights", of=["jax"]),
    *mutants(WEIGHTS, "the LSTM's bias doubled", LSTM, rearranged(times("lstm/bias", 2)), "weights", of=["tensorflow"]),
    *mutants(
        WEIGHTS,
        "one kernel a hundredth larger",
        CNN,
        rearranged(times("conv3b/kernel", 1.01)),
        "weights",
        of=["tensorflow"],
    ),
]

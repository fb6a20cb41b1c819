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


LAYOUT, LAYER, WEIGHTS = "layout", "layer", "initial weights"
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
        of=["pytorch", "tensorflow"],
    ),
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

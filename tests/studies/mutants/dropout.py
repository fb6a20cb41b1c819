"""Dropout that is not the spec's."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from tests.studies.mutants.mutant import Overlay, Plant, Target, mutants

CNN = "cifar100_cnn"


def built_with(**changes: Any) -> Plant:
    """The model is built from a spec with these changes."""

    def plant(target: Target) -> None:
        target.wrap(target.workload, "build", lambda build: lambda spec, *rest: build(replace(spec, **changes), *rest))

    return plant


def never(target: Target) -> None:
    """The model is built without dropout, whatever is asked for."""

    def without(build: Any) -> Any:
        return lambda spec, numbers, dropout, *rest: build(spec, numbers, False, *rest)

    target.wrap(target.workload, "build", without)


def by_channel(target: Target) -> None:
    """Convolutional blocks drop whole channels."""
    {"pytorch": _by_channel_pytorch, "tensorflow": _by_channel_tensorflow, "jax": _by_channel_jax}[target.name](target)


def _by_channel_pytorch(target: Target) -> None:
    from torch import nn

    def swapped(build: Any) -> Any:
        def built(*arguments: Any) -> Any:
            model = build(*arguments)
            for index, layer in enumerate(model.blocks):
                if isinstance(layer, nn.Dropout):
                    model.blocks[index] = nn.Dropout2d(layer.p)
            return model

        return built

    target.wrap(target.workload, "build", swapped)


def _by_channel_tensorflow(target: Target) -> None:
    from keras import layers

    number = count()

    def dropout(rate: float, dtype: str) -> Any:  # the fourth of a model follows the hidden layer
        shape = (None, 1, 1, None) if next(number) % 4 < 3 else None
        return layers.Dropout(rate, noise_shape=shape, dtype=dtype)

    target.patch.setattr(target.workload, "Dropout", dropout)


def _by_channel_jax(target: Target) -> None:
    import flax.linen as nn

    def dropout(rate: float, deterministic: bool) -> Any:
        return lambda x: nn.Dropout(rate, (1, 2) if x.ndim == 4 else (), deterministic=deterministic)(x)

    target.overlay("nn", Dropout=dropout)


def unscaled(target: Target) -> None:
    """What is kept is not divided by the probability of being kept."""
    if target.name == "pytorch":
        import torch
        from torch import nn

        class Unscaled(nn.Module):
            def __init__(self, rate: float) -> None:
                super().__init__()
                self.rate = rate

            def forward(self, x: Any) -> Any:
                return x * (torch.rand_like(x) >= self.rate) if self.training else x

        target.overlay("nn", Dropout=Unscaled)
    else:
        import flax.linen as nn

        def dropout(rate: float, deterministic: bool) -> Any:
            return lambda x: nn.Dropout(rate, deterministic=deterministic)(x) * (1 - rate * (not deterministic))

        target.overlay("nn", Dropout=dropout)


def same_masks(target: Target) -> None:
    """Every step draws what the first one drew."""
    training = target.framework.Training
    if target.name == "pytorch":
        import torch

        def reseeded(forward: Any) -> Any:
            def seeded(self: Any, *batch: Any) -> Any:
                torch.manual_seed(0)
                return forward(self, *batch)

            return seeded

        target.wrap(training, "_forward", reseeded)
    else:

        def kept(update: Any) -> Any:
            def with_old_key(self: Any, state: Any, *batch: Any) -> Any:
                after, *rest = update(self, state, *batch)
                return after._replace(key=state.key), *rest

            return with_old_key

        target.wrap(training, "_update", kept)


def in_evaluation(target: Target) -> None:
    """The model is evaluated as it is trained."""
    if target.name == "pytorch":
        from torch.nn import Module

        target.patch.setattr(target.workload.Cnn, "eval", Module.train)
    elif target.name == "tensorflow":

        class Trained(Overlay):
            def __call__(self, images: Any, training: bool) -> Any:
                return self._module(images, training=True)

        target.wrap(target.workload, "scores", lambda scores: lambda model, *batch: scores(Trained(model), *batch))
    else:
        import jax
        import optax

        from workloads.defaults.jax import train

        def scores(model: Any, weights: Any, statistics: Any, images: Any, labels: Any) -> Any:
            logits, _ = train(model, weights, statistics, images, rngs={"dropout": jax.random.key(0)})
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels), logits.argmax(1) == labels

        target.patch.setattr(target.workload, "scores", scores)


KIND = "dropout"
MUTANTS = [
    *mutants(KIND, "rate .3 for .25", CNN, built_with(dropout=(0.1, 0.3, 0.5)), "dropout"),
    *mutants(
        KIND, "rate .4 for .5 at the hidden layer", CNN, built_with(hidden_dropout=0.4), "dropout", of=["pytorch"]
    ),
    *mutants(
        KIND, "rates taken for the share that is kept", CNN, built_with(dropout=(0.9, 0.75, 0.5)), "dropout", of=["jax"]
    ),
    *mutants(KIND, "none", CNN, never, "dropout"),
    *mutants(KIND, "none at the hidden layer", CNN, built_with(hidden_dropout=0.0), "dropout", of=["tensorflow"]),
    *mutants(KIND, "by channel", CNN, by_channel, "dropout"),
    *mutants(KIND, "not rescaled", CNN, unscaled, "dropout", of=["pytorch", "jax"]),
    *mutants(KIND, "the same masks in every step", CNN, same_masks, "dropout", of=["pytorch", "jax"]),
]

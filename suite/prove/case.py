"""A difference to be explained: the numbers of both sides and where they differ first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from suite.prove.layers import Layer, Pair
from suite.worker.evidence.layers import are_tokens
from workloads.data.dataset import Array


@dataclass(frozen=True, eq=False)
class Place:
    """Where two frameworks differ first.

    ``stage`` is the check; ``layer`` the earliest layer that differs there, with ``inside`` if its own input is the
    same, so that the layer itself differs and not what comes before it. ``tensor`` is the gradient or the weight that
    differs most. ``scaled`` says that they differ at a larger scale only. ``reached`` is false where one side ended
    with an error.
    """

    stage: str
    layer: Layer | None = None
    inside: bool = True
    tensor: str = ""
    scaled: bool = False
    reached: bool = True


@dataclass(frozen=True, eq=False)
class Case:
    """Two frameworks, at the scale at which they differ, and the place."""

    pair: Pair
    place: Place

    @property
    def layer(self) -> Layer | None:
        return self.place.layer

    @cached_property
    def earlier(self) -> list[Layer]:
        """The layers that the reference calls before the one at which the sides differ."""
        layers = self.pair.layers
        return layers if self.layer is None else layers[: layers.index(self.layer)]

    @cached_property
    def targets(self) -> tuple[Array, Array] | None:
        """What differs in the forward pass: an output of the layer, what goes into it, or the logits."""
        if self.layer is not None:
            return self.layer.pair("output" if self.place.inside else "input")
        return self.pair.one.arrays["logits"], self.pair.other.arrays["logits"]

    def common(self) -> Iterator[tuple[str, Array, Layer | None]]:
        """What the layers before gave or took alike, the nearest first, and at last the model's inputs."""
        for layer in self.earlier[::-1]:
            for name in ("output", "input"):
                array = layer.common(name)
                if array is not None and np.issubdtype(array.dtype, np.floating):
                    yield f"the {name} of {layer.name}", array, layer if name == "output" else None
        if self.tokens is None:
            yield "the model's inputs", self.pair.given.batches[0][0].astype(np.float64), None

    @property
    def tokens(self) -> Array | None:
        """The first batch's inputs where they are tokens, (b, t), with 0 for padding."""
        inputs = self.pair.given.batches[0][0]
        return inputs if are_tokens(inputs) else None

    @property
    def few(self) -> list[int]:
        """Samples on which a formula is tried first: those with the fewest and with the most words."""
        if self.tokens is None:
            return [0, 1]
        order = np.argsort(np.count_nonzero(self.tokens, axis=1), kind="stable")
        return [int(order[0]), int(order[-1])]

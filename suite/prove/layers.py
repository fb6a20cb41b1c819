"""The layers of two frameworks side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from suite.prove.numbers import Given, Numbers, align, same
from suite.worker.evidence.layers import are_tokens
from workloads.data.dataset import Array

#: What a layer has from the first of the calls that make it up, and what from the last.
FIRST, LAST = ("input", "drawn_input"), ("output", "drawn_output", "mean", "variance")


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer in two frameworks: its canonical tensors, and by side what went in and came out.

    ``one`` and ``other`` have ``input``, ``output``, the same of some samples with dropout, by pass (``drawn_input``
    and ``drawn_output``), ``mean`` and ``variance``, as far as there are any. ``calls`` are their places in the order
    of calls.
    """

    name: str
    tensors: dict[str, Array]
    one: dict[str, Array]
    other: dict[str, Array]
    calls: tuple[int, int]
    _pairs: dict[str, tuple[Array, Array] | None] = field(default_factory=dict)

    @property
    def sides(self) -> tuple[dict[str, Array], dict[str, Array]]:
        return self.one, self.other

    @cached_property
    def vectors(self) -> list[Array]:
        """Biases and scales, each as a vector."""
        return [array.astype(np.float64).ravel() for name, array in self.tensors.items() if _is_vector(name, array)]

    @cached_property
    def kernels(self) -> list[Array]:
        return [array.astype(np.float64) for name, array in self.tensors.items() if not _is_vector(name, array)]

    @property
    def bias(self) -> Array | None:
        """The only vector beside a kernel, if there is one."""
        return self.vectors[0] if self.kernels and len(self.vectors) == 1 else None

    @property
    def is_table(self) -> bool:
        """Whether what goes in are numbers of rows."""
        return "input" in self.one and not np.issubdtype(self.one["input"].dtype, np.floating)

    def pair(self, name: str) -> tuple[Array, Array] | None:
        """What both sides have under this name, in the layout that brings them nearest to each other."""
        if name not in self.one or name not in self.other:
            return None
        if name not in self._pairs:
            self._pairs[name] = align(self.one[name], self.other[name])
        return self._pairs[name]

    @property
    def whole(self) -> Array | None:
        """The output with the edges that one side may have cut off, if both have the same or edges of their own."""
        if not all("output" in side for side in self.sides) or self.one["output"].shape == self.other["output"].shape:
            return self.common("output")
        larger, other = sorted((side["output"] for side in self.sides), key=np.size, reverse=True)
        return larger if (len(larger), larger.shape[-1]) == (len(other), other.shape[-1]) else None

    def common(self, name: str) -> Array | None:
        """What both sides have alike under this name."""
        pair = self.pair(name)
        return pair[0] if pair and same(pair) else None


@dataclass(frozen=True, eq=False)
class Pair:
    """Two frameworks; ``one`` is the reference."""

    one: Numbers
    other: Numbers
    given: Given

    @property
    def sides(self) -> tuple[Numbers, Numbers]:
        return self.one, self.other

    @property
    def names(self) -> tuple[str, str]:
        return self.one.framework, self.other.framework

    @cached_property
    def scaled(self) -> Pair:
        """The same at a larger scale."""
        return Pair(self.one.scaled, self.other.scaled, self.given.scaled)

    @cached_property
    def layers(self) -> list[Layer]:
        """The layers that both have, in the order in which the first calls them.

        Where one has a layer for what is several in the other, such as attention or a stack of LSTMs, they are one: its
        input is that of the first, its output that of the last. It has no output if one side shows not all of its
        tensors.
        """
        groups: list[set[str]] = []
        for side in self.sides:
            for layer in side.facts["layers"]:
                tensors = set(layer["tensors"])
                touching = [group for group in groups if group & tensors]
                groups = [group for group in groups if not group & tensors] + [tensors.union(*touching)]
        found = [layer for group in groups if (layer := self._layer(group)) is not None]
        return sorted(found, key=lambda layer: layer.calls[0])

    def moved(self, side: Numbers, group: str) -> dict[str, Array]:
        """Gradients, or how far the weights moved up to ``first`` or ``after``."""
        tensors, weights = side.group(group), self.given.weights
        if group == "gradients":
            return tensors
        return {name: array - weights[name] for name, array in tensors.items() if name in weights}

    def _layer(self, group: set[str]) -> Layer | None:
        held, arrays, calls = [], [], []
        for side in self.sides:
            layers = [(at, set(each["tensors"])) for at, each in enumerate(side.facts["layers"])]
            at = [number for number, tensors in layers if tensors & group]
            if not at:
                return None
            held.append(set().union(*(tensors for number, tensors in layers if number in at)))
            first = side.group(f"layers/{at[0]}")
            own = {name: first[name] for name in FIRST if name in first}
            own |= _last_of(side, [at for at in layers if at[1] & group])
            arrays.append({name: _widen(array) for name, array in own.items()})
            calls.append(at[0])
        if held[0] != held[1]:
            arrays = [{name: own[name] for name in FIRST if name in own} for own in arrays]
        weights = self.given.weights
        tensors = {name: array for name, array in weights.items() if name in group}
        name = _name(list(tensors), weights)
        return Layer(name, tensors, arrays[0], arrays[1], (calls[0], calls[1]))


def is_backward(name: str) -> bool:
    """Whether a tensor is of the backward direction of a layer that reads both ways."""
    return "backward" in name


def either_way(name: str) -> str:
    """The name of a tensor without the direction that it is of."""
    return re.sub("forward|backward", "", name)


def _last_of(side: Numbers, layers: list[tuple[int, set[str]]]) -> dict[str, Array]:
    """What the last of these layers gave; where it has two directions, which one side has as two layers, of both."""
    final = {*map(either_way, layers[-1][1])}
    last = [(any(map(is_backward, tensors)), at) for at, tensors in layers if {*map(either_way, tensors)} == final]
    ends = [side.group(f"layers/{at}") for _, at in sorted(last)]
    shapes = {name: {end[name].shape[:-1] if name in end else None for end in ends} for name in LAST}
    found = {name: [end[name] for end in ends] for name in LAST if len(shapes[name]) == 1 and None not in shapes[name]}
    return {name: np.concatenate(each, -1) if len(each) > 1 else each[0] for name, each in found.items()}


def _is_vector(name: str, array: Array) -> bool:
    return array.ndim == 1 or name.rpartition("/")[2].endswith("bias")


@lru_cache(maxsize=1)
def pair_of(one: Numbers, other: Numbers, given: Given) -> Pair:
    """The two, with what was found of them before."""
    return Pair(one, other, given)


def _widen(array: Array) -> Array:
    """Numbers in float64, so that what is computed of them here is not rounded to their own type."""
    return array.astype(np.float64) if np.issubdtype(array.dtype, np.floating) else array


def _name(tensors: list[str], weights: Mapping[str, Array]) -> str:
    """The canonical layers of these tensors, or what they are all in; with their names where a layer has others too."""
    layers = list(dict.fromkeys(name.rpartition("/")[0] or name for name in tensors))
    if len(layers) > 1:
        common = [
            part for part, *others in zip(*(layer.split("/") for layer in layers), strict=False) if {part} == {*others}
        ]
        return "/".join(common) or " and ".join(layers)
    every = [name for name in weights if name.rpartition("/")[0] == layers[0]]
    own = [name for name in tensors if name in every]
    if len(own) == len(every) or not every:
        return layers[0]
    return f"{layers[0]} ({', '.join(name.rpartition('/')[2] for name in own)})"


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

    @cached_property
    def edges(self) -> list[str]:
        """By side, how long what goes into the layer is, where one has an edge that the other lacks and no more."""
        if self.layer is None or self.place.inside or not same(self.targets):
            return []
        one, other = (Counter(side["input"].shape) for side in self.layer.sides)
        return [" x ".join(map(str, rest.elements())) for rest in (one - other, other - one)] if one != other else []

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

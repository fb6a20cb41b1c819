"""What the frameworks computed, the layers of two of them side by side, and the distance between arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from workloads.data.dataset import Array

#: The largest relative distance, in the L2 norm, of what counts as the same in float64.
TOLERANCE = 1e-9
#: How near a hypothesis must come to the numbers that it explains.
EXPLAINED = 1e-7


@dataclass(frozen=True)
class Numbers:
    """The answer of `suite.worker.evidence.proof` for one framework."""

    facts: dict[str, Any]
    arrays: dict[str, Array]

    @property
    def framework(self) -> str:
        return str(self.facts["framework"])

    @property
    def failed(self) -> dict[str, str]:
        """The stage that raised, and the error; empty if none did."""
        return self.facts.get("failed") or {}

    def group(self, name: str) -> dict[str, Array]:
        """The arrays whose names begin with this and a slash, without it."""
        return {key[len(name) + 1 :]: array for key, array in self.arrays.items() if key.startswith(f"{name}/")}

    def has(self, name: str) -> bool:
        return name in self.arrays or bool(self.group(name))


@dataclass(frozen=True)
class Given:
    """What every framework was given: weights and batches, the last of which is for the evaluation.

    ``dropout`` are the spec's rates.
    """

    weights: dict[str, Array]
    batches: list[tuple[Array, Array]]
    dropout: tuple[float, ...] = ()


@dataclass(frozen=True)
class Layer:
    """One layer in two frameworks: its canonical tensors, and by side what went in and came out.

    ``one`` and ``other`` have ``input``, ``output``, the same of some samples with dropout, by pass (``drawn_input``
    and ``drawn_output``), ``mean`` and ``variance``, as far as there are any.
    """

    name: str
    tensors: dict[str, Array]
    one: dict[str, Array]
    other: dict[str, Array]

    @cached_property
    def kernels(self) -> dict[str, Array]:
        return {name: array for name, array in self.tensors.items() if array.ndim > 1}

    @property
    def kernel(self) -> Array | None:
        """The only kernel, if there is one."""
        return next(iter(self.kernels.values())) if len(self.kernels) == 1 else None

    @property
    def bias(self) -> Array | None:
        """The only vector beside a kernel, if there is one."""
        vectors = [array for array in self.tensors.values() if array.ndim == 1]
        return vectors[0] if self.kernels and len(vectors) == 1 else None

    @property
    def affine(self) -> tuple[Array, Array] | None:
        """Scale and shift of a normalisation."""
        if self.kernels:
            return None
        named = {name.rpartition("/")[2]: array for name, array in self.tensors.items()}
        scale = next((named[name] for name in ("scale", "gamma", "weight") if name in named), None)
        shift = next((named[name] for name in ("shift", "beta", "bias") if name in named), None)
        return None if scale is None or shift is None else (scale, shift)

    def pair(self, name: str) -> tuple[Array, Array] | None:
        """What both sides have under this name, in the layout that brings them nearest to each other."""
        if name not in self.one or name not in self.other:
            return None
        return align(self.one[name], self.other[name])


def layers(one: Numbers, other: Numbers, given: Given) -> Iterator[Layer]:
    """The layers that both have, in the order in which the first calls them."""
    others = {tensor: number for number, layer in enumerate(other.facts["layers"]) for tensor in layer["tensors"]}
    for number, layer in enumerate(one.facts["layers"]):
        match = next((others[tensor] for tensor in layer["tensors"] if tensor in others), None)
        if match is None:
            continue
        tensors = {name: given.weights[name] for name in layer["tensors"]}
        yield Layer(
            _name(list(tensors), given.weights), tensors, one.group(f"layers/{number}"), other.group(f"layers/{match}")
        )


def distance(one: Array | float, other: Array | float) -> float:
    """Relative distance in the L2 norm; infinite where the shapes differ or a number is not finite.

    Both are brought to the size of 1 first, by a power of two, which rounds nothing: squares of small and of large
    numbers would leave the range of float64.
    """
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("inf")
    peak = max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0))
    if not peak:
        return 0.0
    a, b = (np.ldexp(array, -int(np.frexp(peak)[1])) for array in (a, b))
    return float(np.linalg.norm(a - b)) / max(float(np.linalg.norm(a)), float(np.linalg.norm(b)))


def distances(one: Mapping[str, Array], other: Mapping[str, Array]) -> dict[str, float]:
    """The distance of every tensor; infinite for one that only one side has."""
    names = [*one, *(name for name in other if name not in one)]
    return {name: distance(one[name], other[name]) if name in one and name in other else np.inf for name in names}


def align(one: Array, other: Array) -> tuple[Array, Array] | None:
    """Both arrays in a common shape, the nearest of those that their axes allow; None if there is none.

    The frameworks' channels stand last or second, their time steps first or second, and a recurrent layer returns all
    of its states or the last one.
    """
    best, nearest = None, np.inf
    orders: dict[int, list[tuple[int, ...]]] = {4: [(0, 1, 2, 3), (0, 2, 3, 1)], 3: [(0, 1, 2), (0, 2, 1), (1, 0, 2)]}
    for a, b in _last_states(one, other):
        for order in orders.get(b.ndim, [tuple(range(b.ndim))]):
            moved = b.transpose(order)
            if moved.shape == a.shape and (gap := distance(a, moved)) < nearest:
                best, nearest = (a, moved), gap
        if best is None and a.size == b.size and len(a) == len(b):
            best = a.reshape(len(a), -1), b.reshape(len(b), -1)
    return best


def same(pair: tuple[Array, Array] | None, tolerance: float = TOLERANCE) -> bool:
    """Whether both are the same; what cannot be compared is not held against them."""
    return pair is None or distance(*pair) <= tolerance


def is_shuffled(pair: tuple[Array, Array] | None) -> bool:
    """Whether every sample has the same values, in another order."""
    if pair is None or same(pair):
        return False
    a, b = (np.sort(array.reshape(len(array), -1), axis=1) for array in pair)
    return distance(a, b) <= TOLERANCE


def _last_states(one: Array, other: Array) -> list[tuple[Array, Array]]:
    if one.ndim == 3 and other.ndim == 2:
        return [(one[:, -1], other), (one[-1], other)]
    if one.ndim == 2 and other.ndim == 3:
        return [(one, other[:, -1]), (one, other[-1])]
    return [(one, other)]


def _name(tensors: list[str], weights: Mapping[str, Array]) -> str:
    """The canonical layer of these tensors; with their names where it has others too."""
    layer = tensors[0].rpartition("/")[0] or tensors[0]
    every = [name for name in weights if name.rpartition("/")[0] == layer]
    own = [name for name in tensors if name in every]
    return layer if len(own) == len(every) or not every else f"{layer} ({', '.join(n.rpartition('/')[2] for n in own)})"

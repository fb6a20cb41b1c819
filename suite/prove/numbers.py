"""What the frameworks computed, what they were given, and the distance between arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from suite.worker.evidence.layers import enlarge, enlarge_inputs
from workloads.data.dataset import Array

#: The largest relative distance, in the L2 norm, of what counts as the same in float64.
TOLERANCE = 1e-9

#: The least size of a gradient, as a share of the largest: what is zero by mathematics was 3e-16 of that at most.
GRADIENT_LEAST = 1e-3

#: Axes of a framework in the order of another: channels last or second, time steps or heads first or second.
ORDERS: dict[int, list[tuple[int, ...]]] = {
    4: [(0, 1, 2, 3), (0, 2, 3, 1), (0, 3, 1, 2), (0, 2, 1, 3)],
    3: [(0, 1, 2), (0, 2, 1), (1, 0, 2)],
}


#: How many rows and columns more a picture may have on one side, which the other has cut off.
EDGE = 2


@dataclass(frozen=True, eq=False)
class Numbers:
    """The answer of `suite.worker.evidence.proof` for one framework."""

    facts: dict[str, Any]
    arrays: dict[str, Array]

    @property
    def framework(self) -> str:
        return str(self.facts["framework"])

    @property
    def scaled(self) -> Numbers:
        """The pass at a larger scale."""
        return Numbers(self.facts, self.group("scaled"))

    def group(self, name: str) -> dict[str, Array]:
        """The arrays whose names begin with this and a slash, without it."""
        return {key[len(name) + 1 :]: array for key, array in self.arrays.items() if key.startswith(f"{name}/")}

    def has(self, name: str) -> bool:
        return name in self.arrays or name in self.facts or bool(self.group(name))


@dataclass(frozen=True, eq=False)
class Given:
    """What every framework was given: weights and batches, the last of which is for the evaluation.

    ``dropout`` are the spec's rates.
    """

    weights: dict[str, Array]
    batches: list[tuple[Array, Array]]
    dropout: tuple[float, ...] = ()

    @property
    def scaled(self) -> Given:
        """The same of the pass at a larger scale."""
        return Given(enlarge(self.weights), [(enlarge_inputs(self.batches), self.batches[0][1])])


def distance(one: Array | float, other: Array | float, least: float = 0.0) -> float:
    """Distance in the L2 norm, relative to the larger norm and ``least``; infinite where shapes differ or for NaN.

    Both are brought to the size of 1 first, by a power of two, which rounds nothing: squares of small and of large
    numbers would leave the range of float64.
    """
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if a.shape != b.shape or not (np.isfinite(a).all() and np.isfinite(b).all()):
        return float("inf")
    peak = max(np.abs(a).max(initial=0.0), np.abs(b).max(initial=0.0), least)
    if not peak:
        return 0.0
    a, b, floor = (np.ldexp(array, -int(np.frexp(peak)[1])) for array in (a, b, np.float64(least)))
    return float(np.linalg.norm(a - b)) / max(float(np.linalg.norm(a)), float(np.linalg.norm(b)), float(floor))


def distances(one: Mapping[str, Array], other: Mapping[str, Array], floor: float = 1.0) -> dict[str, float]:
    """The distance of every tensor, relative to itself or to the ``floor``, a share of the largest of the model.

    Where mathematics make a gradient zero, rounding makes another number of it in each framework. Infinite for a tensor
    that only one side has.
    """
    names = [*one, *(name for name in other if name not in one)]
    norms = [_norm(array) for side in (one, other) for array in side.values()]
    least = floor * max((norm for norm in norms if np.isfinite(norm)), default=0.0)
    return {
        name: distance(one[name], other[name], least) if name in one and name in other else np.inf for name in names
    }


def _norm(array: Array) -> float:
    peak = float(np.abs(array).max(initial=0.0))
    return peak * float(np.linalg.norm(array / peak)) if peak else 0.0


def align(one: Array, other: Array) -> tuple[Array, Array] | None:
    """Both arrays in a common shape; None if there is none.

    Axes may stand in another order (`ORDERS`) if that brings them much nearer, several may be one, a recurrent layer
    returns all of its states or the last one, and a side may have an edge that the other has cut off.
    """
    best, nearest = None, np.inf
    for a, b in _last_states(one, other):
        for order in ORDERS.get(b.ndim, [tuple(range(b.ndim))]):
            moved = b.transpose(order)
            if moved.shape == a.shape and ((gap := distance(a, moved)) < nearest / 10 or best is None):
                best, nearest = (a, moved), gap
        if best is None and a.size == b.size and len(a) == len(b):
            shape = min(a.shape, b.shape, key=len)
            best = a.reshape(shape), b.reshape(shape)
    return best or next(_without_edges(one, other), None)


def _without_edges(one: Array, other: Array) -> Iterator[tuple[Array, Array]]:
    """The pictures (b, h, w, c) of the smaller side, which the larger one has too within an edge."""
    for order in ORDERS[4] if one.ndim == other.ndim == 4 else ():
        sides = one, other.transpose(order)
        high, wide = (min(side.shape[axis] for side in sides) for axis in (1, 2))
        for top, left in product(range(EDGE + 1), repeat=2):
            a, b = (
                side[:, top * (len(side[0]) > high) :, left * (side.shape[2] > wide) :][:, :high, :wide]
                for side in sides
            )
            if distance(a, b) <= TOLERANCE:
                yield a, b


def same(pair: tuple[Array, Array] | None, tolerance: float = TOLERANCE) -> bool:
    """Whether both are the same; what cannot be compared is not held against them."""
    return pair is None or distance(*pair) <= tolerance


def _last_states(one: Array, other: Array) -> list[tuple[Array, Array]]:
    if one.ndim == 3 and other.ndim == 2:
        return [(state, other) for state in last_states(one)]
    if one.ndim == 2 and other.ndim == 3:
        return [(one, state) for state in last_states(other)]
    return [(one, other)]


def last_states(states: Array) -> list[Array]:
    """The last of all states (b, t, units) or (t, b, units), and what each of two directions ended with."""
    half = states.shape[-1] // 2
    return [states[:, -1], states[-1], np.concatenate([states[:, -1, :half], states[:, 0, half:]], -1)]

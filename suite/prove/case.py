"""A difference to be explained: the numbers of both sides and where they differ first."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from suite.prove.compare import Place
from suite.prove.draws import Compared, compare_layers
from suite.prove.numbers import EXPLAINED, Given, Layer, Numbers, distance, layers
from workloads.data.dataset import Array


@dataclass(frozen=True, eq=False)
class Case:
    """``one`` is the reference."""

    one: Numbers
    other: Numbers
    given: Given
    place: Place

    @property
    def layer(self) -> Layer | None:
        return self.place.layer

    @cached_property
    def earlier(self) -> list[Layer]:
        """The layers that the reference calls before the one at which the sides differ."""
        if self.layer is None:
            return []
        every = list(layers(self.one, self.other, self.given))
        return every[: next(at for at, layer in enumerate(every) if layer.name == self.layer.name)]

    @property
    def before(self) -> Layer | None:
        """The last of these."""
        return self.earlier[-1] if self.earlier else None

    @cached_property
    def draws(self) -> list[Compared]:
        """The passes with dropout of both, layer by layer."""
        return list(compare_layers(self.one, self.other, self.given))

    @property
    def sides(self) -> tuple[tuple[str, str], ...]:
        """Both orders of the two frameworks' names, for a test that asks which side did it."""
        a, b = self.one.framework, self.other.framework
        return (a, b), (b, a)

    @property
    def tokens(self) -> Array | None:
        """The first batch's inputs where they are tokens, (b, t), with 0 for padding."""
        inputs = self.given.batches[0][0]
        return inputs if inputs.ndim == 2 and np.issubdtype(inputs.dtype, np.integer) else None


def explains(one: Array | float, other: Array | float) -> bool:
    """Whether a hypothesis comes as near as it must."""
    return distance(one, other) <= EXPLAINED


def factor(one: Array, other: Array) -> float | None:
    """The number by which ``other`` is ``one`` everywhere; None if there is none, or it is 1."""
    a, b = np.asarray(one, np.float64).ravel(), np.asarray(other, np.float64).ravel()
    if a.shape != b.shape or not np.linalg.norm(a):
        return None
    ratio = float(a @ b / (a @ a))
    return ratio if explains(b, ratio * a) and abs(ratio - 1) > EXPLAINED and ratio else None


def whole_number(ratio: float | None) -> int:
    """The whole number above 1 that this ratio or its inverse is; 0 if it is none."""
    for value in (ratio, 1 / ratio) if ratio else ():
        if value > 1.5 and abs(value - round(value)) < 1e-6 * value:
            return round(value)
    return 0

"""Dropout by its draws, which no two frameworks have in common: what they do to the input of each layer.

Compared are the share that is dropped, the factor of what is kept, the spread over the passes, which is seen before a
residual addition too, where nothing is zero, and whether samples, positions and heads have draws of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from suite.prove.layers import Layer, Pair
from suite.prove.masks import LEAST_NUMBERS, LEAST_SHARE, ROUNDING, Draws
from suite.prove.search import Change
from workloads.data.dataset import Array

#: Of a share that differs by chance: so many standard deviations, and `LEAST_SHARE` in any case.
DEVIATIONS = 6.0
#: The same of the logarithm of a spread, whose deviation is that of a few passes.
SPREAD_DEVIATIONS, LEAST_SPREAD = 8.0, 0.1
#: The same of how alike draws are, whose deviation is estimated to be larger than it is; alike to this, they are equal.
ALIKE_DEVIATIONS, LEAST_ALIKE, EQUAL = 5.0, 0.02, 0.9
#: Positions whose draws are looked at, at most.
POSITIONS = 64


@dataclass(frozen=True, eq=False)
class Compared:
    """The draws of two frameworks at one layer."""

    layer: Layer
    sides: tuple[Draws, Draws]

    @cached_property
    def change(self) -> Change | None:
        """What differs and how; the cause is empty where it is not known."""
        one, other = self.sides
        again = [side.repeated for side in self.sides]
        if again[0] != again[1]:
            ways = ("draws the same in several passes" if each else "draws anew in every pass" for each in again)
            return Change("shared draws", *ways)
        if not (one.spread and other.spread):
            return (self._compare_masks() or self._compare_spreads()) if one.spread or other.spread else None
        likeness, value = self._compare_likeness() or (None, 0.0)
        if value > EQUAL:
            return likeness
        return self._compare_masks() or self._compare_spreads() or likeness

    def _compare_masks(self) -> Change | None:  # noqa: PLR0911 -- a list of checks
        one, other = (side.mask for side in self.sides)
        if one is None or other is None:
            return None
        if one.drops != other.drops:
            return Change("dropout missing", str(one), str(other))
        if one.drops and one.of != other.of:
            return Change("place of dropout", str(one), str(other))
        bound = max(DEVIATIONS * float(np.hypot(one.share_error, other.share_error)), LEAST_SHARE)
        if abs(one.share - other.share) <= bound and abs(one.scale - other.scale) <= ROUNDING * abs(one.scale):
            return None
        if one.share and other.share and 1 in (round(one.scale, 6), round(other.scale, 6)):
            return Change(
                "dropout unscaled", *(f"multiplies what is kept by {mask.scale:.4g}" for mask in (one, other))
            )
        if not (one.rate and other.rate):
            return Change("", *(f"{mask}, and multiplies by {mask.scale:.4g}" for mask in (one, other)))
        rates = "rate for keep" if abs(one.rate + other.rate - 1) < ROUNDING else "rate of dropout"
        return Change(rates, str(one), str(other))

    def _compare_spreads(self) -> Change | None:
        one, other = self.sides
        if one.spread and other.spread:
            error = float(np.hypot(one.spread_error, other.spread_error))
            if abs(np.log(one.spread / other.spread)) <= max(SPREAD_DEVIATIONS * error, LEAST_SPREAD):
                return None
        return Change(
            "", *(f"spreads inputs by {s.spread**0.5:.1%}" if s.spread else "draws nothing" for s in self.sides)
        )

    def _compare_likeness(self) -> tuple[Change, float] | None:
        """Along which axis one side has draws in common that the other has not, and how alike they are."""
        masks = [side.mask for side in self.sides]
        draws = [mask.kept for mask in masks if mask and mask.drops]
        width = min((side.plain.shape for side in self.sides), key=len)[-1]
        one, other = (
            _find_likeness(each, width) for each in (draws if len(draws) == 2 else [s.passes for s in self.sides])
        )
        for axis in one.keys() & other.keys():
            values, errors = zip(one[axis], other[axis], strict=True)
            if abs(values[0] - values[1]) > max(LEAST_ALIKE, ALIKE_DEVIATIONS * float(np.hypot(*errors))):
                ways = (f"shares draws between {axis}", f"draws for {axis} by themselves")
                return Change("shared draws", *(ways if values[0] > values[1] else ways[::-1])), max(values)
        return None


def compare_layers(pair: Pair) -> Iterator[Compared]:
    """Every layer with floating-point inputs of which both have passes, in the order in which the first calls them."""
    for at, layer in enumerate(pair.layers):
        if all("drawn_input" in side and np.issubdtype(side["input"].dtype, np.floating) for side in layer.sides):
            before = [each.other for each in pair.layers if each.calls[1] < layer.calls[1]]
            yield Compared(
                layer, (Draws(layer.one, [each.one for each in pair.layers[:at]]), Draws(layer.other, before))
            )


@lru_cache(maxsize=1)
def first_differing(pair: Pair) -> tuple[Layer, Change] | None:
    """The first layer before which draws differ, and how; None where they differ nowhere.

    A dropout that the other side has at a later layer is not missing.
    """
    compared = list(compare_layers(pair))
    here = next((each for each in compared if each.change), None)
    if here is None or here.change is None:
        return None
    drops = [side.drops_beside(here.sides[1 - at]) for at, side in enumerate(here.sides)]
    if here.change.what in ("", "dropout missing") and drops[0] != drops[1]:
        at = drops.index(True)
        for later in compared[compared.index(here) + 1 :]:
            still, drop = later.sides[at].mask, later.sides[1 - at].mask
            if still and drop and drop.drops and not still.drops:
                ways = (f"drops before {here.layer.name}", f"drops before {later.layer.name}")
                return here.layer, Change("place of dropout", *(ways if at == 0 else ways[::-1]))
    return here.layer, here.change


def silent(pair: Pair) -> list[str]:
    """The frameworks whose passes show no draw at any layer, though the spec has a dropout."""
    seen = [each.sides for each in compare_layers(pair)] if any(pair.given.dropout) else []
    drawing = [any(sides[at].spread or sides[at].repeated for sides in seen) for at in (0, 1)]
    return [name for name, draws in zip(pair.names, drawing, strict=True) if any(pair.given.dropout) and not draws]


def _find_likeness(draws: Array, width: int) -> dict[str, tuple[float, float]]:
    """How alike draws (passes, samples, ...) are along each axis: 0 if each has its own, 1 if all have one mask.

    With the standard deviation. Which passes are near to each other depends on the draws alone, whatever is made of
    them; that is compared between samples, positions, and halves of the ``width``, which hold different heads.
    """
    centred = np.nan_to_num(draws - draws.mean(0))
    norms = np.sqrt((centred**2).sum(0))
    unit = np.divide(centred, norms, out=np.zeros_like(centred), where=norms > ROUNDING * norms.max(initial=0.0))
    if np.count_nonzero(unit.any(0)) < LEAST_NUMBERS:
        return {}
    halves = 2 if width % 2 == 0 and width >= 8 else 1
    unit = unit.reshape(*unit.shape[:2], -1, halves, width // halves)
    unit = unit[:, :, :: -(-unit.shape[2] // POSITIONS)]
    near = np.einsum("psthd,qsthd->sthpq", unit, unit)[..., *np.triu_indices(len(unit), 1)]
    near -= near.mean(-1, keepdims=True)
    sizes = np.linalg.norm(near, axis=-1, keepdims=True)
    near = np.divide(near, sizes, out=np.zeros_like(near), where=sizes > ROUNDING)
    return {name: each for at, name in enumerate(("samples", "positions", "heads")) if (each := _correlate(near, at))}


def _correlate(near: Array, axis: int) -> tuple[float, float] | None:
    """The mean correlation of vectors (samples, ..., n) between all pairs along an axis, and its scatter by chance.

    That is at least what independent vectors scatter by, and what leaving out one sample after the other shows.
    """

    def correlate(total: Array, own: Array, counts: Array) -> float:
        pairs = counts * (counts - 1)
        some = pairs > 0
        return float((((total**2).sum(-1) - own)[some] / pairs[some]).mean()) if some.any() else 0.0

    parts = [near, (near**2).sum(-1), near.any(-1)]
    sums = [each.sum(axis) for each in parts]
    pairs = sums[2] * (sums[2] - 1)
    pairs = int(pairs.max() if axis == 0 else pairs.sum())  # a sample's positions may have one draw
    if not pairs:
        return None
    value, without = correlate(*sums), []
    for at in range(len(near)) if len(near) > 2 else ():
        less = zip(sums, parts, strict=True)
        without.append(correlate(*(s - p[at] if axis == 0 else np.delete(s, at, 0) for s, p in less)))
    scatter = float(np.std(without) * len(without) ** 0.5) if without else 0.0
    return value, max(scatter, float(1 / np.sqrt(near.shape[-1] * pairs / 4)))

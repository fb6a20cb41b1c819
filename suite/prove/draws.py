"""Dropout by its draws, which no two frameworks have in common: what they do to the input of each layer.

Compared are the share that is dropped, the factor of what is kept, the spread over the passes, which is seen before a
residual addition too, where nothing is zero, and whether samples, positions or heads have draws of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from suite.prove.arithmetic import passages
from suite.prove.layers import Layer, Pair
from suite.prove.masks import ROUNDING, Mask, correlate_vectors, find_bound, find_mask
from suite.prove.numbers import TOLERANCE, distance
from suite.prove.search import Change
from workloads.data.dataset import Array

#: The same of the logarithm of a spread, whose deviation is that of a few passes.
SPREAD_DEVIATIONS, LEAST_SPREAD = 8.0, 0.1
#: How much more alike draws must be than those of the other side, and in standard deviations, which are estimated to be
#: larger than they are; numbers that show it; positions that are looked at.
LEAST_ALIKE, ALIKE_DEVIATIONS, LEAST_PAIRS, POSITIONS = 0.02, 5.0, 50, 64
#: How far back the parts of a layer's input are looked for.
NEAR = 3


@dataclass(frozen=True, eq=False)
class Draws:
    """The passes of one framework at one layer; ``earlier`` are the layers that it called before, the last one last."""

    side: Mapping[str, Array]
    earlier: tuple[Mapping[str, Array], ...]

    @property
    def passes(self) -> Array:
        """The inputs (passes, samples, ...)."""
        return self.side["drawn_input"]

    @property
    def plain(self) -> Array:
        """The same samples' input without dropout."""
        return self.side["input"][: self.passes.shape[1]]

    @cached_property
    def spread(self) -> float:
        """The variance over the passes by the mean square; 0 where it is of rounding."""
        value = float(self.passes.var(0, ddof=1).mean() / max(float((self.plain**2).mean()), 1e-300))
        return value if value > ROUNDING**2 else 0.0

    @cached_property
    def spread_error(self) -> float:
        """The standard deviation of the spread's logarithm, by leaving out one pass after the other."""
        count = len(self.passes)
        logs = [np.log(np.delete(self.passes, each, 0).var(0, ddof=1).mean()) for each in range(count)]
        return float(np.sqrt((count - 1) * np.var(logs)))

    @cached_property
    def repeated(self) -> bool:
        """Whether two passes have the same draws, which are some."""
        if np.count_nonzero(self.plain) < LEAST_PAIRS or distance(self.passes[0], self.plain) <= ROUNDING:
            return False
        return len({each.tobytes() for each in self.passes}) < len(self.passes)

    @cached_property
    def zeros(self) -> float:
        """The share of inputs that are zero with dropout, less that without."""
        return max(float(np.mean(self.passes == 0)) - float(np.mean(self.plain == 0)), 0.0)

    @cached_property
    def mask(self) -> Mask | None:
        """The dropout between the layers before and this one; None where the input's parts are not found.

        Where an earlier dropout explains the passes as well, there is none here.
        """
        masks = [mask for mask in self._masks() if mask is not None]
        return next((mask for mask in masks if not mask.drops), masks[0] if masks else None)

    def alike(self, shape: tuple[int, ...]) -> dict[str, tuple[float, float]]:
        """How alike draws are along each axis, 0 for those of their own and 1 for one mask, and its standard deviation.

        Which passes are near to each other depends on the draws alone, so that it is compared, whatever is made of
        them: between samples, positions, and the two halves of the numbers, which hold different heads.
        """
        draws = self.mask.kept if self.mask and self.mask.drops else self.passes
        centred = np.nan_to_num(draws - draws.mean(0))
        norms = np.sqrt((centred**2).sum(0))
        unit = np.divide(centred, norms, out=np.zeros_like(centred), where=norms > ROUNDING * norms.max(initial=0.0))
        if np.count_nonzero(unit.any(0)) < LEAST_PAIRS:
            return {}
        width = shape[-1] if unit[0, 0].size % shape[-1] == 0 else unit.shape[-1]
        halves = 2 if width % 2 == 0 and width >= 8 else 1
        unit = unit.reshape(*unit.shape[:2], -1, halves, width // halves)
        unit = unit[:, :, :: -(-unit.shape[2] // POSITIONS)]
        near = np.einsum("psthd,qsthd->sthpq", unit, unit)[..., *np.triu_indices(len(unit), 1)]
        near -= near.mean(-1, keepdims=True)
        sizes = np.linalg.norm(near, axis=-1, keepdims=True)
        near = np.divide(near, sizes, out=np.zeros_like(near), where=sizes > ROUNDING)
        return {
            name: found
            for at, name in enumerate(("samples", "positions", "heads"))
            if (found := correlate_vectors(near, at))
        }

    def _masks(self) -> Iterator[Mask | None]:
        """The dropout, for every way in which the numbers come from those of the layers before."""
        x, plain = self.passes, self.plain
        for layer in self.earlier[: -NEAR - 1 : -1]:
            output, drawn = layer.get("output"), layer.get("drawn_output")
            if output is None or drawn is None or drawn.shape[:2] != x.shape[:2]:
                continue
            output = output[: len(plain)]
            if passage := next(passages(output, plain), None):
                yield find_mask("the input", np.stack([passage(each) for each in drawn]), x)
            for drawn_stem in self._stems(plain - output) if output.shape == plain.shape else ():
                yield find_mask("what is added", drawn, x - drawn_stem)
                yield find_mask("what it is added to", drawn_stem, x - drawn)
                yield find_mask("the sum", drawn + drawn_stem, x)
        if all(distance(*pair) <= ROUNDING for each in self.earlier for pair in _pairs(each)):
            yield find_mask("the input", np.broadcast_to(plain, x.shape), x)
        zero = x == 0
        if plain.all() and zero.any():
            yield Mask("the input", 1.0 - zero, np.nan)

    def _stems(self, rest: Array) -> Iterator[Array]:
        """The passes of what was added: an input or output of an earlier layer."""
        for layer in self.earlier[::-1]:
            for name in ("output", "input"):
                plain, drawn = layer.get(name), layer.get(f"drawn_{name}")
                if plain is not None and drawn is not None and plain[: len(rest)].shape == rest.shape:
                    plain = plain[: len(rest)]
                    if drawn.shape == self.passes.shape and distance(plain, rest) <= TOLERANCE:
                        yield drawn


@dataclass(frozen=True, eq=False)
class Compared:
    """The draws of two frameworks at one layer."""

    layer: Layer
    sides: tuple[Draws, Draws]

    @property
    def masks(self) -> tuple[Mask, Mask] | None:
        """Both dropouts before this layer, if both are found."""
        one, other = (side.mask for side in self.sides)
        return None if one is None or other is None else (one, other)

    @cached_property
    def change(self) -> Change | None:
        """What differs and how; the cause is empty where it is not known."""
        if not any(side.spread or side.repeated for side in self.sides):
            return None
        return self._repeated() or self._share() or self._spread() or self._alike()

    @cached_property
    def _likeness(self) -> list[dict[str, tuple[float, float]]]:
        shape = min((side.plain.shape for side in self.sides), key=len)
        return [side.alike(shape) for side in self.sides]

    def _repeated(self) -> Change | None:
        again = [side.repeated for side in self.sides]
        ways = ("draws the same in several passes" if each else "draws anew in every pass" for each in again)
        return Change("shared draws", *ways) if again[0] != again[1] else self._alike(least=0.9)

    def _share(self) -> Change | None:  # noqa: PLR0911 - a reason after the other
        if self.masks is None:
            shares = [side.zeros for side in self.sides]
            bound = find_bound(shares[0], shares[1], min(side.passes.size for side in self.sides))
            far = abs(shares[0] - shares[1]) > bound
            return Change("", *(f"sets {share:.1%} of the inputs to zero" for share in shares)) if far else None
        one, other = self.masks
        bound = find_bound(one.share, other.share, min(one.count, other.count))
        scaled = abs(one.scale - other.scale) <= ROUNDING * abs(one.scale) or one.drops != other.drops
        if one.drops != other.drops:
            return Change("dropout missing", str(one), str(other))
        if one.drops and one.of != other.of:
            return Change("place of dropout", str(one), str(other))
        if abs(one.share - other.share) <= bound and scaled:
            return None
        if one.share and other.share and 1 in (round(one.scale, 6), round(other.scale, 6)):
            return Change("dropout unscaled", *(f"multiplies what is kept by {mask.scale:.4g}" for mask in self.masks))
        if not (one.rate and other.rate):
            return Change("", *(f"{mask}, and multiplies by {mask.scale:.4g}" for mask in self.masks))
        rates = "rate for keep" if abs(one.rate + other.rate - 1) < ROUNDING else "rate of dropout"
        return Change(rates, str(one), str(other))

    def _spread(self) -> Change | None:
        one, other = self.sides
        if not (one.spread or other.spread):
            return None
        if one.spread and other.spread:
            error = float(np.hypot(one.spread_error, other.spread_error))
            if abs(np.log(one.spread / other.spread)) <= max(SPREAD_DEVIATIONS * error, LEAST_SPREAD):
                return None
        return Change(
            "", *(f"spreads inputs by {s.spread**0.5:.1%}" if s.spread else "draws nothing" for s in self.sides)
        )

    def _alike(self, least: float = LEAST_ALIKE) -> Change | None:
        if not (self.sides[0].spread and self.sides[1].spread):
            return None
        one, other = self._likeness
        for axis in one.keys() & other.keys():
            values, errors = zip(one[axis], other[axis], strict=True)
            if abs(values[0] - values[1]) > max(least, ALIKE_DEVIATIONS * math.hypot(*errors)):
                shares = (f"shares draws between {axis}", f"draws for {axis} by themselves")
                return Change("shared draws", *(shares if values[0] > values[1] else shares[::-1]))
        return None


def compare_layers(pair: Pair) -> Iterator[Compared]:
    """Every layer with floating-point inputs of which both have passes, in the order in which the first calls them."""
    for at, layer in enumerate(pair.layers):
        if all(_has_passes(side) for side in (layer.one, layer.other)):
            before = [each.other for each in pair.layers if each.calls[1] < layer.calls[1]]
            ones = [each.one for each in pair.layers[:at]]
            yield Compared(layer, (Draws(layer.one, tuple(ones)), Draws(layer.other, tuple(before))))


@dataclass(frozen=True)
class Differing:
    """The first layer before which draws differ, and how."""

    layer: Layer
    change: Change


@lru_cache(maxsize=1)
def first_differing(pair: Pair) -> Differing | None:
    """None where draws differ nowhere. A dropout that one side has at a later layer is not missing."""
    compared = list(compare_layers(pair))
    here = next((each for each in compared if each.change), None)
    if here is None or here.change is None:
        return None
    drops = [mask is not None and mask.drops for mask in (side.mask for side in here.sides)]
    if here.change.what in ("", "dropout missing") and drops[0] != drops[1]:
        at = drops.index(True)
        for later in compared[compared.index(here) + 1 :]:
            still, drop = later.sides[at].mask, later.sides[1 - at].mask
            if still and drop and drop.drops and not still.drops:
                ways = (f"drops before {here.layer.name}", f"drops before {later.layer.name}")
                return Differing(here.layer, Change("place of dropout", *(ways if at == 0 else ways[::-1])))
    return Differing(here.layer, here.change)


def silent(pair: Pair) -> list[str]:
    """The frameworks whose passes show no draw at any layer, though the spec has a dropout."""
    if not any(pair.given.dropout):
        return []
    seen = list(compare_layers(pair))
    return [
        name for at, name in enumerate(pair.names)
        if not any(each.sides[at].spread or each.sides[at].repeated for each in seen)
    ]  # fmt: skip


def _has_passes(side: Mapping[str, Array]) -> bool:
    drawn, plain = side.get("drawn_input"), side.get("input")
    return (
        drawn is not None
        and plain is not None
        and np.issubdtype(drawn.dtype, np.floating)
        and drawn.shape[1:] == plain[: drawn.shape[1]].shape
        and drawn.size > 0
    )


def _pairs(side: Mapping[str, Array]) -> Iterator[tuple[Array, Array]]:
    """What a layer takes and gives, in every pass and without dropout."""
    for name in ("input", "output"):
        plain, drawn = side.get(name), side.get(f"drawn_{name}")
        if plain is not None and drawn is not None:
            yield np.broadcast_to(plain[: drawn.shape[1]], drawn.shape), drawn

"""Dropout by its draws, which no two frameworks have in common: what they do to the input of each layer.

Compared are the share that is dropped, the factor of what is kept, whether samples have masks of their own, and the
spread over the passes. The spread is seen before a residual addition too, where nothing is zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from suite.prove.arithmetic import passages
from suite.prove.numbers import TOLERANCE, Given, Layer, Numbers, distance, layers
from workloads.data.dataset import Array

#: Of a share that differs by chance: so many standard deviations, and as much in any case.
DEVIATIONS, LEAST_SHARE = 6.0, 0.02
#: The same of the logarithm of a spread, whose deviation is that of a few passes.
SPREAD_DEVIATIONS, LEAST_SPREAD = 8.0, 0.1
#: Squared correlations of independent draws are 1 / (passes - 1) on average, those of a shared mask 1.
SHARED, LEAST_PAIRS = 0.25, 50
#: The largest relative spread of what rounding alone changes, squared.
ROUNDING = 1e-20
#: How far back the parts of a layer's input are looked for.
NEAR = 3


@dataclass(frozen=True, eq=False)
class Mask:
    """A dropout right before a layer: ``of`` what, what it keeps (passes, samples, ...), and by which factor.

    ``kept`` is NaN where there was nothing to drop.
    """

    of: str
    kept: Array
    scale: float

    @cached_property
    def share(self) -> float:
        """What it drops."""
        return 1 - float(np.nanmean(self.kept))

    @cached_property
    def count(self) -> int:
        return int(np.count_nonzero(~np.isnan(self.kept)))

    @property
    def drops(self) -> bool:
        return self.share > 0 or abs(self.scale - 1) > 1e-6


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
        return value if value > ROUNDING else 0.0

    @cached_property
    def spread_error(self) -> float:
        """The standard deviation of the spread's logarithm, by leaving out one pass after the other."""
        count = len(self.passes)
        logs = [np.log(np.delete(self.passes, each, 0).var(0, ddof=1).mean()) for each in range(count)]
        return float(np.sqrt((count - 1) * np.var(logs)))

    @cached_property
    def repeated(self) -> bool:
        """Whether two passes have the same draws, which are some."""
        if np.count_nonzero(self.plain) < LEAST_PAIRS or np.array_equal(self.passes[0], self.plain):
            return False
        return len({each.tobytes() for each in self.passes}) < len(self.passes)

    @cached_property
    def shared(self) -> dict[str, float]:
        """The mean squared correlation over the passes between neighbours along the batch and along the positions."""
        draws = self.mask.kept if self.mask and self.mask.drops else self.passes
        centred = np.nan_to_num(draws - draws.mean(0))
        norms = np.sqrt((centred**2).sum(0))
        unit = np.divide(centred, norms, out=np.zeros_like(centred), where=norms > 1e-9 * norms.max(initial=0.0))
        found = {}
        for name, axes in (("samples", (1,)), ("positions", tuple(range(2, unit.ndim - 1)))):
            products = [(unit * np.roll(unit, 1, axis)).sum(0) ** 2 for axis in axes if unit.shape[axis] > 1]
            pairs = [each[each > 0] for each in products]  # a number that no pass changes has no correlation
            if pairs and min(each.size for each in pairs) >= LEAST_PAIRS:
                found[name] = float(max(each.mean() for each in pairs))
        return found

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

    def _masks(self) -> Iterator[Mask | None]:
        """The dropout, for every way in which the numbers come from those of the layers before."""
        x, plain = self.passes, self.plain
        for layer in self.earlier[: -NEAR - 1 : -1]:
            output, drawn = layer.get("output"), layer.get("drawn_output")
            if output is None or drawn is None or drawn.shape[:2] != x.shape[:2]:
                continue
            output = output[: len(plain)]
            if passage := next(passages(output, plain), None):
                yield _mask("the input", np.stack([passage(each) for each in drawn]), x)
            for drawn_stem in self._stems(plain - output) if output.shape == plain.shape else ():
                yield _mask("what is added", drawn, x - drawn_stem)
                yield _mask("what it is added to", drawn_stem, x - drawn)
                yield _mask("the sum", drawn + drawn_stem, x)
        if all(np.array_equal(*pair) for each in self.earlier for pair in _pairs(each)):
            yield _mask("the input", np.broadcast_to(plain, x.shape), x)
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
    one: Draws
    other: Draws
    names: tuple[str, str]

    @property
    def masks(self) -> tuple[Mask, Mask] | None:
        """Both dropouts before this layer, if both are found."""
        pair = self.one.mask, self.other.mask
        return None if pair[0] is None or pair[1] is None else (pair[0], pair[1])

    @property
    def words(self) -> str:
        """How the two differ, or nothing."""
        return self.common or self._share() or self._spread()

    @property
    def common(self) -> str:
        """Which of the two has draws in common that should be independent, or nothing."""
        sides = (self.one, self.other)
        for side, against, name in zip(sides, sides[::-1], self.names, strict=True):
            if side.repeated and not against.repeated:
                return f"{name} draws the same in several passes"
            for axis, value in side.shared.items():
                if value - against.shared.get(axis, value) > SHARED:
                    one_mask = side.mask and value > 1 - 1e-9
                    return f"{name} has one mask for all {axis}" if one_mask else f"{name}'s {axis} draw alike"
        return ""

    def _share(self) -> str:
        masks = self.masks
        if masks is None:
            shares, count = (self.one.zeros, self.other.zeros), min(self.one.passes.size, self.other.passes.size)
            if abs(shares[0] - shares[1]) > _find_bound(*shares, count):
                return f"it sets {shares[0]:.1%} of the inputs to zero against {shares[1]:.1%}"
            return ""
        one, other = masks
        if one.drops != other.drops or (one.drops and one.of != other.of):
            return ", ".join(f"{name} drops {_amount(mask)}" for name, mask in zip(self.names, masks, strict=True))
        if abs(one.share - other.share) > _find_bound(one.share, other.share, min(one.count, other.count)):
            return f"it drops {one.share:.1%} against {other.share:.1%}"
        if abs(one.scale - other.scale) > 1e-6 * abs(one.scale):
            return f"what is kept is scaled by {one.scale:.4g} against {other.scale:.4g}"
        return ""

    def _spread(self) -> str:
        one, other = self.one, self.other
        if not one.spread and not other.spread:
            return ""
        for side, name in zip((one, other), self.names, strict=True):
            if not side.spread:
                return f"{name} draws nothing"
        error = float(np.hypot(one.spread_error, other.spread_error))
        if abs(np.log(one.spread / other.spread)) <= max(SPREAD_DEVIATIONS * error, LEAST_SPREAD):
            return ""
        return f"inputs spread by {one.spread**0.5:.1%} over the passes against {other.spread**0.5:.1%}"


def compare_layers(one: Numbers, other: Numbers, given: Given) -> Iterator[Compared]:
    """Every layer with floating-point inputs of which both have passes, in the order in which the first calls them."""
    order = {name: at for at, name in enumerate(_tensors_by_call(other))}
    both = list(layers(one, other, given))
    for at, layer in enumerate(both):
        if all(_has_passes(side) for side in (layer.one, layer.other)):
            before = [each.other for each in both if order[next(iter(each.tensors))] < order[next(iter(layer.tensors))]]
            yield Compared(
                layer, Draws(layer.one, tuple(each.one for each in both[:at])), Draws(layer.other, tuple(before)),
                (one.framework, other.framework),
            )  # fmt: skip


def silent(one: Numbers, other: Numbers, given: Given) -> list[str]:
    """The frameworks whose passes show no draw at any layer, though the spec has a dropout."""
    if not any(given.dropout):
        return []
    seen = list(compare_layers(one, other, given))
    sides = ([each.one for each in seen], [each.other for each in seen])
    return [
        numbers.framework
        for numbers, side in zip((one, other), sides, strict=True)
        if not any(draws.spread or draws.repeated for draws in side)
    ]


def _tensors_by_call(numbers: Numbers) -> list[str]:
    """Canonical tensors in the order in which their layers are called."""
    return [tensor for layer in numbers.facts["layers"] for tensor in layer["tensors"]]


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


def _mask(of: str, base: Array, value: Array) -> Mask | None:
    """The dropout that makes ``value`` of ``base``: zeros, and one multiple everywhere else."""
    there = np.abs(base) > 1e-6 * np.abs(base).max(initial=0.0)
    if not there.any() or np.abs(value[~there]).max(initial=0.0) > 1e-4 * np.abs(base).max():
        return None
    ratios = np.divide(value, base, out=np.full(base.shape, np.nan), where=there)
    kept = np.where(there, np.abs(ratios) > 1e-6, np.nan)
    rest = ratios[kept == 1]
    scale = float(np.median(rest)) if rest.size else 1.0
    return Mask(of, kept, scale) if np.abs(rest - scale).max(initial=0.0) <= 1e-6 * abs(scale) else None


def _find_bound(one: float, other: float, count: int) -> float:
    """How far two shares of so many values may lie apart by chance."""
    variance = max(one * (1 - one), other * (1 - other), 1e-3)
    return max(DEVIATIONS * float(np.sqrt(2 * variance / count)), LEAST_SHARE)


def _amount(mask: Mask) -> str:
    return f"{mask.share:.1%} of {mask.of}" if mask.drops else "nothing"

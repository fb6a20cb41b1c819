"""The dropout before a layer of one framework, found by what it does to the layer's input: its draws and its mask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from suite.prove.arithmetic import passages
from suite.prove.numbers import TOLERANCE, distance
from workloads.data.dataset import Array

#: The least share of zeros that is of a dropout, and numbers that show at least whether draws are alike.
LEAST_SHARE, LEAST_NUMBERS = 0.02, 50
#: The largest relative difference that is of rounding, in float32 too.
ROUNDING = 1e-5
#: Of pairs of passes with the same draws: so many times what is expected, and its root, are of chance.
CHANCE = 5.0
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
    def share_error(self) -> float:
        """The standard deviation of the share, by those of the passes; a pass may drop few things, but large ones."""
        shares = np.nanmean(self.kept.reshape(len(self.kept), -1), 1)
        return float(shares.std(ddof=1) / np.sqrt(len(shares)))

    @property
    def drops(self) -> bool:
        return self.share > 0 or abs(self.scale - 1) > ROUNDING

    @property
    def rate(self) -> float:
        """The rate that scales by 1 / (1 - rate); 0 where the share that is dropped is not near it."""
        rate = 1 - 1 / self.scale if self.drops and self.scale > 1 else 0.0
        return rate if abs(rate - self.share) < 0.1 else 0.0

    def __str__(self) -> str:
        return f"drops {self.rate or self.share:.1%} of {self.of}" if self.drops else "drops nothing"


@dataclass(frozen=True, eq=False)
class Draws:
    """The passes of one framework at one layer; ``earlier`` are the layers that it called before, the last one last."""

    side: Mapping[str, Array]
    earlier: list[dict[str, Array]]

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
        """Whether passes have the same draws, which are some, more often than samples of their own have by chance."""
        if np.count_nonzero(self.plain) < LEAST_NUMBERS or distance(self.passes[0], self.plain) <= ROUNDING:
            return False
        drawn = np.array([[hash(sample.tobytes()) for sample in each] for each in self.passes])
        alike = np.stack([drawn[one] == drawn[other] for one, other in combinations(range(len(drawn)), 2)])
        expected, count = len(alike) * alike.mean(0).prod(), np.count_nonzero(alike.all(1))
        return bool(count == len(alike) or count > CHANCE * (expected + np.sqrt(expected)))

    @cached_property
    def mask(self) -> Mask | None:
        """The dropout between the layers before and this one; None where the input's parts are not found.

        Where an earlier dropout explains the passes as well, there is none here.
        """
        masks = [mask for mask in self._masks() if mask is not None]
        return next((mask for mask in masks if not mask.drops), masks[0] if masks else None)

    def drops_beside(self, other: Draws) -> bool:
        """Whether it drops: by its mask, or where none is found by zeros, which the other side does not make."""
        return self.mask.drops if self.mask else self.zeroed and not other.zeroed

    @cached_property
    def zeroed(self) -> bool:
        """Whether it makes zeros of numbers, in no sample much more rarely than in others."""
        there = (self.plain != 0).reshape(len(self.plain), -1)
        zeros = (self.passes == 0).reshape(*self.passes.shape[:2], -1).mean(0)
        shares = (zeros * there).sum(1) / np.maximum(there.sum(1), 1)
        return bool(shares.max() >= LEAST_SHARE and shares.min() > shares.max() / 2)

    def _masks(self) -> Iterator[Mask | None]:
        """The dropout, for every way in which the numbers come from those of the layers before."""
        x, plain = self.passes, self.plain
        arrays = [list(_arrays(layer)) for layer in self.earlier]
        for output, drawn in (layer[0] for layer in arrays[: -NEAR - 1 : -1] if layer):
            if drawn.shape[:2] == x.shape[:2] and (passage := next(passages(output, plain), None)):
                yield _mask("the input", np.stack([passage(each) for each in drawn]), x)
            for drawn_stem in self._stems(arrays, plain - output) if output.shape == plain.shape else ():
                yield _mask("what is added", drawn, x - drawn_stem)
                yield _mask("what it is added to", drawn_stem, x - drawn)
                yield _mask("the sum", drawn + drawn_stem, x)
        if all(
            distance(np.broadcast_to(still, drawn.shape), drawn) <= ROUNDING for each in arrays for still, drawn in each
        ):
            yield _mask("the input", np.broadcast_to(plain, x.shape), x)

    def _stems(self, arrays: list[list[tuple[Array, Array]]], rest: Array) -> Iterator[Array]:
        """The passes of what is beside a layer's output: of a layer before, or of a table, which is no layer."""
        for still, drawn in (pair for layer in arrays[::-1] for pair in layer):
            if drawn.shape == self.passes.shape and distance(still, rest) <= TOLERANCE:
                yield drawn
        if distance(np.broadcast_to(rest[:1], rest.shape), rest) <= TOLERANCE:
            yield np.broadcast_to(rest[:1], self.passes.shape)


def _arrays(side: Mapping[str, Array]) -> Iterator[tuple[Array, Array]]:
    """What a layer gives and takes: without dropout, of as many samples as in the passes, and in these."""
    for name in ("output", "input"):
        if name in side and f"drawn_{name}" in side:
            drawn = side[f"drawn_{name}"]
            yield side[name][: drawn.shape[1]], drawn


def _mask(of: str, base: Array, value: Array) -> Mask | None:
    """The dropout that makes ``value`` of ``base``: zeros, and one multiple everywhere else."""
    there = np.abs(base) > 1e-6 * np.abs(base).max(initial=0.0)
    if not there.any() or np.abs(value[~there]).max(initial=0.0) > 1e-4 * np.abs(base).max():
        return None
    ratios = np.divide(value, base, out=np.full(base.shape, np.nan), where=there)
    kept = np.where(there, np.abs(ratios) > ROUNDING, np.nan)
    rest = ratios[kept == 1]
    scale = float(np.median(rest)) if rest.size else 1.0
    return Mask(of, kept, scale) if np.abs(rest - scale).max(initial=0.0) <= ROUNDING * abs(scale) else None

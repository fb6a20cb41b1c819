"""One loop that finds most causes: both sides computed anew by a formula with one thing done in another way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice, product
from typing import Any

import numpy as np

from suite.prove.numbers import distance
from workloads.data.dataset import Array

#: How near a formula must come to the numbers that it explains: so near, and to this share of what is to be explained.
EXPLAINED, SHARE, EXACT = 1e-7, 1e-2, 1e-12
#: Settings of a formula that are tried at most.
TRIED = 10_000


@dataclass(frozen=True)
class Formula:
    """How something may be computed.

    ``ways`` has, by what can be done in several ways, the ways by their names, the usual one first. ``compute`` takes
    samples, as an index or all, and one way of each; it returns None where these do not go together. ``most`` are the
    unusual ways that are taken at the same time.
    """

    ways: dict[str, dict[str, Any]]
    compute: Callable[..., Array | None]
    most: int = 2


@dataclass(frozen=True)
class Change:
    """What two sides do in two ways, and these."""

    what: str
    one: str
    other: str


def find_change(formula: Formula, targets: tuple[Array, Array], few: list[int] | None = None) -> Change | None:
    """The one thing that, done in two ways, explains the numbers of both sides.

    None where no formula gives those of a side, or where more than one thing explains the difference. ``few`` are
    samples that are tried before all.
    """
    near = closeness(*targets)
    ways = {what: formula.ways[what] for what in formula.ways if len(formula.ways[what]) > 1}
    fixed = {what: next(iter(each.values())) for what, each in formula.ways.items() if len(each) == 1}
    tried: dict[tuple[str, ...], list[bool]] = {}

    def fits(setting: tuple[str, ...]) -> list[bool]:
        if setting not in tried:
            tried[setting] = [True, True]
            chosen = {what: ways[what][way] for what, way in zip(ways, setting, strict=True)}
            for rows in (few, None) if few else (None,):
                if any(tried[setting]):
                    array = formula.compute(slice(None) if rows is None else rows, **chosen, **fixed)
                    sides = targets if rows is None else tuple(each[rows] for each in targets)
                    gaps = [np.inf if array is None else distance(array, side) for side in sides]
                    tried[setting] = [fit and gap <= near for fit, gap in zip(tried[setting], gaps, strict=True)]
        return tried[setting]

    for setting in islice(_nearest_first(ways, formula.most), TRIED):
        here = fits(setting)
        if all(here):
            return None
        if any(here):
            at = here.index(True)
            changes = [(what, way) for what, way, each in _change_one(ways, setting) if fits(each)[1 - at]]
            if len({what for what, _ in changes}) > 1:
                return None
            if changes:
                return _change(ways, setting, *changes[0], at)
    return None


def _change(ways: dict[str, dict[str, Any]], setting: tuple[str, ...], what: str, way: str, at: int) -> Change:
    pair = setting[list(ways).index(what)], way
    return Change(what, *(pair if at == 0 else pair[::-1]))


def closeness(one: Array, other: Array) -> float:
    """How near a hypothesis must come to one of these numbers to explain it."""
    return float(np.clip(SHARE * distance(one, other), EXACT, EXPLAINED))


def _nearest_first(ways: dict[str, dict[str, Any]], most: int) -> Iterator[tuple[str, ...]]:
    """One way of each, those with the fewest unusual ones first."""
    names = {what: list(each) for what, each in ways.items()}
    for count in range(most + 1):
        for changed in combinations(names, count):
            yield from product(*(each[1:] if what in changed else each[:1] for what, each in names.items()))


def _change_one(
    ways: dict[str, dict[str, Any]], setting: tuple[str, ...]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    for at, what in enumerate(ways):
        for way in ways[what]:
            if way != setting[at]:
                yield what, way, (*setting[:at], way, *setting[at + 1 :])

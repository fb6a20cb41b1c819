"""What each setting brought in a race, and which settings interact.

The effect of a value is its ratio to the base value over all pairs of cells that differ in nothing else, weighted by
their blocks; the noise is that of the whole race. Settings interact where the ratios of the pairs differ by more than
that noise: an F-test of their scatter, with Holm's correction over all effects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from suite.analysis.statistics.inference import LEVEL, Paired, holm
from suite.analysis.statistics.noise import Fit, Scores
from suite.plan.cell import USUAL_COMPILE, Cell
from suite.plan.sweeps.sweep import AXES, spell_value

#: Settings whose effects are looked for: the axes of a sweep, but for workload and size, which have races of their own.
SETTINGS = tuple(axis for axis in AXES if axis not in ("workload", "size"))


@dataclass(frozen=True)
class Effect:
    """A setting's value against its base, and where it depends on another setting: that one, and the effect by value.

    ``p`` is that of no interaction, after Holm's correction; None with fewer than two pairs.
    """

    setting: str
    value: str
    base: str
    ratio: Paired  # whose blocks are pairs of cells
    p: float | None = None
    depends_on: str = ""
    by_value: Mapping[str, Paired] | None = None


@dataclass(frozen=True)
class _Pair:
    cell: Cell  # with the base value
    log: float
    blocks: int


def effects(cells: Sequence[Cell], scores: Scores, fitted: Fit) -> list[Effect]:
    """The effects of all settings that vary, on the objective of these scores (blocks, cells), as ratios above 1."""
    if not fitted.freedom:
        return []
    column = {cell: at for at, cell in enumerate(cells)}
    found: list[tuple[Effect, list[_Pair]]] = []
    for setting in SETTINGS:
        values = list(dict.fromkeys(place(cell, setting) for cell in cells))
        found += [
            (Effect(setting, value, values[0], _ratio(pairs, fitted)), pairs)
            for value in values[1:]
            if (pairs := _pairs(column, scores, setting, values[0], value))
        ]
    tests = [_interaction(pairs, fitted) for _, pairs in found]
    corrected = iter(holm([p for p in tests if p is not None]))
    done = []
    for (effect, pairs), test in zip(found, tests, strict=True):
        tested = effect if test is None else replace(effect, p=next(corrected))
        done.append(_explain(tested, pairs, fitted) if tested.p is not None and tested.p < LEVEL else tested)
    return done


def place(cell: Cell, setting: str) -> str:
    """The value of a setting as text; the usual compile modes of the frameworks are one value."""
    if setting == "compile" and cell.compile == USUAL_COMPILE[cell.framework]:
        return "usual"
    return spell_value(setting, getattr(cell, setting))


def _pairs(column: Mapping[Cell, int], scores: Scores, setting: str, base: str, value: str) -> list[_Pair]:
    bases = {_key(cell, setting): cell for cell in column if place(cell, setting) == base}
    pairs = []
    for cell in column:
        other = bases.get(_key(cell, setting)) if place(cell, setting) == value else None
        if other is None:
            continue
        logs = scores[:, column[cell]] - scores[:, column[other]]
        shared = logs[~np.isnan(logs)]
        if len(shared):
            pairs.append(_Pair(other, float(shared.mean()), len(shared)))
    return pairs


def _key(cell: Cell, setting: str) -> tuple[Any, ...]:
    return tuple(place(cell, name) for name in AXES if name != setting)


def _ratio(pairs: Sequence[_Pair], fitted: Fit) -> Paired:
    blocks = sum(pair.blocks for pair in pairs)
    log = sum(pair.log * pair.blocks for pair in pairs) / blocks
    half = fitted.reach(LEVEL / 2) * fitted.deviation * math.sqrt(2 / blocks)
    return Paired(math.exp(log), math.exp(log - half), math.exp(log + half), len(pairs))


def _interaction(pairs: Sequence[_Pair], fitted: Fit) -> float | None:
    if len(pairs) < 2:
        return None
    variance = 2 * fitted.deviation**2
    spread = _scatter(pairs)
    if variance == 0:
        return 1.0 if spread < 1e-18 else 0.0
    return float(special.fdtrc(len(pairs) - 1, fitted.freedom, spread / (len(pairs) - 1) / variance))


def _scatter(pairs: Sequence[_Pair]) -> float:
    mean = sum(pair.log * pair.blocks for pair in pairs) / sum(pair.blocks for pair in pairs)
    return sum(pair.blocks * (pair.log - mean) ** 2 for pair in pairs)


def _explain(effect: Effect, pairs: Sequence[_Pair], fitted: Fit) -> Effect:
    best, least = "", math.inf
    for setting in SETTINGS:
        groups = _group(pairs, setting)
        if setting != effect.setting and 1 < len(groups) <= len(pairs):
            left = sum(map(_scatter, groups.values())) * (1 + 0.1 * len(groups))
            if left < least:
                best, least = setting, left
    if not best:
        return effect
    by_value = {value: _ratio(group, fitted) for value, group in _group(pairs, best).items()}
    return replace(effect, depends_on=best, by_value=by_value)


def _group(pairs: Sequence[_Pair], setting: str) -> dict[str, list[_Pair]]:
    groups: dict[str, list[_Pair]] = {}
    for pair in pairs:
        groups.setdefault(place(pair.cell, setting), []).append(pair)
    return groups

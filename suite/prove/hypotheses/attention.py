"""Of attention, from the projections to what the heads give: mask, axis of the softmax, temperature, order, heads.

Both sides are computed anew by the formula, each with what makes it agree to rounding; what these two differ in is the
cause. Nothing is said where either side is no such attention, or where more than one difference would explain it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np

from suite.prove.case import Case, explains
from suite.prove.numbers import same
from workloads.data.dataset import Array

#: Samples on which a formula is tried before it is held against all.
TRIED = 2


@dataclass(frozen=True)
class Formula:
    """``order`` is where queries, keys and values stand; ``layout`` and ``merged`` how heads are split and joined."""

    order: tuple[int, ...] = (0, 1, 2)
    layout: str = "one after the other"
    heads: int = 1
    merged: str = "side by side"
    scale: str = "1 / sqrt(head width)"
    mask: str = "all positions"
    axis: str = "keys"


@dataclass(frozen=True)
class Found:
    """What the sides differ in: the name of a field, and its values in the reference and the other."""

    field: str
    one: str
    other: str


def mask(case: Case) -> str:
    """One attends to other positions."""
    return _said(case, "mask", "{0} attends to {1}, {2} to {3}")


def axis(case: Case) -> str:
    """One takes the softmax over queries or heads."""
    return _said(case, "axis", "{0} takes it over the {1}, {2} over the {3}")


def temperature(case: Case) -> str:
    """One multiplies the scores by another number."""
    return _said(case, "scale", "{0} multiplies the scores by {1}, {2} by {3}")


def projections(case: Case) -> str:
    """Queries, keys and values in another order."""
    return _said(case, "order", "{0} has {1}, {2} {3}")


def heads(case: Case) -> str:
    """Another number of heads, or heads that are split or joined in another order."""
    return (
        _said(case, "heads", "{0} has {1} heads, {2} {3}")
        or _said(case, "layout", "queries, keys and values: {0} has them {1}, {2} {3}")
        or _said(case, "merged", "the heads' outputs: {0} has them {1}, {2} {3}")
    )


def _said(case: Case, field: str, form: str) -> str:
    found = _find(case)
    if found is None or found.field != field:
        return ""
    return form.format(case.one.framework, found.one, case.other.framework, found.other)


@lru_cache(maxsize=1)
def _find(case: Case) -> Found | None:
    pair = case.layer.pair("input") if case.layer and not case.place.inside else None
    if pair is None or pair[0].ndim != 3:
        return None
    for parts in _projections(case, pair[0].shape):
        masks = _masks(case, pair[0].shape[1])
        few = _few(case, len(pair[0]))
        for at in (0, 1):
            here, there = pair[at], pair[1 - at]
            right = next((f for f in _usual(parts, masks) if _fits(f, parts, masks, here, few)), None)
            if right is None:
                continue
            changed = [f for f in _change_one(right, parts, masks) if _fits(f, parts, masks, there, few)]
            names = {_differing(right, formula) for formula in changed}
            if len(names) != 1:
                return None
            (name,) = names
            values = [_value(formula, name) for formula in (right, changed[0])]
            return Found(name, *(values if at == 0 else values[::-1]))
    return None


def _projections(case: Case, shape: tuple[int, ...]) -> Iterator[Array]:
    """Outputs of the layers before that may be the projections: (b, positions, 3, width), as they stand there."""
    outputs = [(layer, layer.pair("output")) for layer in case.earlier]
    last = [pair[0] for _, pair in outputs[-1:] if pair and same(pair)]
    for output in last:
        if output.shape == (*shape[:2], 3 * shape[2]):
            yield output
    three = [(layer, pair) for layer, pair in outputs[-3:] if pair and same(pair) and pair[0].shape == shape]
    inputs = [layer.one.get("input") for layer, _ in three]
    if len(three) == 3 and all(i is not None and inputs[0] is not None and explains(i, inputs[0]) for i in inputs):
        yield np.concatenate([pair[0] for _, pair in three], -1)


def _masks(case: Case, positions: int) -> dict[str, Array | None]:
    """What may be attended to, by name, (b, queries, keys) or less of it."""
    found: dict[str, Array | None] = {"all positions": None}
    causal = np.tril(np.ones((1, positions, positions), bool))
    if case.tokens is not None:
        words = np.maximum(np.count_nonzero(case.tokens, axis=1), 1)[:, None, None]
        places = np.arange(positions)[None, None]
        padded = {"the words in front": places < words, "the words behind": places >= positions - words}
        found |= {name: array for name, array in padded.items() if not array.all()}
    found |= {
        f"{name} up to the query's": causal if array is None else causal & array for name, array in list(found.items())
    }
    return found


def _few(case: Case, samples: int) -> list[int]:
    """The samples with the fewest and with the most words."""
    if case.tokens is None:
        return list(range(min(TRIED, samples)))
    order = np.argsort(np.count_nonzero(case.tokens, axis=1), kind="stable")
    return [int(order[0]), int(order[-1])]


def _usual(parts: Array, masks: dict[str, Array | None]) -> Iterator[Formula]:
    """The formula as it should be, for every number of heads and mask."""
    for count in _counts(parts):
        for name in masks:
            for layout in _LAYOUTS:
                yield Formula(heads=count, mask=name, layout=layout)


def _change_one(right: Formula, parts: Array, masks: dict[str, Array | None]) -> Iterator[Formula]:
    """The formula with one thing changed."""
    values: dict[str, Sequence[Any]] = {
        "order": list(permutations(range(3))), "layout": _LAYOUTS, "heads": _counts(parts), "merged": list(_MERGED),
        "scale": list(_SCALES), "mask": list(masks), "axis": list(_AXES),
    }  # fmt: skip
    for name, choices in values.items():
        for choice in choices:
            if choice != getattr(right, name):
                yield replace(right, **{name: choice})


def _counts(parts: Array) -> list[int]:
    width = parts.shape[-1] // 3
    return [count for count in range(1, width // 2 + 1) if width % count == 0]


def _differing(one: Formula, other: Formula) -> str:
    return next(f.name for f, a, b in zip(fields(one), astuple(one), astuple(other), strict=True) if a != b)


def _value(formula: Formula, name: str) -> str:
    if name != "order":
        return str(getattr(formula, name))
    return ", ".join(("queries", "keys", "values")[formula.order.index(at)] for at in range(3))


def _fits(formula: Formula, parts: Array, masks: dict[str, Array | None], there: Array, few: list[int]) -> bool:
    allowed = masks[formula.mask]
    for chosen in (few, list(range(len(there)))):
        own = allowed[chosen] if allowed is not None and len(allowed) > 1 else allowed
        if not explains(attention(formula, parts[chosen], own), there[chosen]):
            return False
    return True


def attention(formula: Formula, parts: Array, allowed: Array | None) -> Array:
    """Of projections (b, positions, 3 * width) the heads' outputs (b, positions, width)."""
    samples, positions, _ = parts.shape
    shape = (3, formula.heads, -1) if formula.layout == _LAYOUTS[0] else (formula.heads, 3, -1)
    split = parts.reshape(samples, positions, *shape)
    split = split.transpose(2, 0, 3, 1, 4) if formula.layout == _LAYOUTS[0] else split.transpose(3, 0, 2, 1, 4)
    query, key, value = (split[at] for at in formula.order)
    of_width, of_heads = _SCALES[formula.scale]
    scores = query @ key.swapaxes(2, 3) * (query.shape[-1] ** of_width * formula.heads**of_heads)
    if allowed is not None:
        scores = np.where(allowed[:, None], scores, -1e300)
    over = _AXES[formula.axis]
    weights = np.exp(scores - scores.max(over, keepdims=True))
    attended = weights / weights.sum(over, keepdims=True) @ value
    return np.asarray(attended.transpose(_MERGED[formula.merged]).reshape(samples, positions, -1))


_LAYOUTS = ["one after the other", "head by head"]
#: Of (b, heads, positions, head width).
_MERGED = {"side by side": (0, 2, 1, 3), "as they lie": (0, 1, 2, 3), "number by number": (0, 2, 3, 1)}
_AXES = {"keys": -1, "queries": -2, "heads": 1}
#: Exponents of the head's width and of the number of heads.
_SCALES = {
    "1 / sqrt(head width)": (-0.5, 0.0),
    "1": (0.0, 0.0),
    "1 / sqrt(width)": (-0.5, -0.5),
    "1 / head width": (-1.0, 0.0),
    "sqrt(head width)": (0.5, 0.0),
}

"""Of gradients, steps and dropout."""

from __future__ import annotations

import numpy as np

from suite.prove.case import Case, factor, whole
from suite.prove.compare import dropouts, movements, scale
from suite.prove.numbers import distance
from workloads.data.dataset import Array


def summed(case: Case) -> str:
    """All gradients are the same multiple of the others."""
    one, other = case.one.group("gradients"), case.other.group("gradients")
    names = [name for name in one if name in other]
    if not names:
        return ""
    joined = [np.concatenate([side[name].ravel() for name in names]) for side in (one, other)]
    count = whole(factor(*joined))
    return f"all gradients differ by the factor {count}" if count else ""


def stopped(case: Case) -> str:
    """Some tensors have no gradient on one side."""
    sides = [case.one.group("gradients"), case.other.group("gradients")]
    for (with_one, without), (_, wrong) in zip((sides, sides[::-1]), case.sides, strict=True):
        names = [name for name, array in with_one.items() if array.any() and not np.any(without.get(name, 0))]
        if names:
            return f"{', '.join(names[:3])}{' and more' if len(names) > 3 else ''}: none in {wrong}"
    return ""


def bias_twice(case: Case) -> str:
    """A vector moves twice as far in the first step, as the sum of two trained ones does."""
    one, other = _moved(case)
    names = [name for name in one if one[name].ndim == 1 and whole(_ratio(one[name], other.get(name))) == 2]
    if not names:
        return _second_vector(case)
    ratio = _ratio(one[names[0]], other[names[0]]) or 0.0
    return f"{names[0]} moves twice as far in {(case.other if ratio > 1 else case.one).framework}: it trains two"


def _second_vector(case: Case) -> str:
    """One side trains as many parameters more as a vector has, which its exported tensors do not show."""
    counts = [int(side.facts.get("trained", 0)) for side in (case.one, case.other)]
    vectors = {name: array.size for name, array in case.given.weights.items() if array.ndim == 1}
    names = [name for name, size in vectors.items() if size == abs(counts[1] - counts[0])]
    if not names:
        return ""
    more = case.other if counts[1] > counts[0] else case.one
    return (
        f"{more.framework} trains {abs(counts[1] - counts[0])} parameters more, as many as {' or '.join(names[:2])} has"
    )


def frozen(case: Case) -> str:
    """A tensor that does not move."""
    sides = _moved(case)
    for (moving, still), (_, wrong) in zip((sides, sides[::-1]), case.sides, strict=True):
        names = [name for name, array in moving.items() if array.any() and name in still and not still[name].any()]
        if names:
            return f"{', '.join(names[:3])} stays where it is in {wrong}"
    return ""


def dropout_in_evaluation(case: Case) -> str:
    """The evaluation of a model with dropout is not that of the same one without."""
    for side in (case.one, case.other):
        start, dropped = side.arrays["evaluation/start"], side.arrays.get("evaluation/dropout")
        if dropped is not None and distance(start, dropped) > 1e-9:
            return f"dropout stays on in {side.framework}'s evaluation"
    return ""


def rate_for_keep(case: Case) -> str:
    """The share that one drops is the share that the other keeps."""
    shares = _dropped(case)
    if shares is None or abs(shares[0] - shares[1]) < 0.02 or abs(shares[0] + shares[1] - 1) > 0.03:
        return ""
    words = f"{case.one.framework} drops {shares[0]:.0%}, {case.other.framework} {shares[1]:.0%}"
    return f"{words}: the rate is taken for what is kept"


def unscaled(case: Case) -> str:
    """One leaves what it keeps as it is."""
    layer = case.layer
    scales = [scale(side) for side in (layer.one, layer.other)] if layer else []
    for value, name in zip(scales, case.sides[0], strict=False):
        others = [each for each in scales if each is not None and each > 1 + 1e-6]
        if value is not None and abs(value - 1) < 1e-9 and others:
            return f"{name} does not scale what it keeps; the other multiplies it by {others[0]:.4g}"
    return ""


def missing(case: Case) -> str:
    """One drops nothing."""
    shares = _dropped(case)
    for share, other, name in (
        [] if shares is None else zip(shares, shares[::-1], case.sides[0], strict=True)
    ):  # fmt: skip
        if share < 1e-9 < other:
            return f"{name} drops nothing, the other {other:.0%}"
    return ""


def _dropped(case: Case) -> tuple[float, float] | None:
    """The shares of inputs that dropout makes zero, where they were not."""
    layer = case.layer
    if layer is None or not any(words for _, words in dropouts(case.one, case.other, case.given)):
        return None
    shares = []
    for side in (layer.one, layer.other):
        drawn, plain = side.get("drawn"), side.get("input")
        if drawn is None or plain is None or drawn.shape[1:] != plain.shape:
            return None
        there = np.broadcast_to(plain != 0, drawn.shape)
        shares.append(float(np.mean(drawn[there] == 0)) if there.any() else 0.0)
    return shares[0], shares[1]


def _moved(case: Case) -> tuple[dict[str, Array], dict[str, Array]]:
    """How far every tensor moved in the first step."""
    return movements(case.one, "first", case.given), movements(case.other, "first", case.given)


def _ratio(one: Array, other: Array | None) -> float | None:
    return None if other is None else factor(one, other)

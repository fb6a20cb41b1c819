"""Of gradients and steps."""

from __future__ import annotations

import numpy as np

from suite.prove.case import Case, factor, whole_number
from suite.prove.compare import movements
from workloads.data.dataset import Array


def summed(case: Case) -> str:
    """All gradients are the same multiple of the others."""
    one, other = case.one.group("gradients"), case.other.group("gradients")
    names = [name for name in one if name in other]
    if not names:
        return ""
    joined = [np.concatenate([side[name].ravel() for name in names]) for side in (one, other)]
    count = whole_number(factor(*joined))
    batch = len(case.given.batches[0][1])
    return f"all gradients differ by the factor {count}, the batch's samples" if count == batch else ""


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
    one, other = _find_moves(case)
    more = _more(case)
    names = [name for name in more if name in one and whole_number(_ratio(one[name], other.get(name))) == 2]
    if not names:
        return _second_vector(case)
    ratio = _ratio(one[names[0]], other[names[0]]) or 0.0
    return f"{names[0]} moves twice as far in {(case.other if ratio > 1 else case.one).framework}: it trains two"


def _second_vector(case: Case) -> str:
    """One side trains as many parameters more as a bias has, which its exported tensors do not show."""
    names, counts = _more(case), _counts(case)
    if not names or case.one.group("weights").keys() != case.other.group("weights").keys():
        return ""
    more = case.other if counts[1] > counts[0] else case.one
    return (
        f"{more.framework} trains {abs(counts[1] - counts[0])} parameters more, as many as {' or '.join(names[:2])} has"
    )


def _more(case: Case) -> list[str]:
    """The biases that have as many parameters as one side trains more."""
    counts = _counts(case)
    vectors = {name: array.size for name, array in case.given.weights.items() if array.ndim == 1 and "bias" in name}
    return [name for name, size in vectors.items() if size == abs(counts[1] - counts[0])]


def _counts(case: Case) -> list[int]:
    return [int(side.facts.get("trained", 0)) for side in (case.one, case.other)]


def frozen(case: Case) -> str:
    """A tensor that does not move."""
    sides = _find_moves(case)
    for (moving, still), (_, wrong) in zip((sides, sides[::-1]), case.sides, strict=True):
        names = [name for name, array in moving.items() if array.any() and name in still and not still[name].any()]
        if names:
            return f"{', '.join(names[:3])} stays where it is in {wrong}"
    return ""


def _find_moves(case: Case) -> tuple[dict[str, Array], dict[str, Array]]:
    """How far every tensor moved in the first step."""
    return movements(case.one, "first", case.given), movements(case.other, "first", case.given)


def _ratio(one: Array, other: Array | None) -> float | None:
    return None if other is None else factor(one, other)

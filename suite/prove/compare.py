"""The checks of a proof: two frameworks side by side, and where they differ first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from suite.prove.draws import first_differing, silent
from suite.prove.layers import Layer, Pair, Place, pair_of
from suite.prove.numbers import GRADIENT_LEAST, TOLERANCE, Given, Numbers, distance, distances, same
from suite.worker.evidence.layers import SCALE
from workloads.data.dataset import Array

#: At a larger scale, by how many times a change of all weights by a few roundings the answers may differ; and how much
#: of them that may be, above which nothing is compared there.
AMPLIFIED, CHAOTIC = 10.0, 1e-3
#: A gradient that is no larger than so much of the model's largest is zero by mathematics.
STILL = 1e-9
#: How far the share of a sample's right positions may be off: frameworks divide two integers in float32 or in float64.
SHARE_ROUNDING = 1e-6


@dataclass(frozen=True)
class Check:
    """One line of the table: ``same`` is None where a side could not be compared; ``detail`` says what differs.

    ``seen`` is False where there should be something to compare and neither side shows it, ``failed`` where a side
    ended with an error, ``skipped`` where both sides have something that cannot be compared.
    """

    name: str
    same: bool | None
    deviation: float | None = None
    detail: str = ""
    seen: bool = True
    failed: bool = False
    skipped: bool = False


def checks(one: Numbers, other: Numbers, given: Given) -> list[Check]:
    """All checks of ``other`` against ``one``, in the order in which a mistake shows."""
    pair, found = pair_of(one, other, given), list[Check]()
    for name, need, compare in CHECKS:
        stuck = next((side for side in (one, other) if not side.has(need)), None)
        if stuck is None:
            found.append(compare(name, pair))
        elif any(check.failed for check in found):
            found.append(Check(name, None))
        else:
            error = (stuck.facts.get("failed") or {}).get("error", "nothing")
            found.append(Check(name, False, detail=f"{stuck.framework}: {error}", failed=True))
    return found


def first_difference(pair: Pair, found: list[Check]) -> Place | None:
    """Where the two differ first; None if they do not."""
    check = next((check for check in found if check.same is False), None)
    if check is None:
        return None
    name, layer, tensor = check.name, None, ""
    if check.failed:
        return Place(name, reached=False)
    if name == "larger scale":
        return _first_at_scale(pair.scaled)
    if name in ("weights", "logits") and (place := _first_layer(pair) or _first_of_another_size(pair)):
        return place
    if name == "weights":
        tensor = _worst(distances(pair.given.weights, pair.other.group("weights")))
    elif name in ("gradients", "three steps"):
        one, other = (pair.moved(side, "first" if name == "three steps" else name) for side in pair.sides)
        gaps = distances(one, other, GRADIENT_LEAST)
        if name == "three steps" and _differs(found, "larger scale") and _is_first_update_the_same(pair, gaps):
            return _first_at_scale(pair.scaled)
        tensor = _worst(gaps)
    elif name == "evaluation":
        layer = next((layer for layer in pair.layers if not _has_same_statistics(layer)), None)
    elif name == "dropout" and (differing := first_differing(pair)):
        layer = differing[0]
    return Place(name, layer, tensor=tensor)


def _differs(found: list[Check], name: str) -> bool:
    return any(check.name == name and check.same is False for check in found)


def _is_first_update_the_same(pair: Pair, gaps: Mapping[str, float]) -> bool:
    """Whether later updates alone differ: something acts on few values, and on more at a larger scale.

    Adam moves a tensor whose gradient is zero by mathematics as its rounding says, in each framework another way.
    """
    norms = [{tensor: np.linalg.norm(g) for tensor, g in side.group("gradients").items()} for side in pair.sides]
    still = STILL * max((norm for each in norms for norm in each.values()), default=0.0)
    return all(gap <= TOLERANCE or all(each[tensor] <= still for each in norms) for tensor, gap in gaps.items())


def _check(name: str, gap: float, detail: str = "", bound: float = TOLERANCE) -> Check:
    return Check(name, gap <= bound, gap, detail if gap > bound else "")


def _compare_weights(name: str, pair: Pair) -> Check:
    given, exported = pair.given.weights, pair.other.group("weights")
    for tensor in [*given, *exported]:
        if tensor not in exported or tensor not in given:
            side = "lacks" if tensor not in exported else "has"
            return Check(name, False, None, f"{pair.other.framework} {side} the tensor {tensor}")
        if exported[tensor].shape != given[tensor].shape:
            shapes = f"{exported[tensor].shape} in {pair.other.framework}, {given[tensor].shape} in the spec"
            return Check(name, False, None, f"{tensor} is {shapes}")
    return _compare_gaps(name, {tensor: distance(given[tensor], exported[tensor]) for tensor in given})


def _compare_trained(name: str, pair: Pair) -> Check:
    one, other = (side.facts["trained"] for side in pair.sides)
    words = f"{one:,}" if one == other else f"{one:,} in {pair.names[0]}, {other:,} in {pair.names[1]}"
    return Check(name, one == other, None, words)


def _compare_logits(name: str, pair: Pair) -> Check:
    one, other = (side.arrays["logits"] for side in pair.sides)
    return _check(
        name, distance(one, other), "" if one.shape == other.shape else f"shape {one.shape} against {other.shape}"
    )


def _compare_loss(name: str, pair: Pair) -> Check:
    one, other = (float(side.arrays["loss"]) for side in pair.sides)
    return _check(name, distance(one, other), f"{one:.6g} against {other:.6g}")


def _compare_gradients(name: str, pair: Pair) -> Check:
    one, other = (side.group("gradients") for side in pair.sides)
    return _compare_gaps(name, distances(one, other, GRADIENT_LEAST))


def _compare_steps(name: str, pair: Pair) -> Check:
    one, other = (side.group("after") for side in pair.sides)
    weights = _compare_gaps(name, distances(one, other))
    return weights if not weights.same else _check(name, _gap(pair, "losses"), "the losses")


def _compare_gaps(name: str, gaps: Mapping[str, float]) -> Check:
    return _check(name, max(gaps.values(), default=0.0), f"{_worst(gaps)} most")


def _compare_evaluation(name: str, pair: Pair) -> Check:
    for side in pair.sides:
        start, dropped = side.arrays["evaluation/start"], side.arrays.get("evaluation/dropout")
        if dropped is not None and distance(start, dropped) > TOLERANCE:
            detail = f"{side.framework}'s is another with dropout than without"
            return Check(name, False, distance(start, dropped), detail)
    one, other = (side.group("evaluation") for side in pair.sides)
    return _compare_answers(name, one, other)


def _compare_answers(
    name: str, one: Mapping[str, Array], other: Mapping[str, Array], bound: float = TOLERANCE
) -> Check:
    """The losses of some samples, and which answers are right, by the samples' labels and by the likeliest."""
    gap = distance(one["after"], other["after"], np.sqrt(one["after"].size))  # losses of a sure model are rounding
    for answers, labels in (("right", "their labels"), ("likeliest", "the likeliest labels")) if gap <= bound else ():
        if answers in one and answers in other and (count := _count_differing(one[answers], other[answers])):
            return Check(name, False, None, f"whether {count} of {len(one[answers])} samples are right, by {labels}")
    return _check(name, gap, bound=bound)


def _count_differing(one: Array, other: Array) -> int:
    """Samples whose answers, or shares of right positions, are not the same; all if the shapes differ."""
    if one.shape != other.shape:
        return len(one)
    return int(np.count_nonzero(~(np.abs(one - 1.0 * other) <= SHARE_ROUNDING)))


def _compare_at_scale(name: str, pair: Pair) -> Check:
    sides, bound = [side.arrays for side in pair.scaled.sides], _find_bound(pair.scaled)
    if not any(np.isfinite(side[array]).all() for side in sides for array in ("logits", "loss", "after")):
        return Check(name, True, None, "not finite, and not compared", skipped=True)
    if bound > CHAOTIC:
        return Check(name, True, None, "chaotic, and not compared", skipped=True)
    for what, least in (("logits", 0.0), ("loss", 1.0)):
        gap = distance(sides[0][what], sides[1][what], least)
        if gap > bound:
            return Check(name, False, gap, f"{what} with inputs and weights {SCALE} times as large")
    return _compare_answers(name, sides[0], sides[1], bound)


def _find_bound(scaled: Pair) -> float:
    """How far answers at a larger scale may differ, where some roundings move them by as much as was measured."""
    noise = max(distance(side.arrays["logits"], side.arrays["again"]) for side in scaled.sides)
    return max(TOLERANCE, AMPLIFIED * noise)


def _compare_dropout(name: str, pair: Pair) -> Check:
    if differing := first_differing(pair):
        layer, change = differing
        words = f"{pair.names[0]} {change.one}, {pair.names[1]} {change.other}, before {layer.name}"
        return Check(name, False, None, words)
    if unseen := silent(pair):
        rates = " and ".join(f"{rate:g}" for rate in pair.given.dropout)
        words = f"no draw of {' nor '.join(unseen)} at a layer that both call once, though the spec has {rates}"
        return Check(name, None, None, words, seen=False)
    return Check(name, True)


#: Each check with what it needs of both sides.
CHECKS: tuple[tuple[str, str, Callable[[str, Pair], Check]], ...] = (
    ("weights", "weights", _compare_weights),
    ("parameters trained", "trained", _compare_trained),
    ("logits", "logits", _compare_logits),
    ("loss", "loss", _compare_loss),
    ("gradients", "gradients", _compare_gradients),
    ("three steps", "after", _compare_steps),
    ("evaluation", "evaluation/after", _compare_evaluation),
    ("dropout", "evaluation/again", _compare_dropout),
    ("larger scale", "scaled/again", _compare_at_scale),
)


def _first_at_scale(pair: Pair) -> Place:
    """The place at a larger scale, with the stage that shows it."""
    bound = _find_bound(pair)
    stage = next((what for what in ("logits", "loss") if _gap(pair, what) > bound), "evaluation")
    place = _first_layer(pair, bound, scaled=True) if stage == "logits" else None
    return place or Place(stage, scaled=True)


def _first_layer(pair: Pair, tolerance: float = TOLERANCE, scaled: bool = False) -> Place | None:
    for layer in pair.layers:
        alike = same(layer.pair("input"), tolerance)
        if not same(layer.pair("output"), tolerance) or not alike:
            return Place("logits", layer, inside=alike, scaled=scaled)
    return None


def _first_of_another_size(pair: Pair) -> Place | None:
    """The first layer into which one side gives more than the other; its edge was left out when they were compared."""
    for layer in pair.layers:
        if all("input" in side for side in layer.sides) and layer.one["input"].size != layer.other["input"].size:
            return Place("logits", layer, inside=False)
    return None


def _has_same_statistics(layer: Layer) -> bool:
    """Means are measured by the deviations, since they may be zero by mathematics."""
    mean, variance = layer.pair("mean"), layer.pair("variance")
    size = float(np.linalg.norm(np.sqrt(np.abs(variance[0])))) if variance else 0.0
    return same(variance) and (mean is None or distance(*mean, size) <= TOLERANCE)


def _gap(pair: Pair, name: str) -> float:
    one, other = (side.arrays[name] for side in pair.sides)
    return distance(one, other)


def _worst(gaps: Mapping[str, float]) -> str:
    return max(gaps, key=lambda tensor: gaps[tensor], default="")

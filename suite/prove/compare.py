"""The checks of a proof: two frameworks side by side, and where they differ first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from suite.prove.draws import compare_layers, silent
from suite.prove.numbers import TOLERANCE, Given, Layer, Numbers, distance, distances, layers, same
from workloads.data.dataset import Array


@dataclass(frozen=True)
class Check:
    """One line of the table: ``same`` is None where a side could not be compared; ``detail`` says what differs.

    ``seen`` is False where there should be something to compare and neither side shows it.
    """

    name: str
    same: bool | None
    deviation: float | None = None
    detail: str = ""
    seen: bool = True


@dataclass(frozen=True)
class Place:
    """Where two frameworks differ first.

    ``stage`` is the check; ``layer`` the earliest layer that differs there, with ``inside`` if its own input is the
    same, so that the layer itself differs and not what comes before it. ``tensor`` is the gradient or the weight that
    differs most. ``reached`` is false where one side ended with an error.
    """

    stage: str
    layer: Layer | None = None
    inside: bool = True
    tensor: str = ""
    reached: bool = True


def checks(one: Numbers, other: Numbers, given: Given) -> list[Check]:
    """All checks of ``other`` against ``one``, in the order in which a mistake shows."""
    compared: list[tuple[str, Callable[[], Check]]] = [
        ("weights", lambda: _weights(other, given)),
        ("parameters trained", lambda: _compare_trained(one, other)),
        ("logits", lambda: _arrays("logits", one, other)),
        ("loss", lambda: _arrays("loss", one, other)),
        ("gradients", lambda: _tensors("gradients", one.group("gradients"), other.group("gradients"))),
        ("three steps", lambda: _steps(one, other)),
        ("evaluation", lambda: _evaluation(one, other)),
        ("dropout", lambda: _dropout(one, other, given)),
    ]
    needs = ("weights", "trained", "logits", "loss", "gradients", "after", "evaluation/after", "evaluation/dropout")
    found = []
    for (name, compute), need in zip(compared, needs, strict=True):
        stuck = next((side for side in (one, other) if need != "trained" and not side.has(need)), None)
        if stuck is None:
            found.append(compute())
        else:
            error = stuck.failed.get("error", "nothing")
            first = all(check.same is not None for check in found)
            found.append(Check(name, False if first else None, None, f"{stuck.framework}: {error}" if first else ""))
    return found


def first_difference(one: Numbers, other: Numbers, given: Given, found: list[Check]) -> Place | None:
    """Where the two differ first; None if they do not."""
    failed = next((check for check in found if check.same is False), None)
    if failed is None:
        return None
    if failed.deviation is None and failed.name not in ("parameters trained", "dropout"):
        return Place(failed.name, reached=False)
    layer, tensor = None, ""
    if failed.name in ("weights", "logits", "loss") and (place := _first_layer(one, other, given)):
        return place
    if failed.name == "weights":
        tensor = _worst(given.weights, other.group("weights"))
    elif failed.name in ("gradients", "three steps"):
        group = "gradients" if failed.name == "gradients" else "first"
        tensor = _worst(movements(one, group, given), movements(other, group, given))
    elif failed.name == "evaluation":
        layer = _first_statistics(one, other, given)
    elif failed.name == "dropout":
        layer = next((each.layer for each in compare_layers(one, other, given) if each.words), None)
    return Place(failed.name, layer, tensor=tensor)


def movements(numbers: Numbers, group: str, given: Given) -> dict[str, Array]:
    """Gradients, or how far the weights moved up to ``first`` or ``after``."""
    tensors = numbers.group(group)
    return (
        tensors
        if group == "gradients"
        else {name: array - given.weights[name] for name, array in tensors.items() if name in given.weights}
    )


def _weights(other: Numbers, given: Given) -> Check:
    exported = other.group("weights")
    for name in [*given.weights, *exported]:
        if name not in exported or name not in given.weights:
            side = "lacks" if name not in exported else "has"
            return Check("weights", False, None, f"{other.framework} {side} the tensor {name}")
        if exported[name].shape != given.weights[name].shape:
            shapes = f"{exported[name].shape} in {other.framework}, {given.weights[name].shape} in the spec"
            return Check("weights", False, None, f"{name} is {shapes}")
    return _tensors("weights", given.weights, exported)


def _compare_trained(one: Numbers, other: Numbers) -> Check:
    counts = one.facts.get("trained"), other.facts.get("trained")
    if None in counts:
        return Check("parameters trained", None)
    words = "" if counts[0] == counts[1] else f"{counts[0]:,} in {one.framework}, {counts[1]:,} in {other.framework}"
    return Check("parameters trained", not words, None, words or f"{counts[0]:,}")


def _arrays(name: str, one: Numbers, other: Numbers) -> Check:
    gap = distance(one.arrays[name], other.arrays[name])
    detail = ""
    if one.arrays[name].shape != other.arrays[name].shape:
        detail = f"shape {one.arrays[name].shape} against {other.arrays[name].shape}"
    elif name == "loss":
        detail = f"{float(one.arrays[name]):.6g} against {float(other.arrays[name]):.6g}" if gap > TOLERANCE else ""
    return Check(name, gap <= TOLERANCE, gap, detail)


def _tensors(name: str, one: Mapping[str, Array], other: Mapping[str, Array]) -> Check:
    gaps = distances(one, other)
    worst = max(gaps, key=lambda tensor: gaps[tensor], default="")
    gap = gaps.get(worst, 0.0)
    return Check(name, gap <= TOLERANCE, gap, f"{worst} most" if gap > TOLERANCE else "")


def _steps(one: Numbers, other: Numbers) -> Check:
    losses = distance(one.arrays["losses"], other.arrays["losses"])
    weights = _tensors("three steps", one.group("after"), other.group("after"))
    if weights.same and losses > TOLERANCE:
        return Check("three steps", False, losses, "the losses")
    return weights


def _evaluation(one: Numbers, other: Numbers) -> Check:
    for side in (one, other):
        start, dropped = side.arrays["evaluation/start"], side.arrays.get("evaluation/dropout")
        if dropped is not None and distance(start, dropped) > TOLERANCE:
            detail = f"{side.framework}'s is another with dropout than without"
            return Check("evaluation", False, distance(start, dropped), detail)
    gap = distance(one.arrays["evaluation/after"], other.arrays["evaluation/after"])
    return Check("evaluation", gap <= TOLERANCE, gap)


def _dropout(one: Numbers, other: Numbers, given: Given) -> Check:
    words = next(
        (f"{each.words}, before {each.layer.name}" for each in compare_layers(one, other, given) if each.words), ""
    )
    if not words and (unseen := silent(one, other, given)):
        rates = " and ".join(f"{rate:g}" for rate in given.dropout)
        return Check(
            "dropout", None, None, f"no draw of {' nor '.join(unseen)}, though the spec has {rates}", seen=False
        )
    return Check("dropout", not words, None, words)


def _first_layer(one: Numbers, other: Numbers, given: Given) -> Place | None:
    for layer in layers(one, other, given):
        if not same(layer.pair("output")):
            return Place("logits", layer, inside=same(layer.pair("input")))
    return None


def _first_statistics(one: Numbers, other: Numbers, given: Given) -> Layer | None:
    for layer in layers(one, other, given):
        if not (same(layer.pair("mean")) and same(layer.pair("variance"))):
            return layer
    return None


def _worst(one: Mapping[str, Array], other: Mapping[str, Array]) -> str:
    gaps = distances(one, other)
    return max(gaps, key=lambda tensor: gaps[tensor], default="")

"""A proof in words: a table of checks, where two frameworks differ first, and the likely cause."""

from __future__ import annotations

from collections.abc import Sequence

from suite.prove.case import Case
from suite.prove.causes import find_causes
from suite.prove.compare import Check, Place, checks, first_difference
from suite.prove.numbers import TOLERANCE, Given, Numbers, distance
from suite.record.text import clean

#: Lines of code, and characters of each, that are shown at most.
MOST_LINES, MOST_TEXT = 12, 120

MARKS = {True: "same", False: "DIFFERS", None: "not reached"}


def verdict(reference: Numbers, others: Sequence[Numbers], given: Given) -> tuple[list[str], bool]:
    """The lines to print, and whether all are the same."""
    lines, all_same, differing = [], True, False
    for other in others:
        found = checks(reference, other, given)
        agree = all(check.same for check in found)
        all_same, differing = all_same and agree, differing or any(check.same is False for check in found)
        lines += ["", f"{reference.framework} and {other.framework}", *map(_line, found)]
        if any(check.same is False for check in found):
            lines += ["", *explanation(reference, other, given, found)]
    words = f"the same to {TOLERANCE:g}" if all_same else "not the same model"
    if not all_same and not differing:
        words = "not proved: dropout was not seen"
    return [*lines, "", f"verdict: {words}"], all_same


def explanation(one: Numbers, other: Numbers, given: Given, found: list[Check]) -> list[str]:
    """Where the two differ first, and why if a known cause explains it."""
    place = first_difference(one, other, given, found)
    if place is None:
        return []
    case = Case(one, other, given, place)
    lines = [f"  differs first: {where(place, case.before.name if case.before else '')}"]
    if place.layer is not None and (gap := _gap(place)) is not None:
        lines[0] += f", by {gap:.1e}"
    causes = find_causes(case)
    for cause, words in causes:
        lines += [f"  likely cause:  {cause.name}: {words}", f"  what to do:    {cause.remedy}"]
    if not causes and place.reached:
        lines.append("  likely cause:  none of the known ones explains the numbers")
        lines += [line for side in (one, other) for line in _expressions(side, case)]
    return lines


def _expressions(side: Numbers, case: Case) -> list[str]:
    """The lines of one framework's file that lead from the layer before to the one that differs, where known."""
    tensors = case.layer.tensors if case.layer else {}
    told = next((layer.get("lines") for layer in side.facts["layers"] if set(layer["tensors"]) & set(tensors)), None)
    if not told:
        return []
    shown = [f"    {file}:{number}  {clean(text, MOST_TEXT)}" for file, number, text in told[-MOST_LINES:]]
    return [f"  {side.framework} up to layer {case.layer.name if case.layer else ''}:", *shown]


def where(place: Place, before: str = "") -> str:
    """The place in words; ``before`` is the layer that is called before it."""
    if not place.reached:
        return f"{place.stage}, which one side does not reach"
    if place.layer is None:
        return f"{place.stage}, most in {place.tensor}" if place.tensor else place.stage
    if place.stage == "logits":
        layer = f"layer {place.layer.name}"
        return layer if place.inside else f"between {f'layer {before}' if before else 'the inputs'} and {layer}"
    stage = {"evaluation": "the running statistics of", "dropout": "dropout before"}[place.stage]
    return f"{stage} layer {place.layer.name}"


def _gap(place: Place) -> float | None:
    if place.layer is None or place.stage != "logits":
        return None
    pair = place.layer.pair("output" if place.inside else "input")
    return distance(*pair) if pair else None


def _line(check: Check) -> str:
    off = "" if check.deviation is None else f"{check.deviation:.1e}"
    mark = MARKS[check.same] if check.seen else "NOT SEEN"
    return f"  {check.name:20}{mark:12}{off:>8}  {check.detail}".rstrip()

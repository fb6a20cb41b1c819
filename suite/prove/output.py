"""A proof in words: a table of checks, where two frameworks differ first, and the likely cause."""

from __future__ import annotations

from collections.abc import Sequence

from suite.prove import initial
from suite.prove.causes import REMEDIES, find_causes
from suite.prove.compare import Check, checks, first_difference
from suite.prove.layers import Case, Place, pair_of
from suite.prove.numbers import TOLERANCE, Given, Numbers, distance
from suite.record.text import clean

#: Lines of code, and characters of each, that are shown at most; and rounded constants.
MOST_LINES, MOST_TEXT, MOST_CONSTANTS = 12, 120, 6

MARKS = {True: "same", False: "DIFFERS", None: "not asked"}


def verdict(reference: Numbers, others: Sequence[Numbers], given: Given) -> tuple[list[str], bool]:
    """The lines to print, and whether all are the same."""
    lines, all_same, differing, skipped = [], True, False, False
    for other in others:
        found = checks(reference, other, given)
        agree, skipped = all(check.same for check in found), skipped or any(check.skipped for check in found)
        all_same, differing = all_same and agree, differing or any(check.same is False for check in found)
        lines += ["", f"{reference.framework} and {other.framework}", *map(_line, found)]
        lines += initial.describe(reference, other, given)
        if any(check.same is False for check in found):
            lines += ["", *explanation(reference, other, given, found)]
    rounding = [line for side in (reference, *others) for line in _rounding(side)]
    words = f"the same to {TOLERANCE:g}" if all_same else "not the same model"
    if all_same and rounding:
        words = f"{words} but for constants that Keras rounds"
    if all_same and skipped:
        words = f"{words}; not compared at a larger scale"
    if not all_same and not differing:
        words = "not proved: dropout was not seen"
    return [*lines, *rounding, "", f"verdict: {words}"], all_same


def explanation(one: Numbers, other: Numbers, given: Given, found: list[Check]) -> list[str]:
    """Where the two differ first, and why if a known cause explains it."""
    pair = pair_of(one, other, given)
    place = first_difference(pair, found)
    if place is None:
        return []
    case = Case(pair.scaled if place.scaled else pair, place)
    lines = [f"  differs first: {where(place, case.earlier[-1].name if case.earlier else '')}"]
    if place.layer is not None and place.stage == "logits" and case.targets and not case.edges:
        lines[0] += f", by {distance(*case.targets):.1e}"
    causes = find_causes(case)
    for cause, words in causes.items():
        lines.append(f"  likely cause:  {cause}: {words}")
        lines += [f"  what to do:    {REMEDIES[cause]}"] if cause in REMEDIES else []
    if not causes and place.reached:
        lines.append("  likely cause:  none of the known ones explains the numbers")
        lines += [line for side in (one, other) for line in _expressions(side, case)]
    return lines


def _rounding(side: Numbers) -> list[str]:
    """Which constants a framework rounds to float32, and what comes of it, where that is more than rounding."""
    constants, moved = side.facts.get("rounded", {}), side.facts.get("rounding", 0.0)
    if moved <= TOLERANCE:
        return []
    most = sorted(constants, key=lambda name: constants[name], reverse=True)[:MOST_CONSTANTS]
    named = ", ".join(f"{clean(name, MOST_TEXT)} (by {constants[name]:.1e})" for name in most)
    more = f" and {len(constants) - len(most)} more" if len(constants) > len(most) else ""
    return ["", f"  {side.framework} rounds constants to float32, here compared as they are written: {named}{more}",
            f"  rounded, they move its answers by {moved:.1e}"]  # fmt: skip


def _expressions(side: Numbers, case: Case) -> list[str]:
    """The lines of one framework's file that lead from the layer before to the one that differs, where known."""
    tensors = case.layer.tensors if case.layer else {}
    told = [line for layer in side.facts["layers"] if set(layer["tensors"]) & set(tensors) for line in layer["lines"]]
    if not told:
        return []
    shown = [f"    {file}:{number}  {clean(text, MOST_TEXT)}" for file, number, text in told[-MOST_LINES:]]
    return [f"  {side.framework} up to layer {case.layer.name if case.layer else ''}:", *shown]


def where(place: Place, before: str = "") -> str:
    """The place in words; ``before`` is the layer that is called before it."""
    scale = "at a larger scale, " if place.scaled else ""
    if not place.reached:
        return f"{place.stage}, which one side does not reach"
    if place.layer is None:
        after = f", after layer {before}" if place.stage == "logits" and before else ""
        return f"{scale}{place.stage}{after}{f', most in {place.tensor}' if place.tensor else ''}"
    if place.stage == "logits":
        layer = f"layer {place.layer.name}"
        between = f"between {f'layer {before}' if before else 'the inputs'} and {layer}"
        return f"{scale}{layer if place.inside else between}"
    stage = {"evaluation": "the running statistics of", "dropout": "dropout before"}[place.stage]
    return f"{stage} layer {place.layer.name}"


def _line(check: Check) -> str:
    off = "" if check.deviation is None else f"{check.deviation:.1e}"
    mark = "ERROR" if check.failed else "skipped" if check.skipped else MARKS[check.same]
    mark = mark if check.seen else "NOT SEEN"
    return f"  {check.name:20}{mark:12}{off:>8}  {check.detail}".rstrip()

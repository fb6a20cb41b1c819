"""Of what stands between layers: activations, pooling, positions, the scale of an embedding, residual additions.

Both sides are computed anew from what the layers before have in common. What the two formulas that agree to rounding
differ in is the cause; nothing is said where either side has none, or where the two differ in more than one thing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from typing import TypeVar

import numpy as np

from suite.prove.arithmetic import ACTIVATIONS, poolings
from suite.prove.case import Case, explains
from suite.prove.draws import NEAR
from suite.prove.numbers import Layer, same
from workloads.data.dataset import Array

Key = TypeVar("Key", bound=Hashable)

GELUS = {"GELU by the error function", "GELU by the tangent"}


def gelu_form(case: Case) -> str:
    """One side takes GELU by the error function, the other by the tangent."""
    names = _activations(case)
    return _words(case, "{0} has {1}, {2} {3}", names) if set(names) == GELUS else ""


def activation(case: Case) -> str:
    """The sides have two activations after the layer before."""
    names = _activations(case)
    return _words(case, "{0} has {1}, {2} {3}", names) if names and set(names) != GELUS else ""


def pooling(case: Case) -> str:
    """The sides pool in two ways: by the maximum or by the mean, or another position."""
    names = _find_poolings(case)
    return _words(case, "{0} has the {1}, {2} the {3}", names) if names and not _masking(names) else ""


def masked(case: Case) -> str:
    """One pools over all positions, the other over the words."""
    names = _find_poolings(case)
    return _words(case, "{0} has the {1}, {2} the {3}", names) if names and _masking(names) else ""


def positions(case: Case) -> str:
    """The rows of a table of positions are added at other positions, or not at all."""
    sides = _find_embeddings(case)
    return _words(case, "{0} adds {1}, {2} {3}", [place for _, place in sides]) if _one_differs(sides, 1) else ""


def scaled_embedding(case: Case) -> str:
    """One multiplies an embedding by the root of its width."""
    sides = _find_embeddings(case)
    return _words(case, "{0} multiplies by {1}, {2} by {3}", [by for by, _ in sides]) if _one_differs(sides, 0) else ""


def lost_residual(case: Case) -> str:
    """One does not add the input of a branch to its output."""
    names = _find_additions(case)
    return _words(case, "{0} adds {1}, {2} {3}", names) if "nothing" in names else ""


def another_residual(case: Case) -> str:
    """The sides add two things to the output of a branch."""
    names = _find_additions(case)
    return _words(case, "{0} adds {1}, {2} {3}", names) if names and "nothing" not in names else ""


def _find_additions(case: Case) -> list[str]:
    """What both sides add to the output of a layer before, in words; empty if it is the same or not found."""
    pair = _pair(case)
    for layer in case.earlier[: -NEAR - 1 : -1] if pair else ():
        outputs = layer.pair("output")
        if pair is None or outputs is None or not same(outputs) or outputs[0].shape != pair[0].shape:
            continue
        ways = [(function(outputs[0]), ACTIVATIONS["nothing"]) for function in ACTIVATIONS.values()]
        for branch, after in [*ways, (outputs[0], ACTIVATIONS["ReLU"])]:
            names = [_stem(case, side, branch, after) for side in pair]
            if all(names) and names[0] != names[1]:
                return names
    return []


def _stem(case: Case, side: Array, branch: Array, after: Callable[[Array], Array]) -> str:
    """What is added to this branch, in words; empty if nothing in common explains the side."""
    if explains(after(branch), side):
        return "nothing"
    for name in ("output", "input"):
        for layer in case.earlier[::-1]:
            stem = layer.pair(name)
            if stem and same(stem) and stem[0].shape == branch.shape and explains(after(branch + stem[0]), side):
                return f"the {name} of {layer.name}"
    return ""


def _activations(case: Case) -> list[str]:
    """The names of the two activations after the layer before, where all else is the same; empty if not."""
    pair, before = _pair(case), case.before
    outputs = before.pair("output") if before else None
    if pair is None or outputs is None or not same(outputs):
        return []
    for pool in poolings(outputs[0].shape, pair[0].shape).values():
        names = [_first({name: pool(a(outputs[0])) for name, a in ACTIVATIONS.items()}, side) for side in pair]
        if all(names) and names[0] != names[1]:
            return [name for name in names if name]
    return []


def _find_poolings(case: Case) -> list[str]:
    """The names of the two poolings of something in common; empty if there is none."""
    pair = _pair(case)
    if pair is None:
        return []
    for outputs in _common(case):
        for function in (ACTIVATIONS["nothing"], ACTIVATIONS["ReLU"]):
            x = function(outputs)
            ways = {name: pool(x) for name, pool in poolings(x.shape, pair[0].shape).items()}
            if x.ndim == 3 and (len(x), x.shape[2]) == pair[0].shape:
                ways |= _of_words(case, x)
            names = [_first(ways, side) for side in pair]
            if all(names) and names[0] != names[1]:
                return [name for name in names if name]
    return []


def _of_words(case: Case, x: Array) -> dict[str, Array]:
    """Of (b, positions, width) what may be made of all positions, or of those with words in front or behind."""
    length = x.shape[1]
    found = {
        "mean over all positions": x.mean(1), "sum over all positions": x.sum(1), "maximum of all positions": x.max(1),
        "first position": x[:, 0], "last position": x[:, -1],
    }  # fmt: skip
    if case.tokens is None:
        return found
    count = np.maximum(np.count_nonzero(case.tokens, axis=1), 1)[:, None]
    places = np.arange(length)[None]
    for end, there in (("in front", places < count), ("behind", places >= length - count)):
        if there.all() or not there.any(1).all():
            continue
        kept = np.where(there[:, :, None], x, 0)
        found |= {
            f"mean over the words {end}": kept.sum(1) / there.sum(1)[:, None],
            f"sum over the words {end}": kept.sum(1),
            f"sum over the words {end}, divided by all positions": kept.sum(1) / length,
            f"maximum of the words {end}": np.where(there[:, :, None], x, -np.inf).max(1),
            f"last word {end}": x[np.arange(len(x)), np.max(np.where(there, places, 0), axis=1)],
        }
    return found


def _masking(names: list[str]) -> bool:
    """Whether two poolings differ in what they leave out only."""
    return len({"mean" if "divided" in name else name.split()[0] for name in names}) == 1


def _find_embeddings(case: Case) -> list[tuple[str, str]]:
    """Of both sides by what a table's rows are multiplied and which positions are added; empty if not found."""
    pair = _pair(case)
    words = next((layer for layer in case.earlier if _is_table(layer)), None)
    outputs = words.pair("output") if words else None
    if pair is None or words is None or outputs is None or not same(outputs) or outputs[0].shape != pair[0].shape:
        return []
    rows, root = outputs[0], math.sqrt(outputs[0].shape[-1])
    by = {"1": 1.0, "the root of its width": root, "1 / the root of its width": 1 / root}
    for table in (array for name, array in case.given.weights.items() if name not in words.tensors):
        if table.ndim != 2 or table.shape[1] != rows.shape[2] or len(table) < rows.shape[1]:
            continue
        ways = {(name, "no positions"): factor * rows for name, factor in by.items()}
        for place, added in _places(case, np.asarray(table, np.float64), rows.shape[1]):
            ways |= {(name, place): factor * rows + added for name, factor in by.items()}
            ways |= {(f"{name}, with the positions", place): by[name] * (rows + added) for name in list(by)[1:]}
        found = [_first(ways, side) for side in pair]
        if all(found):
            return [each for each in found if each]
    for name, factor in list(by.items())[1:]:  # what is added besides may be no table
        for one, other in ((1.0, factor), (factor, 1.0)):
            if explains(pair[1] - pair[0], (other - one) * rows):
                return [("1" if each == 1 else name, "") for each in (one, other)]
    return []


def _places(case: Case, table: Array, length: int) -> Iterator[tuple[str, Array]]:
    """Rows of a table of positions, (positions, width) or by sample, by where they begin."""
    places = np.arange(length)
    yield "the positions from the first", table[:length]
    for shift in (1, 2):
        yield f"the positions from row {shift}", table[np.minimum(places + shift, len(table) - 1)]
        yield f"the positions from row {shift}, around", table[(places + shift) % len(table)]
        yield f"the positions from row {shift}, around", np.roll(table[:length], -shift, 0)
        yield f"the positions {shift} late", table[np.maximum(places - shift, 0)]
        yield f"the positions {shift} late, around", table[(places - shift) % len(table)]
        yield f"the positions {shift} late, around", np.roll(table[:length], shift, 0)
    yield "the positions from the last", table[length - 1 :: -1][:length]
    yield "the positions from the last", table[::-1][:length]
    if case.tokens is not None:
        padding = case.tokens.shape[1] - np.count_nonzero(case.tokens, axis=1)[:, None]
        if padding.any():
            yield "the positions from the first word", table[np.maximum(places - padding, 0)]


def _is_table(layer: Layer) -> bool:
    inputs = layer.one.get("input")
    return inputs is not None and not np.issubdtype(inputs.dtype, np.floating)


def _common(case: Case) -> Iterator[Array]:
    """What the layers before gave or took alike, the nearest first."""
    for layer in case.earlier[::-1]:
        for name in ("output", "input"):
            pair = layer.pair(name)
            if pair and same(pair) and np.issubdtype(pair[0].dtype, np.floating):
                yield pair[0]


def _first(ways: dict[Key, Array], side: Array) -> Key | None:
    """The first way that gives this side."""
    return next((name for name, array in ways.items() if explains(array, side)), None)


def _one_differs(sides: list[tuple[str, str]], at: int) -> bool:
    return bool(sides) and sides[0][at] != sides[1][at] and sides[0][1 - at] == sides[1][1 - at]


def _words(case: Case, form: str, names: list[str]) -> str:
    return form.format(case.one.framework, names[0], case.other.framework, names[1])


def _pair(case: Case) -> tuple[Array, Array] | None:
    """The inputs of the layer where the sides differ, if it is in them that they differ."""
    if case.layer is None or case.place.inside:
        return None
    return case.layer.pair("input")

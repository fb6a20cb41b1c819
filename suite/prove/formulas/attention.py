"""Of attention, from the projections to what the heads give, or from its input to its output where it is one layer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np

from suite.prove.arithmetic import softmax
from suite.prove.layers import Case, Layer
from suite.prove.numbers import distance
from suite.prove.search import EXPLAINED, Formula
from workloads.data.dataset import Array

#: How queries, keys and values lie in one projection, and heads when they are joined again: axes of the parts.
LAYOUTS = {"each with its heads": (2, 0, 3, 1, 4), "each head with all three": (3, 0, 2, 1, 4)}
MERGED = {"side by side": (0, 2, 1, 3), "as they lie": (0, 1, 2, 3), "number by number": (0, 2, 3, 1)}
AXES = {"the keys": -1, "the queries": -2, "the heads": 1}
#: Exponents of the head's width and of the number of heads.
SCALES = {
    "scores times 1 / sqrt(head width)": (-0.5, 0.0),
    "scores as they are": (0.0, 0.0),
    "scores times 1 / sqrt(width)": (-0.5, -0.5),
    "scores times 1 / head width": (-1.0, 0.0),
    "scores times sqrt(head width)": (0.5, 0.0),
}


def formulas(case: Case) -> Iterator[Formula]:
    """One for each of what may be the projections."""
    shape = case.targets[0].shape if case.targets else ()
    if len(shape) == 3:
        inside = [_project(case.layer)] if case.layer and case.place.inside else _projections(case, shape)
        for parts, after in inside:
            if parts is not None:
                yield _formula(case, parts, after)


def _projections(case: Case, shape: tuple[int, ...]) -> Iterator[tuple[Array, Any]]:
    """Outputs of the layers before that may be the projections: (b, positions, 3 * width), as they stand there."""
    outputs = [(layer, array) for layer in case.earlier[-3:] if (array := layer.common("output")) is not None]
    if outputs and outputs[-1][1].shape == (*shape[:2], 3 * shape[2]):
        yield outputs[-1][1], None
    three = [(layer.common("input"), array) for layer, array in outputs if array.shape == shape]
    first = three[0][0] if len(three) == 3 else None
    if first is not None and all(x is not None and distance(x, first) <= EXPLAINED for x, _ in three):
        yield np.concatenate([array for _, array in three], -1), None


def _project(layer: Layer) -> tuple[Array | None, Any]:
    """The projections of a layer that is all of an attention, and the kernel and bias of what comes after."""
    x, width = layer.common("input"), layer.kernels[0].shape[0] if layer.kernels else 0
    if x is None or x.ndim != 3 or x.shape[-1] != width or sum(each.size for each in layer.kernels) != 4 * width**2:
        return None, None
    kernels = np.concatenate([each.reshape(width, -1) for each in layer.kernels], 1)
    biases = np.concatenate(layer.vectors) if layer.vectors else np.zeros(4 * width)
    if biases.size != 4 * width:
        return None, None
    return x @ kernels[:, : 3 * width] + biases[: 3 * width], (kernels[:, 3 * width :], biases[3 * width :])


def _formula(case: Case, parts: Array, after: Any) -> Formula:
    width = parts.shape[-1] // 3
    counts = [count for count in range(1, width // 2 + 1) if width % count == 0]
    names = ("queries", "keys", "values")
    orders = {", ".join(names[at] for at in order): order for order in permutations(range(3))}

    def attend(rows: Any, **ways: Any) -> Array:
        samples, positions = parts[rows].shape[:2]
        split = (3, ways["heads"], -1) if ways["layout"][0] == 2 else (ways["heads"], 3, -1)
        split = parts[rows].reshape(samples, positions, *split).transpose(ways["layout"])
        query, key, value = (split[ways["order"].index(at)] for at in range(3))
        of_width, of_heads = ways["scale"]
        scores = query @ key.swapaxes(2, 3) * (query.shape[-1] ** of_width * ways["heads"] ** of_heads)
        allowed = ways["mask"]
        if allowed is not None:
            scores = np.where(allowed[rows][:, None] if len(allowed) > 1 else allowed[:, None], scores, -1e300)
        joined = (softmax(scores, ways["axis"]) @ value).transpose(ways["merged"]).reshape(samples, positions, -1)
        return np.asarray(joined @ after[0] + after[1] if after else joined)

    named: dict[str, tuple[str, dict[str, Any]]] = {
        "attention heads": ("heads", {f"{count} heads": count for count in counts}),
        "attention mask": ("mask", _masks(case, parts.shape[1])),
        "layout of heads": ("layout", LAYOUTS),
        "swapped projections": ("order", orders),
        "temperature": ("scale", SCALES),
        "softmax axis": ("axis", AXES),
        "order of heads": ("merged", MERGED),
    }
    return Formula(
        {what: each for what, (_, each) in named.items()},
        lambda rows, **ways: attend(rows, **{named[what][0]: way for what, way in ways.items()}),
        most=3,
    )


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

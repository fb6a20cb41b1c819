"""What stands between layers: activations, pooling, what is added, positions, the scale of an embedding, flattening."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from suite.prove.arithmetic import ACTIVATIONS, Function, poolings
from suite.prove.case import Case
from suite.prove.layers import Layer
from suite.prove.numbers import distance
from suite.prove.search import Change, Formula, closeness
from workloads.data.dataset import Array

#: From so many of the nearest arrays it is looked for what a layer's input was made of.
NEAR = 6
LINEAR = ("no activation", "ReLU")


def formulas(case: Case) -> Iterator[Formula]:
    """What is made of each of the nearest things that both sides have alike."""
    if case.targets is None or case.targets[0].shape != case.targets[1].shape:
        return
    shape = case.targets[0].shape
    for at, (_, x, layer) in enumerate(case.common()):
        pools = poolings(x.shape, shape) | (_pool_positions(case, x) if (len(x), x.shape[-1]) == shape else {})
        if at < NEAR and pools:
            yield _formula(case, x, layer, pools)
    if words := next((layer for layer in case.earlier if layer.is_table and layer.common("output") is not None), None):
        yield from _embeddings(case, words, shape)


def _formula(case: Case, x: Array, layer: Layer | None, pools: dict[str, Function]) -> Formula:
    bias = layer.bias if layer and layer.bias is not None and layer.bias.size == x.shape[-1] else None
    added: dict[str, Any] = {"nothing": None}
    added |= {name: array for name, array, _ in case.common() if array.shape == x.shape and array is not x}

    def computed(rows: Any, **ways: Any) -> Array | None:
        y = ways["activation"](x[rows] + ways["bias"])
        if ways["residual"] is not None:
            y = ways["activation of the sum"](y + ways["residual"][rows])
        elif ways["activation of the sum"] is not ACTIVATIONS[LINEAR[0]]:
            return None  # it is the other activation
        return np.asarray(ways["pooling"](y))

    return Formula(
        {
            "pooling": pools,
            "activation": ACTIVATIONS,
            "residual": added,
            "bias": {"the bias once": 0.0} | ({} if bias is None else {"the bias twice": bias, "no bias": -bias}),
            "activation of the sum": {name: ACTIVATIONS[name] for name in LINEAR},
        },
        computed,
        most=3,
    )


def _pool_positions(case: Case, x: Array) -> dict[str, Function]:
    """What may be made of all positions of (b, positions, width), or of those with words, of all samples of a batch."""
    if x.ndim != 3:
        return {}
    length, tokens = x.shape[1], case.tokens
    found: dict[str, Function] = {
        "the mean over all positions": lambda x: x.mean(1), "the sum over all positions": lambda x: x.sum(1),
        "the maximum of all positions": lambda x: x.max(1), "the first position": lambda x: x[:, 0],
        "the last position": lambda x: x[:, -1],
    }  # fmt: skip
    if tokens is None:
        return found
    count, places = np.maximum(np.count_nonzero(tokens, axis=1), 1)[:, None], np.arange(length)[None]
    masks = {"the words in front": places < count, "the words behind": places >= length - count}
    masks |= {"the words": tokens != 0} if tokens.shape[1] == length else {}
    for where, there in masks.items():
        if not there.all() and there.any(1).all():
            found |= _pool_masked(where, there, case.few)
    return found


def _pool_masked(where: str, mask: Array, few: list[int]) -> dict[str, Function]:
    def of(x: Array) -> Array:
        return mask[few] if len(x) == len(few) else mask

    def kept(x: Array) -> Array:
        return np.where(of(x)[:, :, None], x, 0)

    def last(x: Array) -> Array:
        return np.asarray(x[np.arange(len(x)), of(x).shape[1] - 1 - of(x)[:, ::-1].argmax(1)])

    return {
        f"the mean over {where}": lambda x: kept(x).sum(1) / of(x).sum(1)[:, None],
        f"the sum over {where}": lambda x: kept(x).sum(1),
        f"the sum over {where}, divided by all positions": lambda x: kept(x).mean(1),
        f"the maximum of {where}": lambda x: np.where(of(x)[:, :, None], x, -np.inf).max(1),
        f"the last of {where}": last,
    }


def _embeddings(case: Case, words: Layer, shape: tuple[int, ...]) -> Iterator[Formula]:
    """An embedding, multiplied by the root of its width or not, with positions or without."""
    rows = words.common("output")
    if rows is None or rows.shape != shape or rows.ndim != 3:
        return
    root = math.sqrt(shape[2])
    scales = {"1": (1.0, 1.0), "the root of its width": (root, 1.0), "1 / the root of its width": (1 / root, 1.0)}
    scales |= {f"{name}, with the positions": (by, by) for name, (by, _) in list(scales.items())[1:]}
    tables = [a for name, a in case.pair.given.weights.items() if name not in words.tensors and a.ndim == 2]
    for table in (each.astype(np.float64) for each in tables if each.shape[1] == shape[2] and len(each) >= shape[1]):
        places = dict(_place(case, table, shape[1]))

        def computed(samples: Any, **ways: Any) -> Array:
            (by, also), position = ways["scaled embedding"], ways["positions"]
            picked = position[samples] if position.ndim == 3 else position
            return np.asarray(by * rows[samples] + also * picked)

        yield Formula({"positions": places, "scaled embedding": scales}, computed, rest=True)


def _place(case: Case, table: Array, length: int) -> Iterator[tuple[str, Array]]:
    """Rows of a table of positions, (positions, width) or by sample, by where they begin."""
    places = np.arange(length)
    yield "the positions from the first", table[:length]
    yield "no positions", np.zeros_like(table[:length])
    for shift in (1, 2):
        yield f"the positions from row {shift}", table[np.minimum(places + shift, len(table) - 1)]
        yield f"the positions from row {shift}, around", table[(places + shift) % len(table)]
        yield f"the positions from row {shift}, around the text", np.roll(table[:length], -shift, 0)
        yield f"the positions {shift} late", table[np.maximum(places - shift, 0)]
        yield f"the positions {shift} late, around", table[(places - shift) % len(table)]
        yield f"the positions {shift} late, around the text", np.roll(table[:length], shift, 0)
    yield "the positions from the last", table[length - 1 :: -1][:length]
    yield "the positions from the table's last", table[::-1][:length]
    if case.tokens is not None:
        padding = case.tokens.shape[1] - np.count_nonzero(case.tokens, axis=1)[:, None]
        if padding.any():
            yield "the positions from the first word", table[np.maximum(places - padding, 0)]


def transformations(case: Case) -> Iterator[Change]:
    """What makes the numbers of one side of those of the other, whatever both were made of."""
    if case.targets is None:
        return
    one, other = case.targets
    near = closeness(one, other)

    def explains(a: Array, b: Array) -> bool:
        return distance(a, b) <= near

    if one.ndim == 2 and one.shape == other.shape and not case.place.inside:
        for channels in (c for c in range(2, one.shape[1]) if one.shape[1] % c == 0):
            for at, (a, b) in enumerate(((one, other), (other, one))):
                if explains(a.reshape(len(a), -1, channels).swapaxes(1, 2).reshape(a.shape), b):
                    ways = f"the {channels} channels last", "the channels first"
                    yield Change("order of a flattened input", *(ways if not at else ways[::-1]))
    ratio = float(np.vdot(one, other) / (np.vdot(one, one) or 1.0)) if one.shape == other.shape else 0.0
    count = next((round(v) for v in (ratio, 1 / ratio) if v > 1.5 and abs(v - round(v)) < 1e-6 * v), 0) if ratio else 0
    if count and explains(other, ratio * one) and count in _lengths(case, one.ndim):
        ways = ("the mean", f"{count} times as much, a sum over {count} positions")
        yield Change("sum for mean", *(ways if ratio > 1 else ways[::-1]))
    if not case.earlier and one.shape == other.shape and (lines := _lines(one, other)) is not None:
        slopes, offsets = lines
        if explains(other, slopes * one + offsets):
            yield Change("scale of the inputs", "x", f"{slopes[0]:.6g} x + {offsets[0]:.6g}")


def _lines(one: Array, other: Array) -> tuple[Array, Array] | None:
    """By channel the slope and offset of one side as a function of the other; None where a channel is constant."""
    a, b = (side.reshape(-1, side.shape[-1]) for side in (one, other))
    if not np.ptp(a, axis=0).all():
        return None
    fits = np.array([np.polyfit(a[:, at], b[:, at], 1) for at in range(a.shape[1])])
    return fits[:, 0], fits[:, 1]


def _lengths(case: Case, axes: int) -> set[int]:
    """Of what comes before and has an axis more, the lengths of axes, and of all together."""
    inner = [array.shape[1:-1] for _, array, _ in case.common() if array.ndim > axes]
    return {math.prod(each) for each in inner} | {length for each in inner for length in each}

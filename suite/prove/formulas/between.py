"""Of what stands between layers: activations, pooling, what is added, positions, an embedding's scale, flattening."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import islice, product
from typing import Any

import numpy as np

from suite.prove.arithmetic import ACTIVATIONS, Function, poolings, windows_of
from suite.prove.layers import Case, Layer
from suite.prove.numbers import TOLERANCE, distance
from suite.prove.search import Change, Formula, closeness
from workloads.data.dataset import Array

#: From so many of the nearest arrays of a shape that fits it is looked for what a layer's input was made of.
NEAR = 6
#: And in so many of the nearest pictures, or sequences, for what was cut off.
NEAR_WHOLES = 2
#: How many rows, or columns, are cut off there; if none, they may be shifted.
LACKS = (1, 2, 0)
#: How many numbers, at least, a pooling makes one of there.
POOLED = 2
#: Activations of a sum.
OF_SUMS = ("no activation", "ReLU")


def formulas(case: Case) -> Iterator[Formula]:
    """What is made of each of the nearest things that both sides have alike."""
    if case.targets is None or case.targets[0].shape != case.targets[1].shape:
        return
    shape = case.targets[0].shape
    near = ((x, layer, _pools(case, x, shape)) for _, x, layer in case.common())
    for x, layer, pools in islice((each for each in near if each[2]), NEAR):
        yield _formula(case, x, layer, pools)
    yield from _aligned(case, shape)
    words = next((layer for layer in case.earlier if layer.is_table and layer.common("output") is not None), None)
    if words and (rows := words.common("output")) is not None and rows.shape == shape and rows.ndim == 3:
        tables = [a for name, a in case.pair.given.weights.items() if name not in words.tensors and a.ndim == 2]
        for table in tables:
            if table.shape[1] == shape[2] and len(table) >= shape[1]:
                yield _embedding(case, rows, table.astype(np.float64))


def _aligned(case: Case, shape: tuple[int, ...]) -> Iterator[Formula]:
    """What is made of a picture, or of a sequence, of which rows at the edges are cut off, or are zeros."""
    wholes = ((layer.whole, layer) for layer in case.earlier[::-1])
    for whole, layer in islice(((x, layer) for x, layer in wholes if x is not None and x.ndim in (3, 4)), NEAR_WHOLES):
        for lacks in sorted(product(LACKS, repeat=whole.ndim - 2), key=lambda each: len({*each})):
            windows = windows_of(whole.shape, lacks)
            within = (len(whole), *next(iter(windows.values()))(whole[:1]).shape[1:])
            times = math.prod(within) / math.prod(shape)
            if (times == 1 or (times >= POOLED and len({*lacks}) == 1)) and (pools := poolings(within, shape)):
                yield _formula(case, whole, layer, pools, windows)


def _pools(case: Case, x: Array, shape: tuple[int, ...]) -> dict[str, Function]:
    positions = x.ndim == 3 and (len(x), x.shape[2]) == shape
    return poolings(x.shape, shape) | (_pool_positions(case, *x.shape[:2]) if positions else {})


def _formula(
    case: Case, x: Array, layer: Layer | None, pools: dict[str, Function], windows: dict[str, Function] | None = None
) -> Formula:
    bias = layer.bias if layer and layer.bias is not None and layer.bias.size == x.shape[-1] else None
    added: dict[str, Any] = {"nothing": None}
    windows = windows or {"whole": lambda x: x}
    within = next(iter(windows.values()))(x[:1]).shape[1:]
    added |= {name: array for name, array, _ in case.common() if array.shape[1:] == within and array is not x}

    def computed(rows: Any, **ways: Any) -> Array | None:
        y = ways["alignment"](ways["activation"](x[rows] + ways["bias"]))
        if ways["residual"] is not None:
            y = ways["activation of the sum"](ways["product for sum"](y, ways["residual"][rows]))
        elif ways["activation of the sum"] is not ACTIVATIONS[OF_SUMS[0]] or ways["product for sum"] is not np.add:
            return None  # it is the other activation
        return np.asarray(ways["pooling"](y))

    ways: dict[str, dict[str, Any]] = {
        "pooling": pools,
        "activation": ACTIVATIONS,
        "residual": added,
        "bias": {"the bias once": 0.0} | ({} if bias is None else {"the bias twice": bias, "no bias": -bias}),
        "activation of the sum": {name: ACTIVATIONS[name] for name in OF_SUMS},
        "product for sum": {"the sum of both": np.add, "the product of both": np.multiply},
    }
    if len(windows) == 1:
        return Formula({"alignment": windows} | ways, computed, most=3)
    usual = {
        what: dict([next(iter(ways[what].items()))]) for what in ("bias", "activation of the sum", "product for sum")
    }
    return Formula({"alignment": windows} | ways | usual, computed)


def _pool_positions(case: Case, samples: int, length: int) -> dict[str, Function]:
    """What may be made of (b, positions, width), of all positions or of those with words; in all samples or the few."""
    tokens = case.tokens if case.tokens is not None else np.ones((samples, length), int)
    count, places = np.maximum(np.count_nonzero(tokens, axis=1), 1)[:, None], np.arange(length)[None]
    masks = {"all positions": np.ones((len(tokens), length), bool), "the words in front": places < count}
    masks |= {"the words behind": places >= length - count}
    masks |= {"the words": tokens != 0} if tokens.shape[1] == length else {}
    found: dict[str, Function] = {}
    for where, there in masks.items():
        if where != "all positions" and (there.all() or not there.any(1).all()):
            continue
        last = places == (places * there).max(1)[:, None]
        shares = {
            "mean": there / there.sum(1)[:, None],
            "sum": there,
            "last": last,
            "first": places == there.argmax(1)[:, None],
        }
        shares |= {} if there.all() else {"sum, divided by all positions,": there / length}

        def weighted(x: Array, by: Array) -> Array:
            return np.asarray(np.einsum("bt,btw->bw", (by if len(x) == len(by) else by[case.few]).astype(float), x))

        found |= {f"the {kind} of {where}": partial(weighted, by=share) for kind, share in shares.items()}
        lowest = np.where(there, 0.0, -np.inf)[:, :, None]
        found[f"the maximum of {where}"] = partial(
            lambda x, low: (x + (low if len(x) == len(low) else low[case.few])).max(1), low=lowest
        )
    return found


def _embedding(case: Case, rows: Array, table: Array) -> Formula:
    """An embedding, multiplied by the root of its width or not, with positions or without."""
    root, length, places = math.sqrt(rows.shape[2]), rows.shape[1], np.arange(rows.shape[1])
    scales = {"1": (1.0, 1.0), "the root of its width": (root, 1.0), "1 / the root of its width": (1 / root, 1.0)}
    scales |= {f"{name}, with the positions": (by, by) for name, (by, _) in list(scales.items())[1:]}
    added = {"the positions from the first": table[:length], "no positions": np.zeros_like(table[:length])}
    for shift in (1, -1, 2, -2):
        added[f"the positions from row {shift}"] = table[np.clip(places + shift, 0, len(table) - 1)]
        added[f"the positions from row {shift}, around"] = table[(places + shift) % len(table)]
        added[f"the positions from row {shift}, around the text"] = np.roll(table[:length], -shift, 0)
    added |= {"the positions from the last": table[:length][::-1], "those from the table's last": table[::-1][:length]}
    if case.tokens is not None and not case.tokens.all():
        padding = case.tokens.shape[1] - np.count_nonzero(case.tokens, axis=1)[:, None]
        added["the positions from the first word"] = table[np.maximum(places - padding, 0)]

    def computed(samples: Any, **ways: Any) -> Array:
        (by, also), position = ways["scaled embedding"], ways["positions"]
        return np.asarray(by * rows[samples] + also * (position[samples] if position.ndim == 3 else position))

    return Formula({"positions": added, "scaled embedding": scales}, computed)


def transformations(case: Case) -> Iterator[Change]:
    """What makes the numbers of one side of those of the other, whatever both were made of."""
    one, other = case.targets or (np.zeros(0), np.zeros(1))
    near = closeness(one, other)
    if one.shape != other.shape:
        return
    for channels in (c for c in range(2, one.shape[1]) if one.ndim == 2 and one.shape[1] % c == 0):
        for at, (a, b) in enumerate(((one, other), (other, one))):
            if distance(a.reshape(len(a), -1, channels).swapaxes(1, 2).reshape(a.shape), b) <= near:
                ways = f"the {channels} channels last", "the channels first"
                yield Change("order of a flattened input", *(ways if not at else ways[::-1]))
    ratio = float(np.vdot(one, other) / (np.vdot(one, one) or 1.0)) or 1.0
    lengths = [array.shape[1:-1] for _, array, _ in case.common() if array.ndim > one.ndim]
    for count in {math.prod(each) for each in lengths} | {length for each in lengths for length in each}:
        if (
            count > 1
            and min(abs(ratio - count), abs(1 / ratio - count)) < 1e-6
            and distance(ratio * one, other) <= near
        ):
            ways = ("the mean", f"{count} times as much, a sum over {count} positions")
            yield Change("sum for mean", *(ways if ratio > 1 else ways[::-1]))
    if not case.earlier:
        a, b = (side.reshape(-1, side.shape[-1]) for side in (one, other))
        slopes = (a * (b - b.mean(0))).mean(0) / np.maximum(a.var(0), 1e-300)
        offsets = b.mean(0) - slopes * a.mean(0)
        if distance(slopes * a + offsets, b) <= near:
            yield Change("scale of the inputs", "x", f"{slopes[0]:.6g} x + {offsets[0]:.6g}")


def orders(one: Array, other: Array) -> Iterator[Change]:
    """Whether both have the same numbers in another order along an axis: after a concatenation, say, or in time."""
    near = closeness(one, other)
    for axis in range(1, one.ndim) if one.shape == other.shape else ():
        sides = [np.moveaxis(side, axis, 0).reshape(side.shape[axis], -1) for side in (one, other)]
        weights = np.random.default_rng(0).standard_normal(sides[0].shape[1])
        ranks = [np.argsort(side @ weights, kind="stable") for side in sides]
        if distance(sides[0][ranks[0]], sides[1][ranks[1]]) <= near:
            place = ranks[0][np.argsort(ranks[1])]  # where the other side's numbers stand in the first
            last = place[np.flatnonzero(place != np.arange(len(place)))[0]]
            kind = "channel" if axis == one.ndim - 1 else "position"
            yield Change(f"order of {kind}s", "as they are", f"the {kind} {last} of {len(place)} is elsewhere")
            return


def parts(case: Case) -> Iterator[Case]:
    """The same case of some channels alone, which are as many as another array has, where all beside them are alike.

    Such a part has gone into a concatenation.
    """
    one, other = case.targets or (np.zeros(0), np.zeros(1))
    if one.shape != other.shape or one.ndim < 2:
        return
    sides = [side.reshape(-1, side.shape[-1]) for side in (one, other)]
    apart = np.flatnonzero(np.abs(sides[0] - sides[1]).max(0) > TOLERANCE * np.abs(sides[0]).max(initial=0.0))
    count, widths = one.shape[-1], {array.shape[-1] for _, array, _ in case.common()}
    if not apart.size or len(apart) == count:
        return
    first, last = int(apart[0]), int(apart[-1])
    for width in sorted(width for width in widths if last - first < width < count):
        for start in sorted(
            {*range(max(0, last + 1 - width), min(first, count - width) + 1)}, key=lambda at: at % width
        ):
            part = Case(case.pair, case.place)
            part.__dict__["targets"] = one[..., start : start + width], other[..., start : start + width]
            yield part

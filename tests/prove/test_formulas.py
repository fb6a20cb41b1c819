"""Causes by formulas, on numbers that NumPy makes: what porters meet is named by what is done otherwise."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from suite.prove.arithmetic import ACTIVATIONS, convolution, dilate, pool, recurrent_states
from suite.prove.causes import find_causes
from suite.prove.compare import Check, first_difference
from suite.prove.formulas import inside
from suite.prove.layers import Case, Pair, Place
from suite.prove.numbers import Given, Numbers

DRAW = np.random.default_rng(0)
SCALE, SHIFT = DRAW.uniform(0.5, 1.5, 6), DRAW.standard_normal(6)
WORDS = DRAW.standard_normal((8, 5, 6))
SPREAD = np.random.default_rng(2).standard_normal((8, 5, 4))
PICTURE = DRAW.standard_normal((8, 7, 7, 3))
KERNEL, UP, BIAS = DRAW.standard_normal((3, 3, 3, 6)), DRAW.standard_normal((3, 3, 6, 3)), DRAW.standard_normal(6)
UNITS = 3
GRU = {"kernel": (6, 9), "recurrent": (3, 9), "bias": (2, 9)}
LSTMS = {"1/kernel": (6, 12), "1/recurrent": (3, 12), "1/bias": (12,)}
LSTMS |= {"2/kernel": (3, 12), "2/recurrent": (3, 12), "2/bias": (12,)}
BOTH = {"kernel": (6, 12), "recurrent": (3, 12), "bias": (12,)}
BOTH = {f"{way}_{at}/{name}": shape for at in (0, 1) for way in ("forward", "backward") for name, shape in BOTH.items()}
GRU, LSTMS, BOTH = ({name: DRAW.standard_normal(shape) for name, shape in each.items()} for each in (GRU, LSTMS, BOTH))
LABELS = np.arange(8) % 4
TANGENT = "GELU by the tangent"


def side(framework: str, arrays: dict[str, Any], *layers: tuple[str, ...]) -> Numbers:
    facts = {"layers": [{"path": "", "tensors": list(tensors), "lines": []} for tensors in layers]}
    return Numbers({"framework": framework, **facts}, arrays)


def named(
    place: str, arrays: list[dict[str, Any]], tensors: dict[str, Any], layers: list[tuple[str, ...]],
    inputs: Any = None, layer: int | None = None, *, within: bool = True,
) -> list[str]:  # fmt: skip
    """The causes that are named of two sides with these arrays."""
    one, other = (side(name, each, *layers) for name, each in zip(("pytorch", "jax"), arrays, strict=True))
    given = Given(tensors, [(WORDS if inputs is None else inputs, LABELS)])
    pair = Pair(one, other, given)
    case = Case(pair, Place(place, None if layer is None else pair.layers[layer], within))
    return list(find_causes(case))


def of_layer(tensors: dict[str, Any], x: Any, right: Any, wrong: Any) -> list[str]:
    arrays = [{"layers/0/input": x, "layers/0/output": y} for y in (right, wrong)]
    return named("logits", arrays, tensors, [tuple(tensors)], x, 0)


def normalised(x: Any, axes: Any, epsilon: float, ddof: int = 0, *, centred: bool = True) -> Any:
    less = x - x.mean(axes, keepdims=True) if centred else x
    count = x.size / less.mean(axes).size
    return less / np.sqrt((less**2).mean(axes, keepdims=True) * count / (count - ddof) + epsilon) * SCALE + SHIFT


def convolved(kernel: Any, stride: int = 1, padding: Any = (1, 1), bias: Any = BIAS, across: Any = None) -> Any:
    return convolution(PICTURE, kernel, stride, padding, across) + bias


def transposed(kernel: Any, *padding: tuple[int, int]) -> Any:
    return convolution(dilate(PICTURE, 2, 2), kernel[::-1, ::-1].swapaxes(2, 3), 1, *padding) + BIAS


def gru(order: tuple[int, ...] = (0, 1, 2), bias: Any = GRU["bias"], *, reset: bool = True, update: bool = True) -> Any:
    kernel, recurrent, biases = (inside._in_order(each, order) for each in (GRU["kernel"], GRU["recurrent"], bias))
    ways = {"reset gate": reset, "update gate": update}
    return recurrent_states(WORDS, partial(inside._gru, (kernel, recurrent, list(biases)), ways), UNITS)


def lstms(order: tuple[int, ...] = (0, 1, 2, 3), second: tuple[int, ...] = (0, 1, 2, 3), times: int = 1) -> Any:
    x = WORDS
    for number, turn in ((1, order), (2, second)):
        kernel, recurrent, bias = (inside._in_order(LSTMS[f"{number}/{name}"], turn) for name in GRU)
        tensors = kernel, recurrent, [bias * (times if number == 2 else 1)]
        x = recurrent_states(x, partial(inside._lstm, tensors, {"bias of the forget gate": 0.0}), UNITS)
    return x[:, -1]


def both_ways(
    orders: tuple[int, ...] = (1, 1), turns: Any = (1, -1), layers: Any = (0, 1), *, back: bool = True
) -> Any:
    """All states of two LSTMs that read both ways, the second those of the first."""
    x = WORDS
    for at, order in zip(layers, orders, strict=True):
        each = []
        for way, turn in zip(("forward", "backward"), turns, strict=True):
            kernel, recurrent, bias = (BOTH[f"{way}_{at}/{name}"] for name in GRU)
            cell = partial(inside._lstm, (kernel, recurrent, [bias]), {"bias of the forget gate": 0.0})
            each.append(recurrent_states(x[:, ::turn], cell, UNITS)[:, :: turn if back else 1])
        x = np.concatenate(each[::order], -1)
    return x


FEATURES, BATCH = 2, (0, 1)
INSIDE = {
    "LayerNorm: epsilon": (WORDS, normalised(WORDS, FEATURES, 1e-5), normalised(WORDS, FEATURES, 1e-6), "epsilon"),
    "BatchNorm: epsilon": (WORDS, normalised(WORDS, BATCH, 1e-5), normalised(WORDS, BATCH, 1e-3), "epsilon"),
    "RMSNorm: epsilon": (WORDS, normalised(WORDS, FEATURES, 1e-6, centred=False),
        normalised(WORDS, FEATURES, 1e-5, centred=False), "epsilon"),
    "RMSNorm: centred": (WORDS, normalised(WORDS, FEATURES, 1e-6, centred=False), normalised(WORDS, FEATURES, 1e-6),
        "centring"),
    "LayerNorm: variance": (WORDS, normalised(WORDS, FEATURES, 1e-5), normalised(WORDS, FEATURES, 1e-5, 1),
        "biased variance"),
    "BatchNorm: in evaluation": (WORDS, normalised(WORDS, BATCH, 1e-5), WORDS / np.sqrt(1 + 1e-5) * SCALE + SHIFT,
        "normalised axes"),
    "convolution: stride 2": (PICTURE, convolved(KERNEL, 2), convolved(KERNEL, 2, (0, 2)),
        '"same" padding with stride 2'),
    "convolution: height and width": (PICTURE, convolved(KERNEL), convolved(KERNEL.transpose(1, 0, 2, 3)),
        "layout of a kernel"),
    "convolution: no bias": (PICTURE, convolved(KERNEL), convolved(KERNEL, bias=0), "bias missing"),
    "transposed: alignment": (PICTURE, transposed(UP, (1, 2)), transposed(UP, (2, 1)), "alignment"),
    "transposed: alignment of columns": (PICTURE, transposed(UP, (1, 2)), transposed(UP, (1, 2), (2, 1)), "alignment"),
    "convolution: columns": (PICTURE, convolved(KERNEL), convolved(KERNEL, 1, (1, 1), across=(2, 0)), "padding"),
    "transposed: mirrored": (PICTURE, transposed(UP, (1, 2)), transposed(UP[::-1, ::-1], (1, 2)), "layout of a kernel"),
    "GRU: order of gates": (WORDS, gru(), gru((1, 0, 2)), "order of gates"),
    "GRU: reset before": (WORDS, gru(), gru(reset=False), "reset gate"),
    "GRU: update gate": (WORDS, gru(), gru(update=False), "update gate"),
    "GRU: no bias of the state": (WORDS, gru(), gru(bias=GRU["bias"] * [[1], [0]]), "bias missing"),
    "LSTMs: order of gates": (WORDS, lstms(), lstms((1, 0, 2, 3), (1, 0, 2, 3)), "order of gates"),
    "LSTMs: order in the second": (WORDS, lstms(), lstms(second=(0, 1, 3, 2)), "order of gates"),
    "both ways: the backward states first": (WORDS, both_ways(), both_ways((-1, -1)), "order of directions"),
    "both ways: in the first alone": (WORDS, both_ways(), both_ways((-1, 1)), "order of directions"),
    "both ways: never reversed": (WORDS, both_ways(), both_ways(turns=(1, 1)), "direction"),
    "both ways: left turned around": (WORDS, both_ways(), both_ways(back=False), "direction"),
    "both ways: the second layer first": (WORDS, both_ways(), both_ways(layers=(1, 0)), "order of layers"),
    "LSTMs: bias of the second twice": (WORDS, lstms(), lstms(times=2), "bias twice"),
}  # fmt: skip


def tensors_of(name: str) -> dict[str, Any]:
    kind = name.partition(":")[0]
    norm = {"norm/scale": SCALE, "norm/bias": SHIFT}
    of = {"convolution": {"conv/kernel": KERNEL, "conv/bias": BIAS}, "transposed": {"up/kernel": UP, "up/bias": BIAS}}
    return {**of, "GRU": {f"gru/{each}": a for each, a in GRU.items()}, "LSTMs": LSTMS, "both ways": BOTH}.get(
        kind, norm
    )


@pytest.mark.parametrize("name", INSIDE)
def test_a_layer_that_computes_otherwise(name: str) -> None:
    x, right, wrong, cause = INSIDE[name]
    assert of_layer(tensors_of(name), x, right, wrong) == [cause]
    assert of_layer(tensors_of(name), x, wrong, right) == [cause], "whichever side it is"


def between(before: Any, right: Any, wrong: Any, inputs: Any = None) -> list[str]:
    """Of a layer that gave ``before`` on both sides, and what was made of it on either."""
    layers, kernel = [("a/kernel",), ("b/kernel",)], np.ones((3, before.shape[-1]))
    first = {"layers/0/input": np.ones((8, 3)), "layers/0/output": before}
    arrays = [{**first, "layers/1/input": made} for made in (right, wrong)]
    return named("logits", arrays, {"a/kernel": kernel, "b/kernel": kernel.T}, layers, inputs, 1, within=False)


def pooled(kind: str, size: int, stride: int, *padding: int) -> Any:
    return pool(np.maximum(PICTURE, 0), kind, size, stride, (padding[0], padding[1]))


@pytest.mark.parametrize(("right", "wrong", "cause"), [
    (pooled("maximum", 3, 2, 1, 1), pooled("maximum", 3, 2, 0, 2), "pooling"),
    (pooled("maximum", 3, 2, 0, 0), pooled("maximum", 2, 2, 0, 0), "pooling"),
    (pooled("mean", 3, 2, 1, 1), pooled("mean without the padding", 3, 2, 1, 1), "pooling"),
    (np.maximum(PICTURE, 0), np.clip(PICTURE, 0, 0.5), ""),
    (np.maximum(4 * PICTURE, 0), np.clip(4 * PICTURE, 0, 6), "activation"),
    (ACTIVATIONS[TANGENT](PICTURE), ACTIVATIONS["GELU by the error function"](PICTURE), "form of GELU"),
    (PICTURE.reshape(8, -1), PICTURE.transpose(0, 3, 1, 2).reshape(8, -1), "order of a flattened input"),
])  # fmt: skip
def test_what_stands_between_layers(right: Any, wrong: Any, cause: str) -> None:
    before = 4 * PICTURE if cause == "activation" else PICTURE
    assert between(before, right, wrong) == ([cause] if cause else [])


def padded(array: Any, rows: tuple[int, int], columns: tuple[int, int]) -> Any:
    return np.pad(array, ((0, 0), rows, columns, (0, 0)))


EDGES = np.random.default_rng(4).standard_normal((8, 9, 9, 3))
#: What is left of nine rows and columns: cut off or shifted at either end, on either axis, with zeros for some.
CUT = {
    "the other end": (EDGES[:, 1:, 1:], EDGES[:, :-1, :-1]),
    "columns alone": (EDGES[:, 1:, 1:], EDGES[:, 1:, :-1]),
    "two at one end": (EDGES[:, 1:-1, 1:-1], EDGES[:, 2:, 2:]),
    "zeros for the last": (EDGES[:, 1:, 1:], padded(EDGES[:, 1:-1, 1:-1], (0, 1), (0, 1))),
    "zeros for the last column": (EDGES[:, 1:, 1:], padded(EDGES[:, 1:, 1:-1], (0, 0), (0, 1))),
    "shifted rows": (EDGES, padded(EDGES[:, :-1], (1, 0), (0, 0))),
    "a sequence": (EDGES[:, 1:, 0], EDGES[:, :-1, 0]),
}


@pytest.mark.parametrize("after", [lambda x: x, ACTIVATIONS["ReLU"]], ids=["alone", "activated"])
@pytest.mark.parametrize(("right", "wrong"), CUT.values(), ids=CUT)
def test_what_is_cut_off(right: Any, wrong: Any, after: Any) -> None:
    before = EDGES if right.ndim == 4 else EDGES[:, :, 0]
    assert between(before, after(right), after(wrong)) == ["alignment"]


def test_what_is_cut_off_and_another_thing_too() -> None:
    right, wrong = CUT["the other end"]
    assert between(EDGES, right, 1.1 * wrong) == []


@pytest.mark.parametrize("activation", ["no activation", "sigmoid"])
def test_a_product_for_a_sum(activation: str) -> None:
    """And the reverse, as where a gate is added."""
    own = ACTIVATIONS[activation](WORDS)
    beside = np.random.default_rng(3).standard_normal(WORDS.shape)
    for right, wrong in ((own + beside, own * beside), (own * beside, own + beside)):
        assert between(WORDS, right, wrong, beside) == ["product for sum"]


def test_what_was_made_long_before_is_found() -> None:
    """Two tables, whose product stands beside the output of several layers, as in neural matrix factorisation."""
    user, item, beside = (np.random.default_rng(seed).standard_normal((8, 6)) for seed in range(3))
    made = [{"output": user}, {"output": item}] + [{"input": beside[:, :3], "output": beside[:, :4]}] * 4
    first = {f"layers/{at}/{name}": x for at, each in enumerate(made) for name, x in each.items()}
    joined = (np.concatenate([each, beside[:, :4]], 1) for each in (user * item, user + item))
    arrays = [{**first, "layers/6/input": each} for each in joined]
    tensors = {f"{at}/kernel": np.ones((2, at + 2)) for at in range(7)}
    layers = [(name,) for name in tensors]
    assert named("logits", arrays, tensors, layers, WORDS, 6, within=False) == ["product for sum"]


RECTIFIED = np.maximum(WORDS, 0)


#: What is concatenated, right and wrong, and the cause that is named.
JOINED = {
    "concatenated": ((WORDS, SPREAD), (SPREAD, WORDS), "order of channels"),
    "backwards": ((WORDS,), (WORDS[:, ::-1],), "order of positions"),
    "no-activation": ((SPREAD, RECTIFIED), (SPREAD, WORDS), "activation"),
    "another-activation": ((RECTIFIED, SPREAD), (np.tanh(WORDS), SPREAD), "activation"),
    "unknown": ((SPREAD, WORDS), (SPREAD, 1.1 * WORDS), ""),
    "both": ((SPREAD, WORDS), (SPREAD * 1.1, np.tanh(WORDS)), ""),
}


@pytest.mark.parametrize(("right", "wrong", "cause"), JOINED.values(), ids=JOINED)
def test_what_is_concatenated(right: Any, wrong: Any, cause: str) -> None:
    """In the whole, or in the part that differs."""
    assert between(WORDS, *(np.concatenate(each, -1) for each in (right, wrong))) == ([cause] if cause else [])


def test_the_padding_of_a_text_in_its_mean() -> None:
    tokens = np.arange(1, 41).reshape(8, 5) * (np.arange(5) < np.arange(8)[:, None] % 4 + 2)
    there = (tokens != 0)[:, :, None]
    mean = (WORDS * there).sum(1) / there.sum(1)
    assert between(WORDS, mean, WORDS.mean(1), tokens) == ["masked padding"]
    assert between(WORDS, mean, (WORDS * there).sum(1) / 5, tokens) == ["masked padding"]
    assert between(WORDS, mean, WORDS[:, 0], tokens) == ["pooling"]


@pytest.mark.parametrize(("right", "wrong"), [(WORDS.max(1), WORDS.mean(1)), (WORDS[:, -1], WORDS[:, 0])])
def test_positions_that_are_no_words_are_pooled_in_all_samples(right: Any, wrong: Any) -> None:
    assert between(WORDS, right, wrong, WORDS) == ["pooling"]


def test_an_edge_that_one_side_cuts_off_is_told_where_it_is_first_lost() -> None:
    """As with `ceil_mode=True`: all that both sides have is the same, and what comes of it is not."""
    kept, cut = PICTURE, PICTURE[:, :-1, :-1]
    arrays = [{"layers/0/input": x, "layers/0/output": x @ KERNEL[0, 0], "logits": x.mean((1, 2))} for x in (kept, cut)]
    one, other = (side(name, each, ("kernel",)) for name, each in zip(("pytorch", "jax"), arrays, strict=True))
    pair = Pair(one, other, Given({"kernel": KERNEL[:1, :1]}, [(PICTURE, LABELS)]))
    place = first_difference(pair, [Check("logits", False)])
    assert place is not None
    assert (place.layer, place.inside) == (pair.layers[0], False)
    assert find_causes(Case(pair, place)) == {"edges": "pytorch: 7 x 7; jax: 6 x 6"}

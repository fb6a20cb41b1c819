"""Causes by formulas of loss, gradients, steps and running statistics, on numbers that NumPy makes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from suite.prove.causes import find_causes
from suite.prove.layers import Case, Pair, Place
from suite.prove.numbers import Given
from tests.prove.test_formulas import BIAS, DRAW, KERNEL, LABELS, SCALE, SHIFT, WORDS, named, side


def entropy(logits: Any, smoothing: float = 0.0) -> float:
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    return float(-((1 - smoothing) * logs[np.arange(8), LABELS] + smoothing * logs.mean(1)).mean())


@pytest.mark.parametrize(("change", "cause"), [
    (lambda logits: entropy(logits, 0.1), "label smoothing"),
    (lambda logits: 8 * entropy(logits), "sum for mean"),
    (lambda logits: entropy(np.exp(logits) / np.exp(logits).sum(1, keepdims=True)), "softmax twice"),
    (lambda logits: 1.2345678 * entropy(logits), ""),
])  # fmt: skip
def test_a_loss_that_is_another(change: Any, cause: str) -> None:
    logits = np.random.default_rng(1).standard_normal((8, 4))
    arrays = [{"logits": logits, "loss": np.array(loss)} for loss in (entropy(logits), change(logits))]
    assert named("loss", arrays, {}, []) == ([cause] if cause else [])


OF_TAGS = ("order of means", "masked padding", "")


@pytest.mark.parametrize("which", OF_TAGS)
def test_a_loss_of_tags_of_which_some_do_not_count(which: str) -> None:
    logits = np.random.default_rng(1).standard_normal((8, 5, 4))
    labels = np.where(np.arange(5) < np.arange(8)[:, None] % 4 + 2, np.arange(40).reshape(8, 5) % 4, -1)
    shares = np.log(np.exp(logits) / np.exp(logits).sum(2, keepdims=True))
    losses, there = -np.take_along_axis(shares, np.maximum(labels, 0)[..., None], 2)[..., 0], labels >= 0
    mean = losses[there].mean()
    others = {"order of means": ((losses * there).sum(1) / there.sum(1)).mean(), "masked padding": mean * there.mean()}
    one, other = (
        side(name, {"logits": logits.reshape(8, -1), "loss": np.array(loss)})
        for name, loss in (("pytorch", mean), ("jax", others.get(which, 1.234 * mean)))
    )
    case = Case(Pair(one, other, Given({}, [(WORDS, labels)])), Place("loss"))
    assert list(find_causes(case)) == ([which] if which else [])


#: How many times tensors are added to their gradients, by their names.
DECAYS = {
    "kernels": {"a/kernel": 1e-3},
    "biases too": {"a/kernel": 1e-5, "a/bias": 1e-5},
    "a gradient that is zero": {"a/kernel": 1e-3, "b/bias": 1e-3},
    "means of squares": {"a/kernel": 2 / KERNEL.size, "a/bias": 2 / BIAS.size},
}


@pytest.mark.parametrize("factors", DECAYS.values(), ids=DECAYS)
@pytest.mark.parametrize(("stage", "more"), [("gradients", 0), ("loss", 0), ("loss", 0.1), ("three steps", 0)])
def test_a_decay_of_some_tensors(stage: str, more: float, factors: dict[str, float]) -> None:
    """By a framework's own regulariser, beside the spec's optimizer.

    If the loss differs, it must explain that too; if not, it must be one multiple in all tensors.
    """
    weights = {"a/kernel": KERNEL, "a/bias": BIAS, "b/bias": SHIFT}
    sizes = dict.fromkeys(weights, 1.0) | {"b/bias": 1e-16}  # zero by mathematics, so that it is rounding on both sides
    logits = np.random.default_rng(1).standard_normal((8, 4))
    squares = sum(factor / 2 * np.sum(weights[name] ** 2) for name, factor in factors.items())
    start, way = (weights, -1) if stage == "three steps" else (dict.fromkeys(weights, 0.0), 1)
    moves = {name: DRAW.standard_normal(array.shape) for name, array in weights.items()}
    arrays = [
        {f"{'first' if way < 0 else 'gradients'}/{name}": start[name] + sizes[name] * (moves[name] + rounding)
         + at * way * factors.get(name, 0.0) * array for name, array in weights.items()}
        | {"logits": logits, "loss": np.array(1.0 + (at * (squares + more) if stage == "loss" else 0.0))}
        for at, rounding in enumerate((0.0, 1e-15 if way > 0 else 0.0))
    ]  # fmt: skip
    arrays[1][f"{'first' if way < 0 else 'gradients'}/b/bias"] += 1e-16
    explained = not more if stage == "loss" else len({*factors.values()}) == 1
    assert named(stage, arrays, weights, []) == (["weight decay"] if explained else [])


@pytest.mark.parametrize(
    ("share", "unbiased", "cause"),
    [(0.9, False, "momentum convention"), (0.3, False, "momentum"), (0.1, True, "biased variance")],
)
def test_running_statistics(share: float, unbiased: bool, cause: str) -> None:
    """A momentum of .1 or .01, and the divisor of the variance."""
    mean, variance, count = WORDS.mean((0, 1)), WORDS.var((0, 1)), 40
    arrays = []
    for part, factor in ((0.1, 1.0), (share, count / (count - 1) if unbiased else 1.0)):
        running = {"layers/0/mean": part * mean, "layers/0/variance": 1 - part + part * factor * variance}
        arrays.append({"layers/0/input": WORDS, **running})
    tensors = {"norm/scale": SCALE, "norm/bias": SHIFT}
    assert named("evaluation", arrays, tensors, [tuple(tensors)], None, 0) == [cause]

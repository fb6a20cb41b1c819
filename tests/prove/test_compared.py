"""The checks of a proof on numbers that NumPy makes: what is rounding, an error, and seen at a larger scale only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from suite.prove.compare import Check, checks, first_difference
from suite.prove.layers import pair_of
from suite.prove.numbers import Given, Numbers, distances
from suite.prove.output import explanation, verdict
from suite.worker.evidence.layers import SCALE, enlarge, enlarge_inputs
from suite.worker.evidence.proof import _likeliest

DRAW = np.random.default_rng(0)
WEIGHTS = {"a/kernel": DRAW.standard_normal((4, 3)), "a/bias": DRAW.standard_normal(3)}
X, LABELS = DRAW.standard_normal((8, 4)).astype(np.float32), np.arange(8) % 3
GIVEN = Given(WEIGHTS, [(X, LABELS)])
LAYER = {"path": "a", "tensors": list(WEIGHTS), "lines": []}
STAGES = ("weights", "logits", "loss", "gradients", "after", "evaluation", "scaled")


def answers(group: str, x: Any) -> dict[str, Any]:
    logits = x @ WEIGHTS["a/kernel"] + WEIGHTS["a/bias"]
    layer = {f"{group}layers/0/input": x, f"{group}layers/0/output": logits}
    return {f"{group}logits": logits, f"{group}loss": np.array(logits.mean()), **layer}


def numbers(framework: str, until: str = "", **changes: Any) -> Numbers:
    """What a dense layer computes; ``until`` the stage at which it ends with an error."""
    arrays = answers("", X) | answers("scaled/", SCALE * X)
    for group in ("weights", "gradients", "first", "after"):
        arrays |= {f"{group}/{name}": array for name, array in WEIGHTS.items()}
    for group in ("evaluation", "scaled"):
        arrays |= {f"{group}/after": np.ones(8), f"{group}/right": LABELS == 1, f"{group}/likeliest": np.ones(8)}
    for name in ("start", "dropout", "again"):
        arrays[f"evaluation/{name}"] = np.ones(8)
    arrays |= {"losses": np.ones(3), "scaled/again": arrays["scaled/logits"]}
    arrays |= {name.replace("__", "/"): array for name, array in changes.items()}
    facts: dict[str, Any] = {"framework": framework, "layers": [LAYER], "trained": 15}
    if until:
        gone = STAGES[STAGES.index(until) :]
        arrays = {name: array for name, array in arrays.items() if not name.startswith(gone)}
        facts["failed"] = {"stage": until, "error": "jax.py line 3: ValueError: no"}
    return Numbers(facts, arrays)


def compared(*sides: Numbers) -> dict[str, Check]:
    return {check.name: check for check in checks(*sides, GIVEN)}


def test_what_is_the_same_is_the_same() -> None:
    lines, same = verdict(numbers("pytorch"), [numbers("jax")], GIVEN)
    assert same
    assert lines[-1] == "verdict: the same to 1e-09"


def test_a_gradient_that_is_zero_by_mathematics_is_no_difference() -> None:
    """Of a key's bias: noise of 1e-17 beside a largest of 1, which is another in each framework."""
    one, other = ({"a": np.ones(4), "b": np.full(2, noise)} for noise in (1e-17, 2.3e-16))
    assert max(distances(one, other).values()) < 1e-15
    assert distances(one, {"a": np.ones(4), "b": np.full(2, 1e-6)})["b"] > 1e-7, "a gradient that is one differs"
    assert compared(numbers("a", gradients__a__bias=np.zeros(3)), numbers("b"))["gradients"].same is False


def test_a_small_gradient_is_no_zero() -> None:
    """A missing one is seen though it is a billionth of the largest, and rounding beside the largest is not."""
    for size, same in ((1e-9, False), (1e-15, True)):
        sides = (numbers(name, gradients__a__bias=np.full(3, own)) for name, own in (("a", size), ("b", 0.0)))
        assert compared(*sides)["gradients"].same == same


def test_after_an_error_nothing_else_is_asked() -> None:
    one, other = numbers("pytorch"), numbers("jax", until="gradients")
    found = checks(one, other, GIVEN)
    marks = {check.name: (check.same, check.failed) for check in found}
    assert marks["loss"] == (True, False)
    assert marks["gradients"] == (False, True)
    assert all(marks[name] == (None, False) for name in ("three steps", "evaluation", "larger scale"))
    lines, same = verdict(one, [other], GIVEN)
    assert not same
    assert [line.split()[1] for line in lines if line.startswith("  gradients")] == ["ERROR"]
    assert sum("not asked" in line for line in lines) == 4
    assert not any("DIFFERS" in line for line in lines)
    assert explanation(one, other, GIVEN, found) == ["  differs first: gradients, which one side does not reach"]


def test_a_loss_is_not_blamed_on_a_layer() -> None:
    """Keras gives a layer's output after its activation; where logits agree, no layer is looked at."""
    other = numbers("tensorflow", loss=np.array(3.0), layers__0__output=np.zeros((8, 3)))
    (first, *_) = explanation(numbers("pytorch"), other, GIVEN, checks(numbers("pytorch"), other, GIVEN))
    assert first == "  differs first: loss"


def test_what_shows_at_a_larger_scale_only() -> None:
    """An answer that clips, and rounding that a model amplifies."""
    clipped = np.clip(numbers("a").arrays["scaled/logits"], None, 6)
    other = numbers("jax", scaled__logits=clipped, scaled__again=clipped)
    found = compared(numbers("pytorch"), other)
    assert [name for name, check in found.items() if check.same is False] == ["larger scale"]
    lines = explanation(numbers("pytorch"), other, GIVEN, list(found.values()))
    assert lines[0] == "  differs first: at a larger scale, logits, after layer a"
    assert "ReLU" not in lines[1]
    logits = numbers("a").arrays["scaled/logits"]
    for noise, off, same in ((0.0, 5e-9, False), (1e-9, 5e-9, True), (1e-2, 0.5, True)):
        moved = logits * (1 + off)
        shaken = numbers("jax", scaled__again=moved * (1 + noise), scaled__logits=moved)
        assert compared(numbers("pytorch"), shaken)["larger scale"].same == same


def test_the_verdict_says_that_a_chaotic_model_was_not_compared_at_a_larger_scale() -> None:
    logits = numbers("a").arrays["scaled/logits"]
    for changes in ({"scaled__again": 1.01 * logits}, {"scaled__logits": np.nan * logits}):
        lines, same = verdict(numbers("pytorch", **changes), [numbers("jax", **changes)], GIVEN)
        assert same
        assert [line.split()[2] for line in lines if line.startswith("  larger scale")] == ["skipped"]
        assert lines[-1] == "verdict: the same to 1e-09; not compared at a larger scale"


@pytest.mark.parametrize("group", ["evaluation", "scaled"])
@pytest.mark.parametrize("answers", ["right", "likeliest"])
def test_right_answers_are_compared(group: str, answers: str) -> None:
    """Where `argmin` stands for `argmax`, losses are the same, and few samples have the label of either."""
    name = "evaluation" if group == "evaluation" else "larger scale"
    other = numbers("jax", **{f"{group}__{answers}": np.zeros(8)})
    assert compared(numbers("pytorch"), other)[name].same is False


def test_the_likeliest_label_is_one_of_those_that_there_are() -> None:
    """Of several outputs that are joined, the first tell the labels."""
    joined = np.array([[0.1, 0.9, 5.0, 7.0], [0.3, 0.2, 9.0, 1.0]])
    assert _likeliest(joined, LABELS[:2], 2) == pytest.approx([1, 0])


def test_where_later_updates_alone_differ_the_larger_scale_says_why() -> None:
    """A ReLU that no value of the first batch meets; Adam moves what has no gradient otherwise in each framework."""
    moved = {"after__a__kernel": 2 * WEIGHTS["a/kernel"], "scaled__logits": np.zeros((8, 3))}
    moved |= {"scaled__again": np.zeros((8, 3)), "scaled__layers__0__output": np.zeros((8, 3))}
    pair = pair_of(numbers("pytorch"), numbers("jax", **moved), GIVEN)
    place = first_difference(pair, checks(*pair.sides, GIVEN))
    assert place is not None
    assert place.scaled
    moved |= {"first__a__kernel": 2 * WEIGHTS["a/kernel"]}
    pair = pair_of(numbers("pytorch"), numbers("jax", **moved), GIVEN)
    place = first_difference(pair, checks(*pair.sides, GIVEN))
    assert place is not None
    assert (place.scaled, place.tensor) == (False, "a/kernel")


def test_shares_of_right_positions_may_be_divided_in_float32() -> None:
    """As two integers are in PyTorch, in a float64 model too; one position more is a difference."""
    share = np.array([1, 2, 5, 3, 3, 1, 4, 7]) / 7
    one, rounded = (numbers(f, evaluation__right=s) for f, s in (("jax", share), ("pytorch", np.float32(share))))
    assert compared(one, rounded)["evaluation"].same
    assert compared(one, numbers("pytorch", evaluation__right=share + 1e-5))["evaluation"].same is False
    assert compared(one, numbers("pytorch", evaluation__right=share * np.nan))["evaluation"].same is False


def test_what_is_enlarged() -> None:
    """Numbers, but no state's own kernel; and texts get padding where the others have theirs."""
    lstm = {
        "l/kernel": np.ones((5, 12)),
        "l/recurrent": np.ones((3, 12)),
        "g/a": np.ones((2, 6)),
        "g/b": np.ones((5, 6)),
    }
    large = enlarge(lstm | {"d/kernel": np.ones((3, 9))})
    assert {name for name, array in large.items() if array.max() > 1} == {"l/kernel", "g/b", "d/kernel"}
    assert np.array_equal(enlarge_inputs([(X, LABELS)]), SCALE * X)
    texts = np.arange(1, 49, dtype=np.int32).reshape(8, 6)
    assert (enlarge_inputs([(texts, LABELS)])[::2, 4:] == 0).all()
    behind = texts * (np.arange(6) > 1)
    assert (enlarge_inputs([(texts, LABELS), (behind, LABELS)])[::2, :2] == 0).all()
    assert np.array_equal(enlarge_inputs([(texts.astype(np.uint8), LABELS)]), texts), "bytes are no words"

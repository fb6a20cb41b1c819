"""What is planted in one framework shows in the evidence that a worker takes, and in the verdict on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.analysis.identity.tolerances import (
    DROPOUT_APART,
    OPTIMIZER,
    tolerance_of,
)
from suite.plan.cell import FRAMEWORKS
from suite.record.parts.evidence import Draws, Trace
from suite.worker.evidence.fingerprint import (
    check_formula,
    draws,
    spread,
    take_float64_fingerprint,
    take_own_fingerprint,
)
from suite.worker.evidence.subject import EvidenceContext
from suite.worker.evidence.updates import Formula, deviation
from tests.frameworks import cells, framework_of, needs_frameworks
from tests.isolation import in_own_process
from tests.subjects import apart, proof, subject
from workloads.spec import Adam, AdamW, Lamb, Lars, Optimizer, Sgd, read_declaration, specification

pytestmark = [pytest.mark.usefixtures("unoptimized"), pytest.mark.long]

#: What compiles soonest; the others' own are slow tests but for one each.
pytorch_quick = pytest.mark.parametrize(
    "framework", ["pytorch", *(pytest.param(name, marks=pytest.mark.slow) for name in FRAMEWORKS[1:])]
)


def half_of_the_batch(step: Callable[..., Any], training: Any, batch: Any) -> Any:
    """A step that takes half of every batch larger than eight, twice: shapes stay, as a compiled step wants them."""
    inputs, labels = (np.array(array) for array in training.get(batch))
    half = len(labels) // 2
    if len(labels) > 8:
        inputs[half:], labels[half:] = inputs[:half], labels[:half]
    return step(training, training.put((inputs, labels)))


def no_update_of_the_first_tensor(step: Callable[..., Any], training: Any, batch: Any) -> Any:
    """A step that puts one tensor back where it was."""
    before = training.weights()
    loss = step(training, batch)
    after = training.weights()
    name = next(iter(before))
    after[name] = before[name]
    held = training.module.import_weights(training.model, after)
    if held is not None:  # JAX's weights are no part of the model
        training.state = training.state._replace(weights=held)
    return loss


QUICK = [
    (half_of_the_batch, "tensorflow"),
    (no_update_of_the_first_tensor, "jax"),
    ("beta2", "tensorflow"),
]


@needs_frameworks
@pytest.mark.parametrize(
    ("fault", "framework"),
    [
        pytest.param(*pair, marks=[] if "pytorch" in pair or pair in QUICK else [pytest.mark.slow])
        for pair in product((half_of_the_batch, no_update_of_the_first_tensor), FRAMEWORKS)
    ],
)
def test_a_fault_in_the_step_shows_at_the_cell_s_batch(
    framework: str, fault: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    code = framework_of(framework)
    bounds = tolerance_of("imdb_lstm", "fp32", cuda=False)
    assert bounds
    step, right = code.Training.step, proof("imdb_lstm", framework)
    monkeypatch.setattr(code.Training, "step", lambda training, batch: fault(step, training, batch))
    losses, updates = apart(take_own_fingerprint(subject("imdb_lstm", framework))["own"], right)
    assert losses > 10 * bounds.first_loss or updates > 10 * bounds.early_updates


#: Each workload's optimizer with one number changed.
CHANGED = {"momentum": ("cifar100_cnn", 0.45), "beta2": ("imdb_lstm", 0.99), "l2": ("cifar100_cnn", 0.0)}


@needs_frameworks
@pytest.mark.parametrize(
    ("setting", "framework"),
    [
        pytest.param(*pair, marks=[] if "pytorch" in pair or pair in QUICK else [pytest.mark.slow])
        for pair in product(CHANGED, FRAMEWORKS)
    ],
)
def test_another_optimizer_is_off_its_formula(setting: str, framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All on the model that compiles in the shortest time."""
    workload, value = CHANGED[setting]
    one = subject("imdb_lstm", framework, optimizer=specification(workload, "small").optimizer)
    make = one.framework.optimizer

    def other(spec: Any, *rest: Any) -> Any:
        return make(replace(spec, optimizer=replace(spec.optimizer, **{setting: value})), *rest)

    monkeypatch.setattr(one.framework, "optimizer", other)
    assert take_float64_fingerprint(one)["optimizer"] > 100 * OPTIMIZER


RATES = np.array([0.002, 0.001, 0.003, 0.5], np.float32)


def by_recipe(workload: str, framework: str) -> EvidenceContext:
    """A subject that trains to its end, at rates of its own."""
    one = subject(workload, framework)
    return replace(one, recipe=one.spec, rates=RATES)


@needs_frameworks
@pytorch_quick
def test_a_recipe_s_rates_are_part_of_the_formula(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = by_recipe("imdb_lstm", framework)
    assert take_float64_fingerprint(one)["optimizer"] < OPTIMIZER
    init = one.framework.Training.__init__

    def late(*arguments: Any, rates: Any, **keywords: Any) -> None:
        init(*arguments, rates=np.roll(rates, 1), **keywords)

    monkeypatch.setattr(one.framework.Training, "__init__", late)
    assert take_float64_fingerprint(one)["optimizer"] > 0.1


@in_own_process
def evaluation(workload: str, framework: str) -> Trace:
    found: Trace = take_float64_fingerprint(by_recipe(workload, framework))["evaluation"]
    return found


@needs_frameworks("pytorch", "tensorflow")
@pytest.mark.parametrize("workload", ["cifar100_cnn", "imdb_lstm"])
def test_an_evaluation_after_the_steps_agrees_and_draws_nothing(workload: str) -> None:
    one, other = (evaluation(workload, framework) for framework in ("pytorch", "tensorflow"))
    assert one.losses == pytest.approx(other.losses, rel=1e-9)
    assert not one.updates


@needs_frameworks("jax")
def test_evidence_in_float64_leaves_the_process_in_float32() -> None:
    import jax.numpy as jnp

    take_float64_fingerprint(subject("imdb_lstm", "jax"))
    assert jnp.zeros(1, float).dtype == jnp.float32


@cache
def drawn(framework: str, *rates: float) -> Draws:
    """With rates of its own or the spec's."""
    changes = {"dropout": rates[:-1], "hidden_dropout": rates[-1]} if rates else {}
    return draws(subject("cifar100_cnn", framework, **changes))


#: The layer behind the first dropout, of rate .1: relative to what is drawn, the spread there is the root of the rate.
FIRST = {"cifar100_cnn": "conv2a/kernel", "imdb_transformer": "block1_attention/kernel"}


@needs_frameworks
@cells(("cifar100_cnn", "imdb_transformer"))
def test_dropout_spreads_every_layer_s_input_and_draws_anew_in_every_step(workload: str, framework: str) -> None:
    found = drawn(framework) if workload == "cifar100_cnn" else draws(subject(workload, framework))
    if workload == "cifar100_cnn":
        bound = DROPOUT_APART + read_declaration(workload).dropout_bounds.scatter
        assert found.spread == pytest.approx(read_declaration(workload).dropout_bounds.spread["small"], rel=bound)
    assert found.layers[FIRST[workload]] == pytest.approx(0.1**0.5, rel=0.05), "what a rate of .1 makes"
    assert found.shared == pytest.approx(1.0, abs=0.5)
    assert len(set(found.losses)) == len(found.losses)


@needs_frameworks
@pytorch_quick
def test_without_dropout_there_is_no_spread_and_every_step_is_the_same(framework: str) -> None:
    found = drawn(framework, 0.0, 0.0, 0.0, 0.0)
    assert found.spread == 0
    assert len(set(found.losses)) == 1


def test_spread_is_the_deviation_over_draws_alone() -> None:
    logits = np.random.default_rng(0).standard_normal((1000, 4, 5)) * 0.3 + np.arange(20).reshape(4, 5)
    assert spread(logits) == pytest.approx(0.3, rel=0.02)


@pytest.mark.parametrize("optimizer", [Sgd(0.1, 0.5, 1e-2), Adam(), AdamW(), Lars(1.0), Lamb(0.1)])
def test_the_formula_s_deviation_is_relative_to_the_movement(optimizer: Optimizer) -> None:
    draw = np.random.default_rng(1)
    before = {"kernel": draw.standard_normal(50), "bias": np.zeros(3)}
    formula, after = Formula(optimizer), before
    for _ in range(3):
        after = formula.step(after, {name: draw.standard_normal(array.shape) for name, array in before.items()})
    assert deviation(before, after, after) == 0
    further = {name: before[name] + 1.01 * (array - before[name]) for name, array in after.items()}
    assert deviation(before, further, after) == pytest.approx(0.01)


def test_adamw_decays_kernels_by_its_own_rate_and_no_bias() -> None:
    before = {"kernel": np.full((2, 3), 2.0), "bias": np.full(3, 2.0)}
    formula = Formula(AdamW(learning_rate=0.1, decay=0.5))
    after = formula.step(before, {name: np.zeros_like(array) for name, array in before.items()})
    assert after["kernel"] == pytest.approx(2.0 - 0.1 * 0.5 * 2.0)
    assert after["bias"] == pytest.approx(2.0)


def test_a_state_moved_to_a_later_rate_holds_arrays_still() -> None:
    """PyTorch's FSDP takes nothing else; a number of steps is an array of no dimension."""
    states: list[dict[str, Any]] = []
    training: Any = SimpleNamespace(
        weights=lambda: {"kernel": np.zeros(3)}, put=lambda batch: batch, restore=states.append,
        checkpoint=lambda: {"optimizer/0/step": np.array(2.0, np.float32), "model/kernel": np.zeros(3)},
    )  # fmt: skip
    subject: Any = SimpleNamespace(
        tools=SimpleNamespace(explain_step=lambda training, batch: (1.0, {"kernel": np.zeros(3)})), rates=np.ones(20)
    )
    check_formula(subject, training, specification("imdb_lstm"), [(np.zeros(1), np.zeros(1))] * 3)
    assert [float(state["optimizer/0/step"]) for state in states] == [2.0 + 6, 2.0 + 7]
    assert all(isinstance(array, np.ndarray) for state in states for array in state.values())

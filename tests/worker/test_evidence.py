"""What is planted in one framework shows in the evidence that a worker takes, and in the verdict on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.analysis.tolerances import DROPOUT, DROPOUT_SPREAD, OPTIMIZER, tolerance_of
from suite.plan.cell import FRAMEWORKS, Cell
from suite.record.evidence import Draws, Trace
from suite.worker.draws import draws, spread
from suite.worker.evidence import float64, own
from suite.worker.optimizer import Formula, deviation
from suite.worker.subject import Subject
from tests.frameworks import batches, data, each_framework, module, narrow, needs_frameworks
from workloads.spec import Adam, AdamW, Lamb, Lars, Optimizer, Sgd, specification

pytestmark = pytest.mark.usefixtures("unoptimized")

BATCH = 16


def subject(workload: str, framework: str, **spec_changes: Any) -> Subject:
    code = import_module(f"suite.worker.frameworks.{framework}")
    cell = Cell(workload, framework, batch=BATCH, size="small")
    code.prepare(cell, "cpu", 0)
    spec = replace(specification(workload, "small"), **spec_changes)
    return Subject(cell, code, module(workload, framework), "cpu", spec, data(spec.data))


@cache
def proof(workload: str, framework: str) -> Trace:
    return own(subject(workload, framework))[0]


def apart(one: Trace, other: Trace) -> tuple[float, float]:
    """The largest relative deviations of losses and of updates."""
    losses = max(abs(a / b - 1) for a, b in zip(one.losses, other.losses, strict=True))
    return losses, max(abs(one.updates[name] / other.updates[name] - 1) for name in one.updates)


#: Whether the three CNNs are the same is compared over more steps by `test_identity_float32` and `_float64`; here it is
#: whether the evidence shows it, which knows no workload.
cnn_slow = pytest.mark.parametrize("workload", [pytest.param("cifar100_cnn", marks=pytest.mark.slow), "imdb_lstm"])


@needs_frameworks
@cnn_slow
def test_the_fingerprint_at_the_cell_s_batch_agrees(workload: str) -> None:
    bounds = tolerance_of(workload, "fp32", cuda=False)
    assert bounds
    for framework in FRAMEWORKS[1:]:
        losses, updates = apart(proof(workload, framework), proof(workload, FRAMEWORKS[0]))
        assert losses <= bounds.first_loss
        assert updates <= bounds.early_updates


@needs_frameworks
def test_what_is_kept_of_earlier_launches_changes_no_bit_and_serves_evidence_alone(tmp_path: Path) -> None:
    plain, bounds, traces = own(subject("imdb_lstm", "jax"))[0], tolerance_of("imdb_lstm", "fp32", cuda=False), []
    sharing = replace(subject("imdb_lstm", "jax"), programs=str(tmp_path))
    kept: list[set[str]] = []
    for _ in range(2):
        with sharing.programs_kept():
            traces.append(own(sharing)[0])
        kept.append({path.name for path in tmp_path.iterdir()})
        own(replace(sharing, cell=sharing.cell.but(batch=BATCH + 1)))
        assert {path.name for path in tmp_path.iterdir()} == kept[-1], "outside of it nothing is kept"
    assert traces[0] == traces[1]
    losses, updates = apart(traces[0], plain)  # which XLA compiled as it does what is timed
    assert bounds
    assert losses <= bounds.first_loss
    assert updates <= bounds.early_updates
    steps = [{name for name in names if "step" in name and name.endswith("-cache")} for names in kept]
    assert steps[0]
    assert steps[1] == steps[0], "the second found what the first had kept"


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


@needs_frameworks
@each_framework
@pytest.mark.parametrize("fault", [half_of_the_batch, no_update_of_the_first_tensor])
def test_a_fault_in_the_step_shows_at_the_cell_s_batch(
    framework: str, fault: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    code = import_module(f"suite.worker.frameworks.{framework}")
    bounds = tolerance_of("imdb_lstm", "fp32", cuda=False)
    assert bounds
    step, right = code.Training.step, proof("imdb_lstm", framework)
    monkeypatch.setattr(code.Training, "step", lambda training, batch: fault(step, training, batch))
    losses, updates = apart(own(subject("imdb_lstm", framework))[0], right)
    assert losses > 10 * bounds.first_loss or updates > 10 * bounds.early_updates


@needs_frameworks
@each_framework
def test_what_the_timed_program_compiled_serves_its_fingerprint(framework: str) -> None:
    one = subject("imdb_lstm", framework)
    assert one.proves_itself
    timed = one.training(one.cell, one.spec)
    timed.compile(timed.put(batches(one.spec, BATCH)[0]))
    assert own(one, timed)[0] == proof("imdb_lstm", framework)
    assert not subject("cifar100_cnn", framework).adoptable, "it draws masks that no fingerprint has"


@needs_frameworks
def test_graphs_are_optimised_again_after_the_small_ones() -> None:
    tensorflow = pytest.importorskip("tensorflow")
    tools, options = subject("imdb_lstm", "tensorflow").tools, tensorflow.config.optimizer.get_experimental_options
    with tools.on_host():
        assert options()["disable_meta_optimizer"]
    assert not options()["disable_meta_optimizer"]


@needs_frameworks
@pytest.mark.parametrize("framework", FRAMEWORKS[1:])
def test_what_is_timed_at_another_rate_serves_its_fingerprint_where_the_rate_is_state(framework: str) -> None:
    own_rate = specification("cifar100_resnet18", "small").optimizer
    spec = replace(narrow("cifar100_resnet18"), optimizer=own_rate)
    one = replace(subject("cifar100_resnet18", framework), spec=spec)
    assert (one.adoptable, one.proves_itself) == (True, False)
    timed, program = one.training(one.cell, one.spec), {"tensorflow": "function", "jax": "jitted"}[framework]
    batch = timed.put(batches(one.spec, BATCH)[0])
    timed.compile(batch)
    timed.read([timed.step(batch)])
    compiled = getattr(timed, program)
    trace, adopted = own(one, timed)
    assert getattr(adopted, program) is compiled
    assert timed.compiled()["graphs"] == 1
    assert trace == own(one)[0]
    assert not subject("cifar100_resnet18", "pytorch").adoptable, "the rate is a number of the optimizer"


@cache
def in_float64(workload: str, framework: str) -> dict[str, Any]:
    return float64(subject(workload, framework))


@needs_frameworks
@cnn_slow
def test_in_float64_the_launches_agree_to_the_promise(workload: str) -> None:
    for framework in FRAMEWORKS[1:]:
        found, other = in_float64(workload, framework), in_float64(workload, FRAMEWORKS[0])
        assert max(apart(found["float64"], other["float64"])) < 1e-9
        assert found["optimizer"] < OPTIMIZER


@needs_frameworks
@pytest.mark.parametrize("workload", ["cifar100_cnn", "imdb_lstm"])
def test_float64_of_a_full_cell_is_that_of_the_small_size(workload: str) -> None:
    one = subject(workload, "pytorch")
    full = replace(one, cell=one.cell.but(size="full"), spec=specification(workload))
    assert float64(full) == in_float64(workload, "pytorch") | {"float64_size": "small"}


#: Each workload's optimizer with one number changed.
CHANGED = {"momentum": ("cifar100_cnn", 0.45), "beta2": ("imdb_lstm", 0.99), "l2": ("cifar100_cnn", 0.0)}


@needs_frameworks
@pytest.mark.parametrize(
    ("setting", "framework"),
    [  # JAX compiles for longest, and its SGD is there already.
        pytest.param(*pair, marks=[pytest.mark.slow] if pair == ("l2", "jax") else [])
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
    assert float64(one)["optimizer"] > 100 * OPTIMIZER


RATES = np.array([0.002, 0.001, 0.003, 0.5], np.float32)


def by_recipe(workload: str, framework: str) -> Subject:
    """A subject that trains to its end, at rates of its own."""
    one = subject(workload, framework)
    return replace(one, recipe=one.spec, rates=RATES)


@needs_frameworks
@each_framework
def test_a_recipe_s_rates_are_part_of_the_formula(framework: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = by_recipe("imdb_lstm", framework)
    assert float64(one)["optimizer"] < OPTIMIZER
    init = one.framework.Training.__init__

    def late(*arguments: Any, rates: Any, **keywords: Any) -> None:
        init(*arguments, rates=np.roll(rates, 1), **keywords)

    monkeypatch.setattr(one.framework.Training, "__init__", late)
    assert float64(one)["optimizer"] > 0.1


@needs_frameworks
@pytest.mark.parametrize("workload", ["cifar100_cnn", "imdb_lstm"])
def test_an_evaluation_after_the_steps_agrees_and_draws_nothing(workload: str) -> None:
    one, other = (float64(by_recipe(workload, framework))["evaluation"] for framework in ("pytorch", "tensorflow"))
    assert one.losses == pytest.approx(other.losses, rel=1e-9)
    assert not one.updates
    assert "evaluation" not in in_float64(workload, "pytorch"), "nothing is evaluated where nothing trains to its end"


@needs_frameworks
def test_evidence_in_float64_leaves_the_process_in_float32() -> None:
    import jax.numpy as jnp

    in_float64("imdb_lstm", "jax")
    assert jnp.zeros(1, float).dtype == jnp.float32


@cache
def drawn(framework: str, *rates: float) -> Draws:
    """With rates of its own or the spec's."""
    changes = {"dropout": rates[:-1], "hidden_dropout": rates[-1]} if rates else {}
    return draws(subject("cifar100_cnn", framework, **changes))


@needs_frameworks
@each_framework
@pytest.mark.parametrize(
    "workload",
    [pytest.param(name, marks=[] if name == "cifar100_cnn" else [pytest.mark.slow]) for name in DROPOUT_SPREAD],
)
def test_dropout_spreads_the_logits_as_measured_and_draws_anew_in_every_step(workload: str, framework: str) -> None:
    found = drawn(framework) if workload == "cifar100_cnn" else draws(subject(workload, framework))
    assert found.spread == pytest.approx(DROPOUT_SPREAD[workload], rel=DROPOUT[workload])
    assert len(set(found.losses)) == len(found.losses)


@pytest.mark.slow
@needs_frameworks
@each_framework
def test_another_rate_of_dropout_is_beyond_the_bound(framework: str) -> None:
    assert drawn(framework, 0.1, 0.3, 0.5, 0.5).spread > (1 + DROPOUT["cifar100_cnn"]) * DROPOUT_SPREAD["cifar100_cnn"]


@needs_frameworks
@each_framework
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

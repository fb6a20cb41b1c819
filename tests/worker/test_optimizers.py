"""Every optimizer that a spec can name, with all that it may have besides, is one formula in all three frameworks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import FRAMEWORKS, Cell
from suite.worker.evidence.updates import Formula, deviation
from suite.worker.frameworks import UnsupportedError, check, mark_tensors, read_mark
from tests.frameworks import (
    batches,
    each_framework,
    narrow,
    needs_frameworks,
    training,
)
from workloads import recipes
from workloads.imdb_lstm.spec import LstmSpec
from workloads.optimizers import as_dict
from workloads.recipes import recipe
from workloads.spec import Adagrad, Adam, AdamW, Lamb, Lars, RmsProp, Schedule, Sgd, Tensor, specification

pytestmark = pytest.mark.usefixtures("unoptimized")

STEPS = 4
#: What a tensor may have of its own.
OWN = {"embedding/table": {"frozen": True}, "lstm/bias": {"decay": 0.3}, "logits/kernel": {"decay": 0.0}}


@dataclass(frozen=True)
class Chosen(LstmSpec):
    """The LSTM with a frozen tensor, one that decays and one that does not."""

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(replace(each, **OWN.get(each.name, {})) for each in super().tensors)  # type: ignore[arg-type]


RISING, LOW = Schedule(3, warmup=2, decay="cosine", end=0.1), Schedule(2, decay="linear", end=0.5)
OPTIMIZERS = {
    "nesterov": (Sgd(0.5, 0.9, 1e-2, nesterov=True), False),
    "rmsprop": (RmsProp(0.01, epsilon=1e-3), False),
    "adagrad-from-zero": (Adagrad(0.1), False),
    "adam-l2": (Adam(0.01, l2=1e-1), False),
    "clipped-norm": (Sgd(0.5, 0.9, 1e-2, clip_norm=0.01), False),
    "not-clipped": (Adam(clip_norm=1e6), False),
    "clipped-values": (AdamW(0.01, clip_value=1e-4), False),
    "schedule": (Sgd(0.5, 0.9, 1e-2, nesterov=True, schedule=RISING), False),
    "schedule-that-ends": (AdamW(0.01, decay=0.5, schedule=LOW), False),
    "by-tensor-sgd": (Sgd(0.5, 0.9, 1e-1, clip_norm=0.01), True),
    "by-tensor-adamw": (AdamW(0.01, decay=0.5, schedule=RISING), True),
    "by-tensor-adam": (Adam(0.01, l2=1e-1, schedule=RISING), True),
    "by-tensor-rmsprop": (RmsProp(0.01, momentum=0.8, l2=1e-1, epsilon=1e-3), True),
    "by-tensor-adagrad": (Adagrad(0.1, l2=1e-1, start=0.1, epsilon=1e-3), True),
    "by-tensor-lars": (Lars(10.0), True),
    "by-tensor-lamb": (Lamb(1e-2, clip_norm=0.01), True),
}
#: In every run, all in PyTorch, which takes no time to compile, and in the others those that show all that each has.
QUICK = ("schedule", "clipped-values", *(f"by-tensor-{name}" for name in ("sgd", "rmsprop", "adagrad", "lars", "lamb")))


def spec_of(name: str) -> LstmSpec:
    optimizer, by_tensor = OPTIMIZERS[name]
    plain: Any = narrow("imdb_lstm")
    return (Chosen if by_tensor else LstmSpec)(**vars(plain) | {"optimizer": optimizer})


@needs_frameworks
@pytest.mark.parametrize(
    ("name", "framework"),
    [
        pytest.param(name, framework, marks=[] if framework == "pytorch" or name in QUICK else [pytest.mark.slow])
        for name in OPTIMIZERS
        for framework in FRAMEWORKS
    ],
)
def test_it_is_the_spec_s_formula(name: str, framework: str) -> None:
    """Along the gradients that the framework itself gives."""
    spec, tools = spec_of(name), import_module(f"suite.worker.frameworks.{framework}.evidence")
    source, formula = batches(spec, 8), Formula(spec.optimizer, decays=spec.decays)
    with training("imdb_lstm", framework, spec=spec) as running:
        before = expected = running.weights()
        for number in range(STEPS):
            _, gradients = tools.explain_step(running, running.put(source[number]))
            expected = formula.step(expected, gradients)
        after, moved = running.weights(), tools.count_trained(running)
    assert deviation(before, after, expected) < 1e-12
    frozen = {"embedding/table"} if OPTIMIZERS[name][1] else set()
    assert {tensor for tensor in before if np.array_equal(before[tensor], after[tensor])} == frozen
    assert moved == sum(array.size for tensor, array in before.items() if tensor not in frozen)


@needs_frameworks
@each_framework
def test_what_is_not_trained_has_no_gradient(framework: str) -> None:
    with training("imdb_lstm", framework, spec=spec_of("by-tensor-adamw")) as running:
        _, gradients = running.gradients(running.put(batches(spec_of("by-tensor-adamw"), 8)[0]))
    assert {tensor for tensor, array in gradients.items() if not np.any(array)} == {"embedding/table"}


@needs_frameworks("pytorch")
def test_scaled_gradients_are_clipped_as_unscaled_ones() -> None:
    """In fp16 an optimizer that divides by the scale itself sees gradients that are still scaled."""
    import torch

    from suite.worker.frameworks.pytorch.optimizer import optimizer

    for options in ({"clip_norm": 0.5}, {"clip_value": 0.1}):
        spec = replace(narrow("imdb_lstm"), optimizer=Sgd(1.0, 0.0, 0.0, **options))  # type: ignore[arg-type]
        ends = []
        for scale in (1.0, 8.0):
            weight = torch.ones(4, requires_grad=True)
            made = optimizer(spec, [weight])
            weight.grad = scale * torch.arange(4.0)
            made.grad_scale, made.found_inf = torch.tensor(scale), torch.tensor(0.0)  # type: ignore[attr-defined]
            made.step()
            ends.append(weight.detach().clone())
        assert torch.equal(*ends)
        assert not torch.equal(ends[0], torch.ones(4))


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        (Schedule(4, warmup=2), [0.5, 1, 1, 1, 1]),
        (Schedule(4, decay="linear", end=0.2), [1, 0.8, 0.6, 0.4, 0.2]),
        (Schedule(4, warmup=2, decay="cosine", end=0.1), [0.5, 1, 1, 0.55, 0.1]),
        (Schedule(2, decay="exponential", end=0.01), [1, 0.1, 0.01]),
        (Schedule(3, milestones=(1, 3), gamma=0.5), [1, 0.5, 0.5, 0.25]),
    ],
)
def test_a_schedule_is_factors_of_the_rate_and_its_last_stays(schedule: Schedule, factors: list[float]) -> None:
    rates = Adam(0.1, schedule=schedule).rates
    assert rates is not None
    assert np.asarray(rates) == pytest.approx(0.1 * np.array(factors))
    assert rates[100] == rates[len(factors) - 1]


def test_a_workload_s_schedule_is_a_part_of_its_recipes() -> None:
    spec = replace(specification("imdb_lstm"), optimizer=Adam(0.1, schedule=Schedule(4, decay="linear", end=0.2)))
    assert recipe("study", spec).rates(6) == pytest.approx([0.1, 0.08, 0.06, 0.04, 0.02, 0.02])


def test_what_is_not_used_changes_no_digest() -> None:
    """Digests are in stored records, so that a field that came later is in none of theirs."""
    assert as_dict(Sgd(0.1, 0.9, 0.0)) == {"learning_rate": 0.1, "momentum": 0.9, "l2": 0.0}
    assert as_dict(Tensor("a", (2,))).keys() == {"name", "shape", "bound", "offset", "offset_from", "offset_to"}
    assert as_dict(recipes.recipe("study", specification("imdb_lstm")))["decay"] is False
    assert as_dict(Adam()).keys() == {"learning_rate", "beta1", "beta2", "epsilon"}
    assert not Adam().has_more
    assert Adam(l2=0.1).has_more
    plain, chosen = spec_of("nesterov"), spec_of("by-tensor-sgd")
    assert plain.digest != replace(plain, optimizer=replace(plain.optimizer, nesterov=False)).digest
    assert chosen.digest != LstmSpec(**vars(chosen)).digest


def test_a_mark_is_known_by_its_values_and_tensors_that_differ_cannot_share_a_place() -> None:
    spec = spec_of("by-tensor-sgd")
    marks = mark_tensors(spec)
    assert {name: read_mark(spec, array.min(), array.max(), 9.0) for name, array in marks.items()} == spec.decays
    assert read_mark(spec, -0.3, 0.2, 9.0) == 9.0
    with pytest.raises(ValueError, match="differ in decay"):
        read_mark(spec, 1.0, 2.0, 9.0)
    assert not mark_tensors(spec_of("nesterov"))


def test_what_no_interface_and_no_strategy_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suite.worker.frameworks.specification", lambda *_: spec_of("clipped-norm"))
    check(Cell("imdb_lstm", "pytorch"), "cpu")
    for cell in (Cell("imdb_lstm", "pytorch", devices=2), Cell("imdb_lstm", "jax", interface="nnx")):
        with pytest.raises(UnsupportedError, match="one device"):
            check(cell, "cpu")


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="not both"):
        Adam(clip_norm=1.0, clip_value=1.0)
    for wrong in ({"decay": "slow"}, {"decay": "cosine", "end": 0.0}, {"warmup": 5}):
        with pytest.raises(ValueError, match="constant, linear"):
            Schedule(4, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="write Adam for L2"):
        AdamW(l2=0.1)
    with pytest.raises(ValueError, match="write AdamW"):
        _ = Chosen(**vars(narrow("imdb_lstm"))).decays


@pytest.mark.parametrize("framework", ["pytorch", "jax"])
@needs_frameworks
def test_a_framework_s_own_axes_do_not_make_a_bias_decay(framework: str) -> None:
    """A bias over (heads, width) is flat in the spec; the suite's own workloads have the spec's axes."""
    from importlib import import_module
    from types import SimpleNamespace

    file: Any = import_module(f"suite.worker.frameworks.{framework}.optimizer")
    spec = replace(narrow("imdb_lstm"), optimizer=AdamW(decay=0.5))
    own = replace(spec, name="own_lstm")
    if framework == "jax":
        split = SimpleNamespace(import_weights=lambda _, weights: {"bias": weights["lstm/bias"].reshape(4, -1)})
        assert file.find_decays(split, None, own) == {"bias": 0.0}
        assert file.find_decays(split, None, spec) is None
    else:
        import torch

        model = torch.nn.ParameterList([torch.empty(4, 8)])
        split = SimpleNamespace(
            import_weights=lambda model, weights: model[0].data.copy_(torch.tensor(weights["lstm/bias"]).reshape(4, 8))
        )
        assert file.find_decays(split, model, own) == {id(model[0]): 0.0}
        assert file.find_decays(split, model, spec) == {}


each_layerwise = pytest.mark.parametrize("spec", [Lars(1.0), Lamb(0.1)], ids=["lars", "lamb"])


def make(spec: Lars | Lamb, weights: list[Any]) -> Any:
    file = import_module("suite.worker.frameworks.pytorch.optimizer")
    return getattr(file, type(spec).__name__)(spec, weights)


@needs_frameworks("pytorch")
@each_layerwise
def test_a_scaled_step_on_a_gpu_does_not_wait_for_it(spec: Lars | Lamb, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor without numbers raises where the host asks for one."""
    import torch

    monkeypatch.setattr("torch.cuda.amp.common.amp_definitely_not_available", lambda: False)
    weight = torch.ones(3, 4, device="meta", requires_grad=True)
    made, scaler = make(spec, [weight]), torch.amp.GradScaler("cuda", init_scale=8.0)
    for _ in range(2):
        scaler.scale(torch.ones((), device="meta"))
        weight.grad = torch.ones(3, 4, device="meta")
        scaler.step(made)
        scaler.update()
    assert {value.device.type for value in made.state[weight].values()} == {"meta"}
    with pytest.raises(RuntimeError, match="meta tensors"):
        bool(weight.sum() > 0)


@needs_frameworks("pytorch")
@each_layerwise
def test_an_overflow_changes_nothing_and_other_steps_are_the_unscaled_ones(spec: Lars | Lamb) -> None:
    import torch

    start = torch.linspace(-1, 1, 12).reshape(3, 4)
    scaled, plain = start.clone().requires_grad_(), start.clone().requires_grad_()
    one, other = make(spec, [scaled]), make(spec, [plain])
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for factor in (1.0, float("inf"), 0.5, float("nan"), 2.0):
        before = [value.clone() for value in (scaled, *one.state[scaled].values())]
        scaler.scale((factor * scaled * scaled).sum()).backward()
        scaler.step(one)
        scaler.update()
        one.zero_grad()
        if factor * 0 == 0:
            (factor * plain * plain).sum().backward()
            other.step()
            other.zero_grad()
        else:
            after = [scaled, *one.state[scaled].values()]
            assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
        assert torch.equal(scaled, plain)
    assert scaler.get_scale() == 2.0  # halved by each overflow


@needs_frameworks("pytorch")
@each_layerwise
def test_what_is_kept_of_a_weight_survives_a_checkpoint_where_the_weight_is(spec: Lars | Lamb) -> None:
    import torch

    weight = torch.ones(2, dtype=torch.float64, requires_grad=True)
    made = make(spec, [weight])
    weight.grad = torch.ones_like(weight)
    made.step()
    other = make(spec, [weight])
    other.load_state_dict(made.state_dict())
    kept = other.state[weight]
    assert kept
    assert {value.dtype for value in kept.values()} == {torch.float64}  # as `load_state_dict` moves them

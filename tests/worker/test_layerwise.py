"""LARS and LAMB in PyTorch with fp16's loss scaling: no wait for the device, and no move after an overflow."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from tests.frameworks import needs_frameworks
from workloads.spec import Lamb, Lars

pytestmark = needs_frameworks("pytorch")
each_optimizer = pytest.mark.parametrize("spec", [Lars(1.0), Lamb(0.1)], ids=["lars", "lamb"])


def make(spec: Lars | Lamb, weights: list[Any]) -> Any:
    file = import_module("suite.worker.frameworks.pytorch.optimizer")
    return getattr(file, type(spec).__name__)(spec, weights)


@each_optimizer
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


@each_optimizer
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


@each_optimizer
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

"""The steps without communication differ from those with it in nothing else: layout, optimizer, compilation."""

from __future__ import annotations

from typing import Any

import pytest

from suite.plan.cell import Cell
from tests.frameworks import module, needs_frameworks
from workloads.spec import specification

pytestmark = needs_frameworks
CELL = Cell("cifar100_cnn", "pytorch", batch=2, size="small", devices=2)


def alone(cell: Cell) -> Any:
    """One process's training by itself, as the launch makes it."""
    from suite.worker.frameworks import pytorch, pytorch_devices

    spec = specification(cell.workload, cell.size)
    made = pytorch.Training(
        cell.but(devices=1), spec, module(cell.workload, "pytorch"), spec.reference_weights(0), "cpu"
    )
    pytorch_devices.likened(made, cell, spec)
    return made


@pytest.mark.parametrize(("strategy", "fused", "contiguous"), [("ddp", True, False), ("fsdp", None, True)])
def test_without_communication_a_process_has_the_strategy_s_layout_and_optimizer(
    strategy: str, fused: bool | None, contiguous: bool
) -> None:
    made = alone(CELL.but(strategy=strategy))
    assert bool(made.optimizer.defaults["fused"]) == bool(fused)
    kernels = [each for each in made.model.parameters() if each.ndim == 4 and min(each.shape[1:]) > 1]
    assert {each.is_contiguous() for each in kernels} == {contiguous}
    assert made.optimizer.param_groups[0]["params"][0] is next(made.model.parameters())


def test_compiled_ddp_leaves_the_loss_to_eager_mode_on_both_sides() -> None:
    made = alone(CELL.but(compile="compile"))
    assert made.loss is made.module.loss
    assert made.model._compiled_call_impl is not None

"""The steps without communication differ from those with it in nothing else: layout, optimizer, compilation."""

from __future__ import annotations

from typing import Any

import pytest

from suite.plan.cell import Cell
from tests.frameworks import module, needs_frameworks
from workloads.spec import specification

pytestmark = needs_frameworks("pytorch")
CELL = Cell("cifar100_cnn", "pytorch", batch=2, size="small", devices=2)


def alone(cell: Cell) -> Any:
    """One process's training by itself, as the launch makes it."""
    from suite.worker.frameworks.pytorch import devices as pytorch_devices
    from suite.worker.frameworks.pytorch import training as pytorch

    spec = specification(cell.workload, cell.size)
    made = pytorch.Training(
        cell.but(devices=1), spec, module(cell.workload, "pytorch"), spec.reference_weights(0), "cpu"
    )
    pytorch_devices.match_strategy(made, cell, spec)
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


def test_without_deepspeed_the_reason_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from suite.worker.frameworks import UnsupportedError
    from suite.worker.frameworks.pytorch import deepspeed as pytorch_deepspeed

    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named '{name}'", name=name)

    monkeypatch.setattr(pytorch_deepspeed, "import_module", missing)
    with pytest.raises(UnsupportedError, match=r"DeepSpeed is not installed .* '\.\[pytorch-cpu,deepspeed\]'"):
        pytorch_deepspeed._deepspeed()


def test_deepspeed_is_told_to_clip_nothing_and_to_sum_in_float32() -> None:
    from suite.worker.frameworks.pytorch.deepspeed import configuration

    cell = CELL.but(strategy="deepspeed", accumulate=3, precision="bf16")
    told = configuration(cell, specification(cell.workload, cell.size))
    assert (told["train_micro_batch_size_per_gpu"], told["gradient_accumulation_steps"]) == (2, 3)
    assert told["gradient_clipping"] == 0
    assert told["zero_optimization"]["stage"] == 1
    assert told["torch_autocast"] == {"enabled": True, "dtype": "bfloat16", "lower_precision_safe_modules": []}
    assert not configuration(cell.but(precision="fp32"), specification(cell.workload, cell.size))["torch_autocast"][
        "enabled"
    ]

"""Which cells with several devices are unsupported, and what a process of the others takes of a batch."""

from __future__ import annotations

from typing import Any

import pytest

from suite.plan.cell import STRATEGIES_OF, Cell
from suite.plan.strategies import NOT_MEASURED, measured_of, not_measured


@pytest.mark.parametrize("framework", STRATEGIES_OF)
def test_each_strategy_is_measured_or_unsupported_with_the_reason(framework: str) -> None:
    for strategy in STRATEGIES_OF[framework]:
        reason = not_measured(Cell("imdb_lstm", framework, devices=2, strategy=strategy))
        assert bool(reason) == (strategy in NOT_MEASURED)
    assert "split" in measured_of(framework)
    assert not not_measured(Cell("imdb_lstm", framework, compile="max"))


@pytest.mark.parametrize(("framework", "settings", "words"), [
    ("pytorch", {"devices": 3}, "ask for 2 devices"),
    ("tensorflow", {"devices": 4}, "ask for 2 devices"),
    ("pytorch", {"compile": "compile"}, "in eager mode"),
    ("tensorflow", {"compile": "compile"}, "use the graph mode"),
    ("pytorch", {"workload": "imdb_transformer"}, "imdb_transformer names no stages"),
    ("tensorflow", {"workload": "own_thing"}, "own_thing names no stages"),
    ("jax", {"workload": "cifar100_resnet18"}, "statistics of its own"),
    ("jax", {"precision": "fp16"}, "use bf16"),
])  # fmt: skip
def test_what_cannot_be_split_says_why(framework: str, settings: dict[str, Any], words: str) -> None:
    cell = Cell(**{"workload": "imdb_lstm", "framework": framework, "devices": 2, "strategy": "split"} | settings)
    assert words in not_measured(cell)


@pytest.mark.parametrize("workload", ["cifar100_cnn", "imdb_lstm", "imdb_transformer"])
@pytest.mark.parametrize("devices", [2, 4])
def test_jax_divides_the_weights_of_any_workload_over_any_number_of_devices(workload: str, devices: int) -> None:
    assert not not_measured(Cell(workload, "jax", devices=devices, strategy="split"))


@pytest.mark.parametrize(("framework", "strategy", "processes", "samples"), [
    ("pytorch", "ddp", 2, 24), ("tensorflow", "mirrored", 1, 48), ("jax", "local", 1, 48),
    ("pytorch", "split", 2, 48), ("tensorflow", "split", 1, 48), ("jax", "split", 1, 48),
])  # fmt: skip
def test_a_process_takes_its_devices_share_or_all_where_the_model_is_divided(
    framework: str, strategy: str, processes: int, samples: int
) -> None:
    cell = Cell("imdb_lstm", framework, batch=8, accumulate=3, devices=2, strategy=strategy)
    assert (cell.processes, cell.process_batch, cell.effective_batch) == (processes, samples, 48)

"""Which cells with several devices are unsupported, and what a process of the others takes of a batch."""

from __future__ import annotations

from typing import Any

import pytest

from suite.plan.cell import STRATEGIES_OF, Cell
from suite.plan.settings.strategies import (
    NORMALISED,
    NOT_MEASURED,
    has_local_statistics,
    measured_strategies,
    why_not_measured,
    why_not_served,
)


@pytest.mark.parametrize("framework", STRATEGIES_OF)
def test_each_strategy_is_measured_or_unsupported_with_the_reason(framework: str) -> None:
    for strategy in STRATEGIES_OF[framework]:
        workload = NORMALISED[0] if strategy == "synchronised" else "imdb_lstm"
        reason = why_not_measured(Cell(workload, framework, devices=2, strategy=strategy))
        assert bool(reason) == (strategy in NOT_MEASURED)
    assert "split" in measured_strategies(framework)
    assert not why_not_measured(Cell("imdb_lstm", framework, compile="max"))


@pytest.mark.parametrize(("framework", "settings", "words"), [
    ("pytorch", {"devices": 3}, "ask for 2 devices"),
    ("tensorflow", {"devices": 4}, "ask for 2 devices"),
    ("pytorch", {"compile": "compile"}, "in eager mode"),
    ("tensorflow", {"compile": "compile"}, "use the graph mode"),
    ("pytorch", {"workload": "imdb_transformer"}, "imdb_transformer names no stages"),
    ("tensorflow", {"workload": "own_thing"}, "own_thing names no stages"),
    ("jax", {"precision": "fp16"}, "use bf16"),
    ("pytorch", {"strategy": "deepspeed", "precision": "fp64"}, "in float32"),
    ("pytorch", {"strategy": "deepspeed", "recipe": "lars"}, "the norms of each"),
    ("pytorch", {"strategy": "deepspeed", "compile": "compile"}, "in eager mode"),
    ("tensorflow", {"strategy": "synchronised"}, "no batch normalisation"),
    ("pytorch", {"strategy": "synchronised", "workload": NORMALISED[0], "compile": "compile"}, "in eager mode"),
    ("jax", {"strategy": "", "workload": NORMALISED[0], "recipe": "modern"}, "statistics of its own"),
])  # fmt: skip
def test_what_cannot_be_measured_says_why(framework: str, settings: dict[str, Any], words: str) -> None:
    cell = Cell(**{"workload": "imdb_lstm", "framework": framework, "devices": 2, "strategy": "split"} | settings)
    assert words in why_not_measured(cell)


def test_devices_normalise_apart_but_where_the_statistics_are_of_the_whole_batch() -> None:
    cells = [Cell(NORMALISED[0], name, devices=2, strategy=s) for name, own in STRATEGIES_OF.items() for s in own]
    together = {(cell.framework, cell.strategy) for cell in cells if not has_local_statistics(cell)}
    assert together >= {("tensorflow", "synchronised"), ("jax", "jit"), ("jax", "split")}
    assert not together & {("pytorch", "ddp"), ("tensorflow", "multiworker"), ("jax", "shard-map"), ("jax", "local")}
    assert not has_local_statistics(Cell(NORMALISED[0], "jax"))
    assert not has_local_statistics(Cell("cifar100_cnn", "jax", devices=2))
    assert not why_not_measured(Cell(NORMALISED[0], "jax", devices=2, strategy="jit", recipe="modern"))


@pytest.mark.parametrize(
    "workload", ["cifar100_cnn", "cifar100_resnet18", "gpt_small", "imdb_lstm", "imdb_transformer"]
)
@pytest.mark.parametrize("devices", [2, 4])
def test_jax_divides_the_weights_of_any_workload_over_any_number_of_devices(workload: str, devices: int) -> None:
    assert not why_not_measured(Cell(workload, "jax", devices=devices, strategy="split"))


@pytest.mark.parametrize(("framework", "strategy", "processes", "samples"), [
    ("pytorch", "ddp", 2, 24), ("tensorflow", "mirrored", 1, 48), ("jax", "local", 1, 48),
    ("pytorch", "split", 2, 48), ("tensorflow", "split", 1, 48), ("jax", "split", 1, 48),
])  # fmt: skip
def test_a_process_takes_its_devices_share_or_all_where_the_model_is_divided(
    framework: str, strategy: str, processes: int, samples: int
) -> None:
    cell = Cell("imdb_lstm", framework, batch=8, accumulate=3, devices=2, strategy=strategy)
    assert (cell.processes, cell.process_batch, cell.effective_batch) == (processes, samples, 48)


def test_inference_is_measured_on_one_device_by_the_suite_s_own_loop() -> None:
    one = Cell("imdb_lstm", "pytorch")
    assert not why_not_served(one)
    assert "on one device; leave infer out" in why_not_served(one.but(devices=2))
    assert "with the interface native" in why_not_served(one.but(interface="keras"))

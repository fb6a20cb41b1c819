from __future__ import annotations

import json
from typing import Any

import pytest

from suite.plan.cell import (
    AUTO,
    COMPILES,
    FRAMEWORKS,
    KERNELS,
    LOADERS,
    PRECISIONS,
    SIZES,
    WORKLOADS,
    Cell,
    CellError,
    Loader,
)


def test_the_id_names_every_setting_and_the_size_only_where_it_is_not_full() -> None:
    assert Cell("cifar100_cnn", "pytorch").id == "cifar100_cnn-pytorch-fp32-b32-eager-tuned"
    small = Cell("imdb_lstm", "jax", "fp64", 128, loader=Loader("workers", 4), size="small")
    assert small.id == "imdb_lstm-jax-fp64-b128-compile-w4-small"
    loader = Loader("workers", 2, prefetch=8, pin_memory=False, cache=True)
    varied = Cell("imdb_lstm", "jax", "bf16", 16, loader=loader, accumulate=4, kernel="scan")
    assert varied.id == "imdb_lstm-jax-bf16-b16-compile-w2-prefetch8-unpinned-cached-a4-scan"
    assert varied.effective_batch == 64


@pytest.mark.parametrize(("framework", "usual"), [("pytorch", "eager"), ("tensorflow", "graph"), ("jax", "compile")])
def test_a_framework_is_used_as_usual_unless_told_otherwise(framework: str, usual: str) -> None:
    assert Cell("imdb_lstm", framework).compile == usual
    assert Cell("imdb_lstm", "pytorch", compile="compile").but(framework=framework).compile == usual
    assert Cell("imdb_lstm", framework, compile="eager").but(batch=8).compile == "eager"


@pytest.mark.parametrize("loader", [Loader(), Loader("workers", 2)])
@pytest.mark.parametrize("size", SIZES)
def test_a_cell_survives_json_and_serves_as_a_key(loader: Loader, size: str) -> None:
    cell = Cell("imdb_lstm", "tensorflow", "fp64", 64, "compile", loader, size)
    back = Cell.from_json(json.loads(json.dumps(cell.to_json())))
    assert back == cell
    assert back.id == cell.id
    assert {cell: 1}[back] == 1


@pytest.mark.parametrize(("setting", "choices"), [
    ("workload", WORKLOADS), ("framework", FRAMEWORKS), ("precision", PRECISIONS), ("compile", COMPILES),
    ("kernel", KERNELS), ("size", SIZES), ("loader", LOADERS),
])  # fmt: skip
def test_an_unknown_setting_is_refused_in_one_line_that_lists_what_there_is(
    setting: str, choices: tuple[str, ...]
) -> None:
    wrong: Any = {"kind": "mxnet"} if setting == "loader" else "mxnet"
    with pytest.raises(CellError) as caught:
        Cell.from_json({"workload": "imdb_lstm", "framework": "jax", setting: wrong})
    assert str(caught.value).removeprefix("loader: ") == f"unknown {setting} 'mxnet'; there are: {', '.join(choices)}"


@pytest.mark.parametrize("batch", [False, -1, 1.5, "32", True, None])
def test_a_batch_is_a_whole_number(batch: Any) -> None:
    with pytest.raises(CellError, match=r"batch is .* at least 1"):
        Cell("imdb_lstm", "jax", batch=batch)


def test_only_the_loader_that_counts_its_workers_is_told_how_many() -> None:
    with pytest.raises(CellError, match=r"the tuned loader chooses its workers itself"):
        Loader("tuned", 3)


@pytest.mark.parametrize("setting", [{"prefetch": -1}, {"pin_memory": "yes"}, {"cache": 2}])
def test_loader_settings_are_checked(setting: dict[str, Any]) -> None:
    with pytest.raises(CellError, match=next(iter(setting))):
        Loader("workers", 2, **setting)


@pytest.mark.parametrize("workers", [-1, 0.5, "2"])
def test_workers_are_counted(workers: Any) -> None:
    with pytest.raises(CellError, match=r"workers is .* at least 0"):
        Loader("workers", workers)


@pytest.mark.parametrize("data", [
    None,
    5,
    [],
    "cell",
    {},
    {"workload": "imdb_lstm"},
    {"workload": ["imdb_lstm"], "framework": "jax"},
    {"workload": "imdb_lstm", "framework": "jax", "loader": 5},
    {"workload": "imdb_lstm", "framework": "jax", "loader": {"threads": 2}},
    {"workload": "imdb_lstm", "framework": "jax", "momentum": 0.5},
])  # fmt: skip
def test_what_is_no_cell_is_refused_in_one_line(data: Any) -> None:
    with pytest.raises(CellError) as caught:
        Cell.from_json(data)
    assert len(str(caught.value).splitlines()) == 1


def test_an_unknown_field_is_named_beside_those_there_are() -> None:
    with pytest.raises(
        CellError,
        match=r"unknown fields \['momentum'\]; it has .*batch, bind, cache, checkpointing, compile, cores",
    ):
        Cell.from_json({"workload": "imdb_lstm", "framework": "jax", "momentum": 0.5})


def test_several_devices_are_part_of_the_id_and_of_the_json_and_one_is_not() -> None:
    one = Cell("imdb_lstm", "pytorch", size="small")
    assert (one.devices, one.strategy, one.processes) == (1, "", 1)
    assert not one.to_json().keys() & {"devices", "strategy"}
    four = one.but(devices=4, batch=16, accumulate=2)
    assert four.id == "imdb_lstm-pytorch-fp32-b16-eager-tuned-a2-d4-small"
    assert (four.strategy, four.processes) == ("ddp", 4)
    assert (four.device_batch, four.effective_batch, four.global_batch) == (32, 128, 128)
    assert four.but(strategy="fsdp").id == "imdb_lstm-pytorch-fp32-b16-eager-tuned-a2-d4-fsdp-small"
    assert Cell.from_json(json.loads(json.dumps(four.to_json()))) == four
    assert four.but(devices=1) == one.but(batch=16, accumulate=2)
    assert four.but(framework="jax").strategy == "shard-map"
    assert Cell("imdb_lstm", "jax", devices=2, strategy="local").processes == 1


@pytest.mark.parametrize(("settings", "words"), [
    ({"devices": 0}, "devices is 0"), ({"strategy": "ddp"}, "for several devices"),
    ({"devices": 2, "strategy": "gossip"}, "unknown strategy"),
])  # fmt: skip
def test_devices_and_strategy_are_checked(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(CellError, match=words):
        Cell("imdb_lstm", "jax", **settings)


def test_a_batch_left_open_is_named_so() -> None:
    assert "-bauto-" in Cell("imdb_lstm", "jax", batch=AUTO).id

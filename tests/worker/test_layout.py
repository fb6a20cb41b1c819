"""The memory layout of images: PyTorch computes the same in both, in the memory that was asked for; others refuse."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from suite.plan.cell import Cell
from suite.plan.sweeps.sweep import parse_values, swept, usual
from suite.profile.chosen import parse_cell
from suite.worker.frameworks import UnsupportedError, build, check
from tests.frameworks import batches, framework_of, module, narrow, needs_frameworks

FIRST = "channels-first"


def cell_of(workload: str, framework: str = "pytorch", layout: str = FIRST, **settings: Any) -> Cell:
    return Cell(workload, framework, precision="fp64", batch=8, size="small", layout=layout, **settings)


def test_the_usual_layout_changes_no_id_and_no_record() -> None:
    cell = Cell("cifar100_cnn", "pytorch")
    assert cell.layout == "channels-last"
    assert cell.id == "cifar100_cnn-pytorch-fp32-b32-eager-tuned"
    assert "layout" not in cell.to_json()
    assert cell.but(layout=FIRST).id == f"{cell.id}-{FIRST}"
    assert parse_cell(f"{cell.id}-t2-{FIRST}") == cell.but(layout=FIRST, threads=2)


def test_a_sweep_takes_both() -> None:
    axes = {
        "workload": ("cifar100_cnn",),
        "framework": ("pytorch",),
        "layout": parse_values("layout", f"channels-last,{FIRST}"),
    }
    assert [cell.layout for cell in swept(usual(gpu=False), axes).cells] == ["channels-last", FIRST]


@pytest.mark.parametrize(
    ("framework", "settings", "words"),
    [
        ("tensorflow", {}, "on a CPU have channels last only"),
        ("jax", {}, "XLA chooses how they lie in memory"),
        ("pytorch", {"devices": 2}, "a setting of one device"),
        ("pytorch", {"interface": "keras"}, "of the interface native"),
    ],
)
def test_what_cannot_be_had_says_why(framework: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UnsupportedError, match=words):
        check(cell_of("cifar100_cnn", framework, **settings), "cpu")


@needs_frameworks
@pytest.mark.parametrize("framework", ["pytorch"])
def test_a_workload_without_convolutions_has_none_to_choose(framework: str) -> None:
    spec, cell = narrow("imdb_lstm"), cell_of("imdb_lstm", framework)
    with pytest.raises(UnsupportedError, match="has no convolutions whose layout could be chosen"):
        build(module("imdb_lstm", framework), cell, spec, framework_of(framework).NUMBERS["fp64"], False, "cpu")


@needs_frameworks
@pytest.mark.parametrize("framework", ["pytorch"])
def test_compiled_modes_choose_it_themselves(framework: str) -> None:
    lacking = import_module(f"suite.worker.frameworks.{framework}.device").lacking
    assert "torch.compile chooses the layout" in lacking(cell_of("cifar100_cnn", compile="compile"), "cpu")
    assert not lacking(cell_of("cifar100_cnn"), "cpu")


@needs_frameworks
@pytest.mark.parametrize("framework", ["pytorch"])
@pytest.mark.parametrize("workload", ["cifar100_cnn", "cifar100_resnet18"])
def test_both_layouts_compute_the_same_each_in_its_own_memory(workload: str, framework: str) -> None:
    import torch

    spec, found = narrow(workload), {}
    source = batches(spec, 8)
    for layout in ("channels-last", FIRST):
        cell, seen = cell_of(workload, framework, layout), []
        training = framework_of(framework).Training(
            cell, spec, module(workload, framework), spec.reference_weights(0), "cpu", dropout=False
        )
        wanted = torch.contiguous_format if layout == FIRST else torch.channels_last
        for layer in training.model.modules():
            if isinstance(layer, torch.nn.Conv2d) and layer.kernel_size != (1, 1):
                assert layer.weight.is_contiguous(memory_format=wanted)

                def look(_: Any, inputs: Any, output: Any, seen: list[bool] = seen, wanted: Any = wanted) -> None:
                    seen += [each.is_contiguous(memory_format=wanted) for each in (*inputs, output)]

                layer.register_forward_hook(look)
        losses = [float(training.step(training.put(source[number]))) for number in range(2)]
        assert seen
        assert all(seen), layout
        found[layout] = losses, training.weights()
    (losses, weights), (others, other_weights) = found.values()
    assert losses == pytest.approx(others, rel=1e-9)
    for name, array in weights.items():
        assert array == pytest.approx(other_weights[name], rel=1e-9, abs=1e-12)

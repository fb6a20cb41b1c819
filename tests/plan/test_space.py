"""The cells that a search chooses from."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.plan.cell import AUTO, Cell, Loader
from suite.plan.matrix import MatrixError
from suite.plan.space import DEFAULTS, lacking_too, larger_than, search_axes, space, with_recipe, workloads
from suite.plan.sweeps.sweep import AXES, parse_values


def test_axes_that_are_not_named_stay_as_usual() -> None:
    given = {"workload": ("imdb_lstm",), "framework": ("jax", "tensorflow"), "batch": (32, 64)}
    cells = space([], given, gpu=False).cells
    assert len(cells) == 4
    assert {(cell.precision, cell.loader.id) for cell in cells} == {("fp32", "tuned")}
    assert {(cell.framework, cell.compile) for cell in cells} == {("jax", "compile"), ("tensorflow", "graph")}
    found = search_axes("precision", gpu=False)
    assert {cell.precision for cell in space([], {**found, **given}, gpu=False).cells} == {"fp32", "bf16"}
    with pytest.raises(MatrixError, match="--search: unknown axis 'batches'; did you mean 'batch'"):
        search_axes("batches", gpu=False)


def test_all_axes_are_searched_over_the_values_of_the_machine() -> None:
    axes = {**search_axes("all", gpu=False), "workload": ("imdb_lstm",), "precision": ("fp32",)}
    cells = space([], axes, gpu=False).cells
    assert {cell.precision for cell in cells} == {"fp32"}
    assert {cell.batch for cell in cells} == {32, 64, 128}
    assert {cell.loader.id for cell in cells} == {"tuned", "w2", "resident"}
    modes = {(cell.framework, cell.compile) for cell in cells}
    assert modes == {
        ("pytorch", "eager"), ("pytorch", "compile"), ("tensorflow", "graph"), ("tensorflow", "compile"),
        ("jax", "compile"),
    }  # fmt: skip
    assert len(cells) == len(set(cells)) == 5 * 3 * 3


def test_a_matrix_or_a_file_gives_its_own_cells_and_options_replace_their_axes(tmp_path: Path) -> None:
    file = tmp_path / "sweep.toml"
    file.write_text('workload = "imdb_lstm"\nframework = ["jax"]\nbatch = [32, 64]\n')
    assert [cell.batch for cell in space([str(file)], {}, gpu=False).cells] == [32, 64]
    assert [cell.batch for cell in space([str(file)], {"batch": (7,)}, gpu=False).cells] == [7]


@pytest.mark.parametrize("gpu", [False, True])
def test_the_defaults_are_values_of_their_axes(gpu: bool) -> None:
    for axis, text in DEFAULTS[gpu].items():
        assert axis in AXES
        assert parse_values(axis, text)
    assert space([], {}, gpu).cells


def test_trainings_to_the_end_need_a_batch_and_come_by_the_objective_only() -> None:
    chosen = space([], {"batch": (AUTO,)}, gpu=False)
    with pytest.raises(MatrixError, match="give the batch sizes"):
        with_recipe(chosen, "modern")
    cells = with_recipe(space([], {"batch": (32,)}, gpu=False), "modern").cells
    assert {cell.recipe for cell in cells} == {"modern"}
    assert {cell.compile for cell in cells} == {"eager", "graph", "compile"}
    with pytest.raises(MatrixError, match="name no such matrix"):
        space(["accuracy"], {}, gpu=False)


def test_each_workload_has_its_cells() -> None:
    cells = space(["smoke"], {}, gpu=False).cells
    assert [{cell.workload for cell in part} for part in workloads(cells)] == [{"cifar100_cnn"}, {"imdb_lstm"}]


def test_each_size_is_a_search_of_its_own() -> None:
    cells = space([], {"workload": ("imdb_lstm",), "size": ("full", "small")}, gpu=False).cells
    assert [{cell.size for cell in part} for part in workloads(cells)] == [{"full"}, {"small"}]


def test_what_is_lacking_does_not_depend_on_the_amount_of_work() -> None:
    cell = Cell("imdb_lstm", "jax", precision="bf16", batch=32)
    assert lacking_too(cell, cell.but(batch=512, accumulate=4))
    assert not lacking_too(cell, cell.but(precision="fp32"))
    assert not lacking_too(cell, cell.but(loader=Loader("naive")))


def test_a_larger_batch_of_the_same_settings_does_not_fit_either() -> None:
    cell = Cell("imdb_lstm", "jax", batch=64)
    assert larger_than(cell, cell.but(batch=128))
    assert not larger_than(cell, cell.but(batch=32))
    assert not larger_than(cell, cell.but(batch=128, precision="bf16"))
    assert not larger_than(cell.but(batch=AUTO), cell)

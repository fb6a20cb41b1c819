from __future__ import annotations

from pathlib import Path

import pytest

from suite.plan.blocks import blocks, shard
from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.matrix import MATRICES, MatrixError, matrix, union


@pytest.mark.parametrize("name", sorted(MATRICES.keys() - {"lstm-kernel", "checkpointing"}))
def test_a_matrix_measures_each_of_its_workloads_in_all_frameworks_and_no_cell_twice(name: str) -> None:
    found = matrix(name)
    assert found.name == name
    assert len({cell.id for cell in found.cells}) == len(found.cells) == len(set(found.cells))
    workloads = {cell.workload for cell in found.cells}
    assert workloads >= {"cifar100_cnn", "imdb_lstm"}
    pairs = {(cell.workload, cell.framework) for cell in found.cells}
    assert pairs == {(workload, framework) for workload in workloads for framework in FRAMEWORKS}
    assert found.launches >= 1


def test_an_unknown_matrix_is_refused_in_one_line_that_lists_what_there_is() -> None:
    with pytest.raises(
        MatrixError,
        match=r"^unknown matrix 'everything'; there are: smoke, gpu, cpu, default, .*, path/to/sweep\.toml, path/to/",
    ):
        matrix("everything")


def test_trainings_to_the_end_use_the_study_s_batches() -> None:
    found = {name: matrix(name) for name in ("accuracy", "accuracy-study", "accuracy-precision", "loss-curve")}
    batches = {(cell.workload, cell.batch) for each in found.values() for cell in each.cells}
    assert batches == {("cifar100_cnn", 128), ("imdb_lstm", 64)}
    assert {cell.recipe for cell in found["accuracy"].cells} == {"modern"}
    assert {cell.precision for cell in found["accuracy-precision"].cells} == {"fp32", "bf16", "fp16"}
    assert found["loss-curve"].launches == 1
    assert found["loss-curve"].cells[0].id == "cifar100_cnn-pytorch-fp32-b128-eager-tuned-no-dropout"


def test_every_block_holds_each_cell_once() -> None:
    cells = matrix("smoke").cells
    order = blocks(cells, launches=5, seed=1)
    assert [block for _, block in order] == [block for block in range(5) for _ in cells]
    for block in range(5):
        held = [cell for cell, number in order if number == block]
        assert sorted(cell.id for cell in held) == sorted(cell.id for cell in cells)


def test_the_order_is_the_seeds_and_differs_between_blocks() -> None:
    cells = matrix("batch").cells
    order = blocks(cells, launches=4, seed=1)
    assert order == blocks(cells, launches=4, seed=1)
    assert order != blocks(cells, launches=4, seed=2)
    assert len({tuple(cell.id for cell, number in order if number == block) for block in range(4)}) == 4


def test_more_launches_only_add_blocks() -> None:
    cells = matrix("smoke").cells
    assert blocks(cells, launches=6, seed=3)[: 2 * len(cells)] == blocks(cells, launches=2, seed=3)


def test_several_matrices_hold_each_cell_once() -> None:
    both = union([matrix("precision"), matrix("batch")])
    assert both.name == "precision+batch"
    assert set(both.cells) == set(matrix("precision").cells) | set(matrix("batch").cells)
    assert len(set(both.cells)) == len(both.cells)
    assert union([matrix("smoke"), matrix("batch")]).launches == matrix("batch").launches


def test_a_matrix_that_ends_when_it_is_decided_has_time_for_each_of_its_cells() -> None:
    smoke, cpu = matrix("smoke"), matrix("cpu")
    assert smoke.budget_s == 600
    assert cpu.budget_s == 100 * len(cpu.cells)
    assert smoke.but(smoke.cells[:3], "half").budget_s == 300
    assert union([smoke, cpu]).budget_s == 600 + 100 * len(cpu.cells)
    assert union([smoke, matrix("batch")]).budget_s is None, "one of a fixed number of launches fixes both"


def test_all_matrices_that_measure_speed_together() -> None:
    both = union([matrix("precision"), matrix("batch")])
    assert set(matrix("full").cells) >= set(both.cells)


def test_shards_share_out_all_cells_and_keep_the_frameworks_of_a_ratio_together() -> None:
    cells = matrix("loader").cells
    parts = [shard(cells, part, 3) for part in (1, 2, 3)]
    assert sorted(cell.id for part in parts for cell in part) == sorted(cell.id for cell in cells)
    for part in parts:
        for cell in part:
            assert {cell.but(framework=framework) for framework in FRAMEWORKS} <= set(part)


def test_a_matrix_of_one_s_own_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from suite.plan.cell import Cell\n"
        "from suite.plan.matrix import Matrix\n"
        "def few(): return [Cell('imdb_lstm', 'jax', batch=7)]\n"
        "def whole(): return Matrix('mine', (Cell('imdb_lstm', 'jax'),), launches=3)\n"
        "def none(): return []\n"
        "def odd(): return 'cells'\n"
        "def broken(): return [Cell('imdb_lstm', 'mxnet')]\n"
    )
    assert matrix(f"{file}:few").cells == (Cell("imdb_lstm", "jax", batch=7),)
    assert matrix(f"{file}:few").name == "few"
    assert matrix(f"{file}:whole").launches == 3
    for name, problem in {
        "none": "has no cells",
        "odd": "returned str",
        "broken": "unknown framework 'mxnet'",
        "absent": "no attribute 'absent'",
    }.items():
        with pytest.raises(MatrixError, match=problem) as caught:
            matrix(f"{file}:{name}")
        assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(MatrixError, match="no file"):
        matrix(f"{tmp_path}/absent.py:few")


def test_an_exit_in_a_users_file_is_a_fault_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import sys\n\ndef cells():\n    sys.exit(3)\n")
    with pytest.raises(MatrixError, match=r"mine\.py:cells: mine\.py line 4: SystemExit: 3$"):
        matrix(f"{tmp_path}/mine.py:cells")

from __future__ import annotations

import pytest

from suite.cell import FRAMEWORKS
from suite.matrix import MATRICES, MatrixError, blocks, matrix


@pytest.mark.parametrize("name", MATRICES)
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
    with pytest.raises(MatrixError, match=r"^unknown matrix 'everything'; there are: smoke, default, batch, compile$"):
        matrix("everything")


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


def test_one_axis_is_varied_at_a_time() -> None:
    assert {cell.batch for cell in matrix("batch").cells} == {32, 128, 512, 2048}
    assert len(matrix("batch").cells) == 4 * len({cell.but(batch=1) for cell in matrix("batch").cells})
    assert {cell.but(compile="eager", framework="jax") for cell in matrix("compile").cells} == {
        cell.but(compile="eager", framework="jax") for cell in matrix("default").cells
    }

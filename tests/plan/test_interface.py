"""Interfaces as an axis of sweeps, as a matrix, and as variables of the process that trains."""

from __future__ import annotations

import pytest

from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.matrix import matrix
from suite.plan.settings.frameworks import VARIABLES, variables_of
from suite.plan.sweeps.sweep import parse_values, swept, usual
from suite.profile.chosen import ChoiceError, parse_cell


def test_an_interface_is_crossed_with_other_axes() -> None:
    axes = {"workload": ("imdb_lstm",), "framework": ("jax",), "interface": parse_values("interface", "native,keras")}
    assert [cell.interface for cell in swept(usual(gpu=False), axes).cells] == ["native", "keras"]


def test_the_matrix_has_every_way_of_keras_beside_the_own_loop() -> None:
    cells, ways = matrix("keras").cells, ("native", "keras", "keras-fit")
    assert {(cell.framework, cell.interface) for cell in cells} == {(f, i) for f in FRAMEWORKS for i in ways}
    assert {cell.but(interface="native") for cell in cells} <= {*cells}


@pytest.mark.parametrize(("framework", "backend"), [("pytorch", "torch"), ("tensorflow", "tensorflow"), ("jax", "jax")])
def test_keras_starts_with_its_backend_and_the_own_loop_as_before(framework: str, backend: str) -> None:
    cell = Cell("imdb_lstm", framework, interface="keras")
    assert variables_of(cell)["KERAS_BACKEND"] == backend
    assert variables_of(cell.but(interface="native")) == VARIABLES[framework]
    assert (
        variables_of(cell.but(interface="nnx")) == variables_of(cell.but(interface="lightning")) == VARIABLES[framework]
    )


def test_what_keras_trains_has_no_profile() -> None:
    with pytest.raises(ChoiceError, match="native loop"):
        parse_cell("imdb_lstm-jax-fp32-b32-compile-tuned-keras")

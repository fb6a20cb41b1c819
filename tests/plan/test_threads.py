"""The threads that compute on a CPU as a setting: in ids, sweeps, variables and conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from suite.analysis.rows.conditions import differences
from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.matrix import MatrixError
from suite.plan.settings.frameworks import VARIABLES, variables_of
from suite.plan.sweeps.sweep import parse_values, swept, usual
from suite.profile.chosen import parse_cell
from suite.worker.frameworks import UnsupportedError, check
from tests import records

LSTM = Cell("imdb_lstm", "jax", batch=64)


def test_the_framework_s_own_number_changes_no_id_and_no_record() -> None:
    assert LSTM.threads == 0
    assert LSTM.id == "imdb_lstm-jax-fp32-b64-compile-tuned"
    assert "threads" not in LSTM.to_json()
    cell = LSTM.but(threads=2)
    assert cell.id == f"{LSTM.id}-t2"
    assert Cell.from_json(cell.to_json()) == cell == parse_cell(cell.id)


def test_a_sweep_takes_numbers_and_auto() -> None:
    axes = {"workload": ("imdb_lstm",), "framework": ("jax",), "threads": parse_values("threads", "auto,1,2,4")}
    assert [cell.threads for cell in swept(usual(gpu=False), axes).cells] == [0, 1, 2, 4]
    with pytest.raises(MatrixError, match="threads is '0'; write a number of threads, or auto"):
        parse_values("threads", "0")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_only_where_no_function_sets_them_variables_do(framework: str) -> None:
    cell = Cell("imdb_lstm", framework)
    assert variables_of(cell) == VARIABLES[framework]
    more = {"NPROC": "2", "PJRT_NPROC": "2"} if framework == "jax" else {}
    assert variables_of(cell.but(threads=2)) == {**VARIABLES[framework], **more}


def test_what_cannot_be_had_says_why() -> None:
    check(LSTM.but(threads=2), "cpu")
    with pytest.raises(UnsupportedError, match="a setting of a CPU"):
        check(LSTM.but(threads=2), "cuda")
    with pytest.raises(UnsupportedError, match="a setting of one device; --cores"):
        check(LSTM.but(threads=2, devices=2), "cpu")


def test_rows_with_other_threads_ran_under_no_other_conditions() -> None:
    def row(threads: int, found: int) -> Any:
        settings = {"device": "cpu", "threads": found}
        held = [replace(each, settings=settings) for each in records.launches(["pytorch"], n=2, threads=threads)]
        return records.only(held).group.rows[0]

    assert differences(row(1, 1), row(2, 2)) == ("", "")
    assert "threads 1 against 2" in differences(row(0, 1), row(0, 2))[1]

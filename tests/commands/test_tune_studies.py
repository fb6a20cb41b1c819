"""The studies of searches: their commands select the same cells, and their reports say what was found."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.plan.sweeps.sweep import parse_values, swept, usual
from suite.tune.__main__ import main
from suite.tune.search import read_search
from tests.studies import tune, tune_methods, tune_real, tune_worlds
from tests.studies.tune_real import Found, agreement, regret, report, shown
from tests.tuning import cells, launched, usual_rate

CELLS = cells()
RECORDS = [launched(cell, block, usual_rate(cell)) for block in range(2) for cell in CELLS]
BEST, SECOND = "imdb_lstm-pytorch-bf16-b128-eager-tuned", "imdb_lstm-pytorch-bf16-b32-eager-tuned"


def test_the_search_and_the_full_matrix_have_the_same_few_cells(tmp_path: Path) -> None:
    command = tune_real.searching(tmp_path, 1, ["--min-window", "0.5", "--wait-idle", "600"])
    searched = read_search(main.parser().parse_args(command[3:])).cells
    axes = {axis: parse_values(axis, values) for axis, values in tune_real.SPACE.items()}
    assert set(searched) == set(swept(usual(gpu=False), axes).cells)
    assert {cell.workload: sum(each.workload == cell.workload for each in searched) for cell in searched} == {
        "cifar100_cnn": 12,
        "imdb_lstm": 12,
    }
    full = tune_real.measuring(tmp_path, [])
    assert all(word in full for word in tune_real.axes())


def test_batch_up_is_a_search_of_doubled_batches() -> None:
    search = read_search(main.parser().parse_args(["--workload=imdb_lstm", "--framework=jax", "--batch", "up"]))
    assert search.question.upward
    assert [cell.batch for cell in search.cells] == [2**power for power in range(4, 14)]
    assert not read_search(main.parser().parse_args(["--workload=imdb_lstm", "--batch=16,32"])).question.upward


def test_the_report_sets_searches_beside_the_full_matrix() -> None:
    assert shown(regret(BEST, RECORDS)) == "0"
    assert regret(SECOND, RECORDS).value == pytest.approx(1 / 1.2)
    good, bad = Found(BEST, (BEST,), 19, 3.0), Found(SECOND, (SECOND, BEST), 20, 3.5)
    words = "1 of 2 searches choose the best cell of the full matrix, and 2 recommend it"
    assert agreement([good, bad], RECORDS) == words
    lines = list(report({"imdb_lstm": [good, bad]}, RECORDS))
    assert f"| imdb_lstm | search 2 | 20 | 3.5 | 2 | `{SECOND}` | 16.7% (17% to 17%) |" in lines
    assert f"| imdb_lstm | all cells | 16 | 0.0 | | `{BEST}` | |" in lines
    assert f"- imdb_lstm: {words}." in lines


def test_tables_are_written_between_their_marks() -> None:
    rest = "b\n<!-- study: y -->\n<!-- end of study -->\n"
    page = f"a\n<!-- study: x -->\nold\n<!-- end of study -->\n{rest}"
    assert tune.written(page, "x", ["| new |"]) == (f"a\n<!-- study: x -->\n\n| new |\n\n<!-- end of study -->\n{rest}")
    with pytest.raises(ValueError, match="has no"):
        tune.written(page, "z", [])


@pytest.mark.parametrize("name", tune_methods.METHODS)
def test_every_method_answers_within_the_launches_of_the_full_matrix(name: str) -> None:
    world = next(iter(tune_worlds.worlds().values()))
    found = tune.rates(tune_methods.METHODS[name], world, searches=3)
    assert 0 < found.launches <= 1
    assert 1 <= found.recommended <= tune_worlds.CELLS

"""The answer of a search in words, and its plot."""

from __future__ import annotations

import shlex

import pytest

from suite.analysis.search.state import Race
from suite.plan.cell import Cell, Loader
from suite.plan.matrix import Matrix
from suite.plan.objective import Question, limit, objectives
from suite.plan.space import with_recipe
from suite.plan.sweeps.files import union_of_names
from suite.plan.sweeps.sweep import AXES, parse_values, swept, usual
from suite.record.record import Outcome
from suite.report.plots.kinds.race import race_plot
from suite.report.text.search import command, findings, label, outs, risk, say_untried, standing, title, verdict
from tests.drawn import panels, traces
from tests.tuning import Launcher, cells, raced, usual_rate

CELLS = cells()


def failing(cell: Cell, number: int) -> float | Outcome:
    return Outcome("diverged", "the loss is nan") if cell.framework == "jax" else usual_rate(cell)


@pytest.fixture(scope="module")
def found() -> Race:
    return raced(CELLS, Launcher(failing))


def test_a_decided_race_in_words(found: Race) -> None:
    assert title(found) == "IMDB LSTM, samples/s"
    assert verdict(found) == "Best: pytorch · bf16 · b128 · eager. All other cells are out."
    grid = standing(found, found.recommended)
    assert list(grid.headers) == ["cell", "samples/s", "of the best", "95 % interval", "launches"]
    (row,) = grid.rows
    assert row[0] == "pytorch · bf16 · b128 · eager"
    assert row[2] == "1"
    assert outs(found)[0].startswith("Out: diverged: the loss is nan: jax · fp32 · b32 · compile, jax")
    assert risk(found).startswith("Risk that the tests dropped the best cell: at most ")
    assert say_untried(found) == ""


def test_a_race_that_its_budget_ends_says_what_is_undecided() -> None:
    found = raced(CELLS, Launcher(lambda *_: 1000.0), budget=20)
    assert verdict(found).startswith("Best so far: ")
    assert "7 others are not shown to be worse, where the search stopped: undecided." in verdict(found)
    for row in standing(found, found.ranked).rows[1:]:
        low, _, high = row[3].partition(" to ")
        assert float(low) < float(row[2]) < float(high)
    short = raced(CELLS, Launcher(usual_rate), budget=3)
    assert say_untried(short) == "Not tried: the search stopped before 5 cells."


def test_equal_cells_and_a_front_in_words() -> None:
    equal = raced(CELLS[:3], Launcher(lambda *_: 1000.0), Question(margin=0.05))
    assert verdict(equal).endswith("2 others are equal to it within the margin of 5 %.")
    front = raced(
        CELLS[:4], Launcher(usual_rate, lambda cell: 1e7 * cell.batch), Question(objectives("samples/s,memory"))
    )
    assert verdict(front).startswith("2 cells on the Pareto front, pytorch · bf16 · b128 best in samples/s.")
    assert standing(front, front.recommended).rows[0][2].endswith("GiB")


def test_a_race_in_which_all_break_a_limit_recommends_nothing() -> None:
    found = raced(CELLS, Launcher(usual_rate), Question(limits=(limit("memory=1MiB"),)))
    assert verdict(found) == "No cell can be recommended: 8 break a limit"


def test_what_settings_brought_needs_two_blocks(found: Race) -> None:
    grid = findings(found)
    assert grid is not None
    assert {row[0] for row in grid.rows} >= {"precision", "batch"}
    assert findings(raced(CELLS, Launcher(usual_rate), budget=8)) is None


def test_labels_have_what_differs_only() -> None:
    both = [Cell("imdb_lstm", "jax", batch=32, loader=Loader("workers", 2)), Cell("imdb_lstm", "jax", batch=64)]
    assert [label(cell, both) for cell in both] == ["jax · b32 · w2", "jax · b64 · tuned"]


@pytest.mark.parametrize(
    "cell",
    [
        Cell("imdb_lstm", "pytorch", precision="bf16", batch=128, size="small", accumulate=2, kernel="scan"),
        Cell("cifar100_cnn", "tensorflow", batch=64, compile="compile", loader=Loader("workers", 2, prefetch=4)),
        with_recipe(Matrix("m", (Cell("imdb_lstm", "jax", batch=32),)), "modern").cells[0],
    ],
    ids=lambda cell: cell.id,
)
def test_the_command_runs_the_winner_and_nothing_else(cell: Cell) -> None:
    words = shlex.split(command(cell, 0.86 if cell.recipe else None))
    assert words[:2] == ["training-suite", "run"]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    axes = {name[2:]: parse_values(name[2:], text) for name, text in options.items() if name[2:] in AXES}
    base = union_of_names([options["--matrix"]], gpu=False) if "--matrix" in options else usual(gpu=False)
    assert swept(base, axes).cells == (cell,)
    assert options["--launches"] == "6"
    assert options.get("--target") == ("0.86" if cell.recipe else None)


def test_the_plot_has_a_bar_per_cell_that_ends_where_the_cell_was_out(found: Race) -> None:
    chart = race_plot(found)
    (panel,) = panels(chart)
    ends = [end for each in traces(chart, "bars") for end in each.x]
    assert max(ends) == found.launches
    assert sorted(ends)[:4] == sorted(out.launches for out in found.out.values())[:4]
    assert panel.rows
    assert panel.rows.names[0] == "pytorch · bf16 · b128 · eager"
    assert panel.bold == {0.0}
    assert "failed" in panel.beside.values()


def test_nothing_is_drawn_before_the_first_launch() -> None:
    assert race_plot(raced(CELLS, Launcher(usual_rate), budget=0)) is None

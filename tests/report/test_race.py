"""The answer of a search in words, and its plot."""

from __future__ import annotations

import shlex

import pytest

from suite.analysis.search.state import Race
from suite.plan.cell import Cell, Loader
from suite.plan.matrix import Matrix
from suite.plan.objective import Question, objectives
from suite.plan.space import with_recipe
from suite.plan.sweeps.files import union_of_names
from suite.plan.sweeps.sweep import AXES, parse_values, swept, usual
from suite.record.record import Outcome
from suite.report.plots.kinds.race import race_plot
from suite.report.text.search import command, say_untried, standing, verdict
from tests.drawn import panels, traces
from tests.tuning import Launcher, cells, raced, usual_rate

CELLS = cells()


def failing(cell: Cell, number: int) -> float | Outcome:
    return Outcome("diverged", "the loss is nan") if cell.framework == "jax" else usual_rate(cell)


@pytest.fixture(scope="module")
def found() -> Race:
    return raced(CELLS, Launcher(failing))


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

"""What a search shows while it runs."""

from __future__ import annotations

import pytest

from suite.plan.objective import Budget
from suite.tune.loop import Spent
from suite.tune.show import Screen, describe_budget
from tests.tuning import Launcher, cells, raced, usual_rate


@pytest.mark.parametrize("terminal", [False, True])
def test_there_is_a_line_per_block_and_on_a_terminal_the_standing(
    terminal: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher, spent, screen = Launcher(usual_rate), Spent(8, 40.0, Budget(launches=19)), Screen()
    screen.passing = terminal
    for budget in (7, 8, 9):
        screen.watch(raced(cells(), launcher, budget=budget), spent)
    line, *rest = capsys.readouterr().err.replace("\r", "").splitlines()
    assert "IMDB LSTM, samples/s: after block 1, " in line
    assert line.endswith("of 8 cells left; 8 launches in 40 s, 11 left")
    assert sum("pytorch" in row for row in rest) == (4 if terminal else 0)


def test_a_spent_budget_is_called_so() -> None:
    assert describe_budget(Spent(3, 60.0, Budget(seconds=60.0))) == "3 launches in 60 s, nothing left"
    assert describe_budget(Spent(20, 100.0, Budget(seconds=400.0))) == "20 launches in 2 min, 5 min left"

"""What a search shows while it runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from suite.plan.objective import Budget
from suite.tune.loop import Spent
from suite.tune.screen import Screen, describe_budget
from tests.tuning import Launcher, cells, raced, usual_rate


def test_without_a_terminal_there_is_a_line_per_block(capsys: pytest.CaptureFixture[str]) -> None:
    launcher, spent = Launcher(usual_rate), Spent(8, 40.0, Budget(launches=19))
    with Screen() as screen:
        for budget in (7, 8, 9):
            screen.watch(raced(cells(), launcher, budget=budget), spent)
        screen.show("not shown")
        screen.say_end("[1] a launch", "ok")
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert told[0].startswith("IMDB LSTM, samples/s: after block 1, ")
    assert told[0].endswith("of 8 cells left; 8 launches in 40 s, 11 left")
    assert told[1] == "[1] a launch"


def test_the_screen_shows_survivors_their_intervals_and_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    race = raced(cells(), Launcher(lambda *_: 1000.0), budget=20)
    screen.parts = screen._draw(race, Spent(20, 100.0, Budget(seconds=400.0)))
    screen.state = "[21] a cell  train, 3 s"
    console = Console(width=100, record=True, force_terminal=False, color_system=None, file=io.StringIO())
    console.print(screen)
    told = console.export_text()
    assert "IMDB LSTM, samples/s: block 3, 8 of 8 cells left" in told
    assert told.count(" to ") == 7
    assert "20 launches in 100 s" in told or "20 launches in 2 min, 5 min left" in told
    assert told.rstrip().endswith("[21] a cell  train, 3 s")


def test_a_spent_budget_is_called_so() -> None:
    assert describe_budget(Spent(3, 60.0, Budget(seconds=60.0))) == "3 launches in 60 s, nothing left"
    assert Spent(3, 60.0, Budget(seconds=60.0)).share == 1
    assert Spent(3, 60.0, Budget(launches=6)).share == 0.5

"""A run with a budget: looked at after each block, ended when all is decided, and the same after a kill."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from suite.analysis.statistics.multiple_testing import standing
from suite.plan.cell import Cell
from suite.plan.measuring import FIRST_LOOK, LAST_LOOK, LEAST_TESTED, SEQUENTIAL
from suite.record.record import Record
from suite.session.launches.launcher import drawn_launch
from suite.session.opening import advice
from suite.session.stopping import Stopping, spent_s
from tests import records
from tests.records import replace
from tests.sessions import Suite, refused

#: Seconds of a step by framework; each launch is off by a few percent.
STEP_S = {"pytorch": 1.0, "tensorflow": 1.5, "jax": 2.0}
OFF = (1.00, 1.03, 0.98, 1.01, 0.99, 1.02, 1.00, 0.97)


def launched(blocks: int, step_s: dict[str, float] | None = None, took_s: float = 60.0) -> list[Record]:
    """Launches of the LSTM in each framework, block by block, as of a run with a budget."""
    steps = step_s or STEP_S
    made = []
    for block in range(blocks):
        for at, (name, seconds) in enumerate(steps.items()):
            off = OFF[(block + 3 * at) % len(OFF)]
            record = records.proved(records.timed(seconds * off, name, block, workload="imdb_lstm"))
            made.append(replace(record, run=record.run | {"design": SEQUENTIAL, "took_s": took_s}))
    return made


def cells(held: list[Record]) -> set[Cell]:
    return {record.cell for record in held}


CLOSE = {"pytorch": 1.0, "tensorflow": 1.03, "jax": 2.0}


def failed(held: list[Record], *numbers: int) -> list[Record]:
    return [records.failed(each) if number in numbers else each for number, each in enumerate(held)]


def unsupported(held: list[Record]) -> list[Record]:
    return [records.failed(each, "unsupported") if each.cell.framework == "jax" else each for each in held]


@pytest.mark.parametrize(
    ("held", "tests", "decided", "left"),
    [
        (launched(FIRST_LOOK - 1), 3, 0, {*STEP_S}),
        *((launched(blocks), 3, 3, set()) for blocks in range(FIRST_LOOK, 9)),
        (launched(FIRST_LOOK, CLOSE), 3, 2, {"pytorch", "tensorflow"}),
        # A launch that failed drops no cell: a pair that lacks a block is open, and gets one more.
        (failed(launched(FIRST_LOOK), 2), 3, 1, {*STEP_S}),
        (failed(launched(FIRST_LOOK + 1), 2), 3, 3, set()),
        (unsupported(launched(4)), 1, 1, set()),
    ],
)
def test_what_is_decided_and_which_cells_go_on(held: list[Record], tests: int, decided: int, left: set[str]) -> None:
    found = standing(held)
    assert (found.tests, found.decided) == (tests, decided)
    assert {cell.framework for cell in found.cells} == left


def test_a_run_that_stopped_when_decided_lacks_no_launch() -> None:
    from suite.analysis.records.load import Launch, Loaded
    from suite.analysis.rows.runs import counts

    settings = {"design": SEQUENTIAL, "launches": 20, "planned": 60}
    loaded = Loaded(tuple(Launch(each, "run-a", "a") for each in launched(FIRST_LOOK)), runs={"run-a": settings})
    (count,) = counts(loaded)
    assert count.planned is None


def test_a_run_leaves_out_what_is_decided_from_the_block_of_the_first_look_on() -> None:
    said: list[str] = []
    stopping, held = Stopping(3600.0, said.append), launched(FIRST_LOOK, CLOSE)
    left = {cell.framework: stopping.should_skip(cell, FIRST_LOOK, held) for cell in cells(held)}
    assert left == {"pytorch": False, "tensorflow": False, "jax": True}
    assert said == ["after 4 blocks (12 min) 2 of 3 comparisons are decided; 2 cells go on"]
    assert not any(Stopping(3600.0, said.append).should_skip(cell, 3, held) for cell in cells(held)), "too early"


def test_what_the_last_block_decides_is_not_called_undecided() -> None:
    close = launched(FIRST_LOOK, CLOSE)
    stopping = Stopping(3600.0, lambda _: None)
    assert not stopping.undecided(launched(FIRST_LOOK - 1)), "too early"
    assert stopping.undecided(close) == 1, "of a run that was resumed and has nothing left to launch, too"
    stopping.should_skip(close[0].cell, FIRST_LOOK, close)
    assert stopping.undecided(close) == 1
    assert stopping.undecided(launched(FIRST_LOOK + 1)) == 0


def test_after_the_last_block_nobody_is_sent_to_go_on() -> None:
    run: Any = SimpleNamespace(
        info={"id": "a"}, done=0, total=0, failed=[], undecided=1, records=launched(LAST_LOOK - 1),
        settings=SimpleNamespace(budget_s=600.0),
    )  # fmt: skip
    assert "Go on for as long again" in advice(run, ["suite"])
    run.records = launched(FIRST_LOOK, {"pytorch": 1.0, "tensorflow": 1.05, "jax": 2.0})
    told, (needed,) = advice(run, ["suite"]), standing(run.records).needed
    assert FIRST_LOOK < needed < LAST_LOOK
    assert f"About {needed} blocks would decide 1" in told
    assert f"--budget={math.ceil(spent_s(run.records) * needed / FIRST_LOOK / 60)}min" in told
    run.records = launched(LAST_LOOK)
    assert advice(run, ["suite"]).startswith("Undecided comparisons: 1, after all 20 blocks")


def test_no_block_begins_once_the_budget_is_used_up() -> None:
    said: list[str] = []
    held = launched(FIRST_LOOK, CLOSE)
    stopping = Stopping(840.0 - 1, said.append)  # 12 launches took 720 s, and the next two take 120
    assert not any(
        Stopping(840.0, said.append).should_skip(cell, FIRST_LOOK, held)
        for cell in cells(held)
        if cell.framework != "jax"
    )
    said.clear()
    assert all(stopping.should_skip(cell, FIRST_LOOK, held) for cell in cells(held))
    assert said == ["after 4 blocks (12 min) 2 of 3 comparisons are decided, and the budget is used up"]
    assert stopping.left == 1


def test_the_table_says_how_it_was_tested_and_tests_four_launches() -> None:
    (table,) = records.tables(launched(FIRST_LOOK))
    assert [cell.ratio.verdict for cell in table.cells] == ["", "slower", "slower"]
    from suite.report.tables.timed import foot_lines

    assert any("group-sequential t-test" in line for line in foot_lines(table))
    (fixed,) = records.tables([replace(each, run={"id": "run-a"}) for each in launched(FIRST_LOOK)])
    assert not fixed.tested


def test_a_table_of_runs_of_both_designs_names_both_tests() -> None:
    from suite.report.tables.timed import foot_lines

    others = [replace(each, run={"id": "run-b"}) for each in launched(LEAST_TESTED)]
    (table,) = records.tables([*launched(FIRST_LOOK), *others])
    (line,) = (line for line in foot_lines(table) if line.startswith("Test:"))
    assert "group-sequential t-test" in line
    assert "and in the others a paired t-test" in line


ARGUMENTS = ("--workload=imdb_lstm", "--framework=pytorch,jax", "--size=small", "--benchmark-save=a")


def test_a_session_ends_when_all_is_decided(suite: Suite) -> None:
    done = suite("suite", *ARGUMENTS, "--budget=1h")
    assert done.status == 0, done.output
    assert len(done.launched) == 2 * FIRST_LOOK
    assert "1 of 1 comparisons are decided" in done.output
    (saved,) = done.saved.values()
    assert saved["suite"]["run"]["design"] == SEQUENTIAL
    assert "undecided" not in done.output
    again = suite("suite", *ARGUMENTS, "--budget=1h", "--resume")
    assert len(again.launched) == 2 * FIRST_LOOK, "what was measured decides the same"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--budget=1h", "--launches=3"], "leave out one of them"),
        (["--budget=20launches"], "write a time"),
        (["--budget=soon"], "--budget is 'soon'"),
        (["--budget=1h", "--matrix=accuracy"], "take --launches"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(suite: Suite, arguments: list[str], words: str) -> None:
    refused(suite("suite", *arguments), words)


@pytest.mark.parametrize(
    ("begun", "asked", "words"),
    [
        ("--launches=1", "--budget=1h", "give --launches N"),
        ("--budget=1h", "--launches=30", "give --budget TIME, and no --launches, to continue it"),
    ],
)
def test_a_run_keeps_its_design(suite: Suite, begun: str, asked: str, words: str) -> None:
    suite("suite", *ARGUMENTS, begun)
    done = suite("suite", *ARGUMENTS, asked, "--resume")
    assert done.status == 4
    assert words in done.output


def test_the_main_command_ends_when_it_is_decided_and_launches_fix_their_number(suite: Suite) -> None:
    listed = suite("suite", *ARGUMENTS, "--collect-only", "-q").output
    assert "launch19" in listed
    assert "control" not in listed
    fixed = suite("suite", *ARGUMENTS, "--collect-only", "-q", "--launches=6").output
    assert "launch5" in fixed
    assert "launch6" not in fixed
    assert "control5" in fixed


def test_the_whole_evidence_is_taken_in_the_first_launch_and_in_one_drawn_by_the_seed() -> None:
    found = {drawn_launch(Cell("imdb_lstm", "jax", batch=size), 0) for size in range(1, 40)}
    assert found == set(range(1, FIRST_LOOK))
    assert drawn_launch(Cell("imdb_lstm", "jax"), 7) == drawn_launch(Cell("imdb_lstm", "jax"), 7)

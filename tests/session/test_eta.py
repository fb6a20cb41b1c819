"""How long the rest of a run takes: held against the committed runs, launch by launch."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from suite.analysis.records.load import load
from suite.plan.cell import AUTO, Cell
from suite.plan.matrix import smoke
from suite.plan.measuring import Plan
from suite.record.record import Outcome, Record
from suite.session.eta import LAUNCHES_LEAST, Eta, is_lean
from suite.session.terminal import duration
from tests.published import RUNS

#: How far an estimate may be off.
FACTOR = 1.5
#: Of four workloads one takes ten times as long, and it came third, with evidence that only a first launch has; of 48
#: cells the first few say little.
WIDER = {"0025_evidence": 2.5, "0032_cpu": 2.5, "0027_releases": 2.5}


def by_run(path: Path) -> dict[str, list[Record]]:
    """The launches of each run in a file, in the order in which they ran."""
    runs: dict[str, list[Record]] = {}
    for launch in load([path]).launches:
        runs.setdefault(str(launch.record.run["id"]), []).append(launch.record)
    return {name: sorted(records, key=lambda each: (each.started, each.block)) for name, records in runs.items()}


def durations(records: list[Record]) -> list[float]:
    """How long each launch took, as its record says.

    Older ones do not: there it is the time to the start of the next, and of the last to the end of its phases.
    """
    if all("took_s" in record.run for record in records):
        return [float(record.run["took_s"]) for record in records]
    starts = [datetime.fromisoformat(record.started).timestamp() for record in records]
    last = records[-1]
    same = [
        after - before
        for record, (before, after) in zip(records, pairwise(starts), strict=False)
        if record.cell == last.cell
    ]
    end = sum(same) / len(same) if same else max(end for phase in last.phases.values() for _, end in phase.spans)
    return [after - before for before, after in pairwise(starts)] + [end]


def whole(*cells: Cell) -> list[tuple[Cell, bool]]:
    """Launches with all phases."""
    return [(cell, False) for cell in cells]


@pytest.mark.parametrize("path", RUNS.values(), ids=RUNS)
def test_from_the_third_launch_on_the_time_left_of_a_committed_run_is_right_within_a_factor(path: Path) -> None:
    for records in by_run(path).values():
        stored = records[0].run.get("plan")
        eta = Eta(Plan.from_json(stored) if stored else smoke().plan, cpu=True)
        launches, took_s = [(record.cell, is_lean(record)) for record in records], durations(records)
        for done in range(1, len(launches)):
            eta.add(launches[done - 1][0], took_s[done - 1], lean=launches[done - 1][1])
            assert eta.known == (done >= LAUNCHES_LEAST)
            if eta.known:
                ratio = eta.left_s(launches[done:]) / sum(took_s[done:])
                most = WIDER.get(path.stem, FACTOR)
                assert 1 / most <= ratio <= most, f"after launch {done}: {ratio:.2f} of what it took"


def test_the_same_cell_takes_as_long_as_before() -> None:
    eta = Eta(Plan(), cpu=True)
    slow, fast = Cell("cifar100_cnn", "jax"), Cell("imdb_lstm", "pytorch")
    eta.add(slow, 100.0)
    eta.add(slow, 120.0)
    eta.add(fast, 10.0)
    assert eta.left_s(whole(slow, fast, fast)) == pytest.approx(120 + 2 * 10)


def test_a_similar_cell_counts_more_than_another_one() -> None:
    eta = Eta(Plan(), cpu=True)
    for framework, seconds in (("pytorch", 20.0), ("jax", 80.0), ("tensorflow", 20.0)):
        eta.add(Cell("imdb_lstm", framework), seconds)
    assert 60 < eta.left_s(whole(Cell("imdb_lstm", "jax", batch=64))) < 80
    assert 20 < eta.left_s(whole(Cell("imdb_lstm", "pytorch", batch=64))) < 30


def test_launches_that_will_be_unsupported_are_counted_as_short() -> None:
    eta = Eta(Plan(), cpu=True)
    for _ in range(3):
        eta.add(Cell("cifar100_cnn", "pytorch"), 30.0)
    assert eta.left_s(whole(Cell("cifar100_cnn", "pytorch", "tf32"), Cell("imdb_lstm", "jax", compile="eager"))) < 10


def test_the_search_for_the_largest_batch_is_made_once() -> None:
    eta = Eta(Plan(), cpu=True)
    cell = Cell("imdb_lstm", "jax", batch=AUTO)
    eta.add(cell, 230.0, searching_s=200.0)
    assert eta.left_s(whole(cell)) == pytest.approx(30)
    assert eta.left_s(whole(cell.but(precision="bf16")), [cell.but(precision="bf16")]) == pytest.approx(230)


def test_before_the_first_launch_there_is_a_guess() -> None:
    assert 60 < Eta(smoke().plan, cpu=True).left_s(whole(*6 * [Cell("imdb_lstm", "jax")])) < 600


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "1 s"), (1, "1 s"), (89, "89 s"), (91, "2 min"), (3600, "60 min"), (6000, "1 h 40 min")],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_a_resumed_run_learns_from_its_journal_and_older_records_say_nothing() -> None:
    eta = Eta(Plan(), cpu=True)
    cell = Cell("imdb_lstm", "jax", batch=AUTO)
    made = Record(cell, Outcome("ok"))
    said = [{"took_s": 230.0, "searching_s": 200.0}, {"took_s": 50.0}, {}, {"took_s": "9"}, {"took_s": -1.0}]
    eta.learn(replace(made, run=run) for run in said)
    assert not eta.known, "two of five say how long they took"
    assert eta.left_s(whole(cell)) == pytest.approx(50)
    assert eta.left_s([], [cell]) == pytest.approx(200)

"""Warming up, the plan that fits the budget, and how long the rest of a run takes."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import namedtuple
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from suite.analysis.records.load import load
from suite.monitor.background import Background
from suite.plan.cell import AUTO, Cell
from suite.plan.matrix import smoke
from suite.plan.measuring import FIRST_LOOK, LAST_LOOK, LEAST_TESTED, WARM_UP, WHOLE_BLOCKS, Plan
from suite.record.record import Outcome, Record
from suite.record.saved import run_name
from suite.session.eta import LAUNCHES_LEAST, Eta, is_lean
from suite.session.journal import read
from suite.session.outlook import BUSY_BLOCKS, BudgetError, Cost, Costs, Outlook, TooSlowError, kind_of, warm_up
from suite.session.terminal import duration
from tests import records
from tests.published import RUNS
from tests.session.test_stopping import ARGUMENTS
from tests.sessions import Suite, records_of, refused

SMOKE = smoke()
CELLS = list(SMOKE.cells)
UNSIZED = [each for each in ARGUMENTS if not each.startswith("--size")]
COMPUTES_S = 0.3
COMPUTE = f"import time\nwhile time.process_time() < {COMPUTES_S}: pass"


def outlook(start_s: float, step_s: float, busy_cores: float = 0.0, plan: Plan = SMOKE.plan) -> Outlook:
    """Of a machine on which every launch starts, and every step takes, so long, and others use so many cores of two."""
    costs = Costs({kind_of(cell): Cost(cell, start_s, step_s) for cell in CELLS}, 0.0, Background(busy_cores, 2))
    made = Outlook(Eta(plan, cpu=True), {})
    made.learn(costs, CELLS)
    return made


def test_each_framework_reads_each_workload_once_and_a_failure_ends_nothing() -> None:
    asked: list[tuple[Cell, Plan]] = []

    def launch(cell: Cell, plan: Plan) -> Record:
        asked.append((cell, plan))
        failed = Record(cell, Outcome("crashed", "no"))
        return failed if cell.framework == "jax" else records.record(cell.framework, workload=cell.workload, batch=32)

    cells = [cell.but(batch=batch) for batch in (32, 64) for cell in CELLS]
    costs = warm_up([*cells, Cell("imdb_lstm", "jax", recipe="modern")], launch)
    assert [cell for cell, _ in asked] == CELLS
    assert all(plan.phases == ("train",) for _, plan in asked)
    assert {framework for (_, framework, _), cost in costs.by_kind.items() if cost.failed} == {"jax"}
    twice = costs.launch_s(CELLS[0].but(batch=64), SMOKE.plan, whole=True)
    assert (twice or 0.0) >= (costs.launch_s(CELLS[0], SMOKE.plan, whole=True) or 0.0) > 0
    assert costs.launch_s(CELLS[0].but(compile="max"), SMOKE.plan, whole=True) is None


def test_a_fast_machine_has_all_phases_in_the_usual_blocks() -> None:
    fast = outlook(3.0, 0.1)
    words = fast.choose(CELLS, 600.0, 30.0, may_shrink=True)
    assert fast.whole_blocks == WHOLE_BLOCKS
    blocks = int(words.split()[0])
    assert FIRST_LOOK <= blocks <= LAST_LOOK
    whole_s, lean_s = fast.estimate_s([(c, 0) for c in CELLS]), fast.estimate_s([(c, LAST_LOOK) for c in CELLS])
    assert 30 + WHOLE_BLOCKS * whole_s + (blocks - WHOLE_BLOCKS) * lean_s <= 600


def test_a_slower_machine_has_them_in_the_first_block_and_one_beyond_is_too_slow() -> None:
    slower = outlook(8.0, 0.6)
    slower.choose(CELLS, 600.0, 60.0, may_shrink=True)
    assert slower.whole_blocks == 1
    with pytest.raises(TooSlowError) as error:
        outlook(30.0, 4.0).choose(CELLS, 600.0, 120.0, may_shrink=True)
    needed_s = 60 * int(error.value.budget.removesuffix("min"))
    again = outlook(30.0, 4.0)
    assert again.choose(CELLS, needed_s, 120.0, may_shrink=True), "the budget that it names is enough"


def test_a_busy_machine_needs_more_blocks_or_a_smaller_size() -> None:
    outlook(8.0, 0.6, busy_cores=0.1).choose(CELLS, 600.0, 60.0, may_shrink=True)
    with pytest.raises(TooSlowError) as error:
        outlook(8.0, 0.6, busy_cores=0.5).choose(CELLS, 600.0, 60.0, may_shrink=True)
    needed_s = 60 * int(error.value.budget.removesuffix("min"))
    words = outlook(8.0, 0.6, busy_cores=0.5).choose(CELLS, needed_s, 60.0, may_shrink=True)
    assert int(words.split()[0]) >= BUSY_BLOCKS
    kept = outlook(8.0, 0.6, busy_cores=0.5)
    words = kept.choose(CELLS, 600.0, 60.0, may_shrink=False)
    assert FIRST_LOOK <= int(words.split()[0]) < BUSY_BLOCKS
    assert kept.whole_blocks == 1


def test_the_load_while_warming_up_is_that_of_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cores are busy for as long as a launch computes, so that nothing is left for others."""
    busy_s = iter([0.0, 0.8 * COMPUTES_S])  # the kernel counts in steps of 10 ms
    core = namedtuple("core", "user steal")
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: [core(next(busy_s), 0.0)])

    def launch(cell: Cell, plan: Plan) -> Record:
        subprocess.run([sys.executable, "-c", COMPUTE], check=True)
        return Record(cell, Outcome("crashed", "no"))

    background = warm_up(CELLS[:1], launch).background
    assert background is not None
    assert background.busy_cores == 0


def test_a_tested_run_warms_up_and_records_nothing_of_it(suite: Suite) -> None:
    done = suite("suite", *ARGUMENTS, f"--launches={LEAST_TESTED}", "--no-control")
    assert done.status == 0, done.output
    _, held, _ = read(*done.journals)
    assert len(held) == 2 * LEAST_TESTED
    assert all(record.launch < WARM_UP for record in held)
    assert [bool(record.run.get("warming_s")) for record in held] == [True] + [False] * (len(held) - 1)
    logs = [path.name for path in (suite.folder / "journals").rglob(f"*{WARM_UP}.log")]
    assert len(logs) == 2


def test_a_budget_that_is_too_small_takes_the_small_size_and_says_how_to_keep_the_full_one(suite: Suite) -> None:
    done = suite("suite", *UNSIZED, "--budget=40s")
    assert {line.split()[2] for line in done.launched} == {"small"}, done.output
    assert "--size=full --budget=" in done.output
    (saved,) = done.saved.values()
    assert {record.cell.size for record in records_of(saved)} == {"small"}
    assert saved["suite"]["run"]["typed"]["size"] == "small"
    assert len(done.journals) == 1, "that of the run which launched nothing is gone"


def test_a_size_that_was_asked_for_is_kept_and_a_budget_without_room_for_a_block_is_refused(suite: Suite) -> None:
    done = suite("suite", *UNSIZED, "--size=full", "--budget=2s")
    refused(done, "does not hold one block")
    assert not done.journals
    assert done.output.count("warming up: ") == 2, "the first time from a cold disk"


def test_what_a_refused_budget_is_told_to_change_fits() -> None:
    slow, cells = outlook(8.0, 0.6), CELLS
    slow.refuse_overrun(cells, 600.0, 60.0)
    block_s = slow.estimate_s([(cell, 0) for cell in cells])
    with pytest.raises(BudgetError) as error:
        slow.refuse_overrun(cells, 60.0 + 0.9 * block_s, 60.0)
    words = str(error.value)
    (budget,) = re.findall(r"--budget=(\d+)min", words)
    slow.refuse_overrun(cells, 60.0 * int(budget), 60.0)
    (fewer,) = map(int, re.findall(r"about (\d+) of the", words))
    assert 0 < fewer < len(cells)
    (window_s,) = map(float, re.findall(r"--min-window=([\d.]+)s", words))
    shorter = outlook(8.0, 0.6, plan=replace(SMOKE.plan, min_window_s=window_s))
    shorter.refuse_overrun(cells, 60.0 + 0.9 * block_s, 60.0)
    with pytest.raises(BudgetError, match="does not hold") as error:
        slow.refuse_overrun(cells, 30.0, 60.0)
    assert "of the" not in str(error.value)
    assert "--min-window" not in str(error.value)


#: How far an estimate may be off.
FACTOR = 1.5
#: Of four workloads one takes ten times as long, and it came third, with evidence that only a first launch has; of 48
#: cells the first few say little; of two workloads the first four launches were of the slower one.
WIDER = {"0025_evidence": 2.5, "0032_cpu": 2.5, "0027_releases": 2.5, "0035_formats": 2.0}


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
    for launched in by_run(path).values():
        stored = launched[0].run.get("plan")
        eta = Eta(Plan.from_json(stored) if stored else smoke().plan, cpu=True)
        launches, took_s = [(record.cell, is_lean(record)) for record in launched], durations(launched)
        for done in range(1, len(launches)):
            eta.add(launches[done - 1][0], took_s[done - 1], lean=launches[done - 1][1])
            assert eta.known == (done >= LAUNCHES_LEAST)
            if eta.known and done % max(1, len(launches) // 20) == 0:
                ratio = eta.left_s(launches[done:]) / sum(took_s[done:])
                most = WIDER.get(run_name(path), FACTOR)
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

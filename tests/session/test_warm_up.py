"""What comes before the first launch that counts: warming up, and the plan that fits the budget."""

from __future__ import annotations

import subprocess
import sys
from collections import namedtuple

import psutil
import pytest

from suite.monitor.background import Background
from suite.plan.cell import Cell
from suite.plan.matrix import smoke
from suite.plan.measuring import FIRST_LOOK, LAST_LOOK, LEAST_TESTED, WARM_UP, WHOLE_BLOCKS, Plan
from suite.record.record import Outcome, Record
from suite.session.eta import Eta
from suite.session.journal import read
from suite.session.outlook import BUSY_BLOCKS, Cost, Costs, Outlook, TooSlowError, kind_of, warm_up
from tests import records
from tests.session.test_stopping import ARGUMENTS
from tests.sessions import Suite, records_of

SMOKE = smoke()
CELLS = list(SMOKE.cells)
COMPUTES_S = 0.3
COMPUTE = f"import time\nwhile time.process_time() < {COMPUTES_S}: pass"


def outlook(start_s: float, step_s: float, busy_cores: float = 0.0) -> Outlook:
    """Of a machine on which every launch starts, and every step takes, so long, and others use so many cores of two."""
    costs = Costs({kind_of(cell): Cost(cell, start_s, step_s) for cell in CELLS}, 0.0, Background(busy_cores, 2))
    made = Outlook(Eta(SMOKE.plan, cpu=True), {})
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
    arguments = [each for each in ARGUMENTS if not each.startswith("--size")]
    done = suite("suite", *arguments, "--budget=5s")
    assert {line.split()[2] for line in done.launched} == {"small"}, done.output
    assert "--size=full --budget=" in done.output
    (saved,) = done.saved.values()
    assert {record.cell.size for record in records_of(saved)} == {"small"}
    assert saved["suite"]["run"]["typed"]["size"] == "small"
    assert len(done.journals) == 1, "that of the run which launched nothing is gone"


def test_a_size_that_was_asked_for_is_kept_and_the_run_says_what_it_takes(suite: Suite) -> None:
    arguments = [each for each in ARGUMENTS if not each.startswith("--size")]
    done = suite("suite", *arguments, "--size=full", "--budget=5s")
    assert {line.split()[2] for line in done.launched} == {"full"}
    assert "give --budget=" in done.output
    assert done.output.count("warming up: ") == 1, "the size stays as it is, whatever a second time would say"

"""Disturbed launches: measured again at the end of their block, in no test, and too many of them leave no answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.analysis.rows.blocks import say_too_busy
from suite.plan.blocks import launch_id, repeats_allowed
from suite.plan.cell import Cell
from suite.plan.measuring import CONTROL, FIRST_LOOK, LEAST_TESTED, REPEAT
from suite.record.record import Record
from suite.session.journal import read
from suite.session.stopping import is_due_again
from tests import records
from tests.records import replace
from tests.session.test_stopping import ARGUMENTS, launched
from tests.sessions import Suite

#: Python that a session runs first: the readings of some launches say that they were disturbed.
DISTURBS = """
import suite.record.disturbance as readings
def find(record):
    return ("other processes took 50 % of the cores",) if {rule} else ()
readings.find_disturbances = find
from suite.analysis.rows import blocks as rows
from suite.session import terminal
from suite.session import stopping
terminal.find_disturbances = rows.find_disturbances = find
stopping.is_disturbed = rows.is_disturbed = readings.is_disturbed = lambda record: bool(find(record))
"""


def disturbed(record: Record) -> Record:
    return replace(record, metrics={"host": {"disturbance": {"others_share": 0.5}, "cores": 2}}, flags=("disturbed",))


def order_of(suite: Suite) -> list[str]:
    _, held, _ = read(*sorted((suite.folder / "journals").glob("*.jsonl")))
    return [f"{record.cell.framework} {record.launch}" for record in held]


def test_a_disturbed_launch_is_measured_again_at_the_end_of_its_block_once(suite: Suite) -> None:
    suite.first = DISTURBS.format(rule="record.cell.framework == 'jax' and record.block == 1")
    done = suite("suite", *ARGUMENTS, "--budget=1h")
    assert done.status == 0, done.output
    blocks = {at: [one for one in order_of(suite) if int(one.split()[1]) % CONTROL == at] for at in range(FIRST_LOOK)}
    assert blocks[1][2:] == [f"jax {REPEAT + 1}"], "it was disturbed too, and is not measured a third time"
    assert all(len(blocks[at]) == 2 for at in blocks if at != 1)
    (saved,) = done.saved.values()
    names = [entry["name"] for entry in saved["benchmarks"]]
    assert sum(name.endswith("-launch1-repeat]") for name in names) == 1
    assert saved["suite"]["run"]["planned"] == len(names)


def test_a_run_measures_a_third_of_its_plan_again_at_most_and_then_gives_no_answer(suite: Suite) -> None:
    suite.first = DISTURBS.format(rule="True")
    done = suite("suite", *ARGUMENTS, f"--launches={LEAST_TESTED}")
    assert done.status == 0, done.output
    ran = order_of(suite)
    repeated = [one for one in ran if int(one.split()[1]) >= REPEAT]
    copies = 3  # with the control
    assert len(repeated) == repeats_allowed(copies, LEAST_TESTED - 1) == LEAST_TESTED
    assert len(ran) - len(repeated) == copies * LEAST_TESTED
    assert "too busy" in done.output


@pytest.mark.slow
def test_a_run_that_is_not_tested_measures_nothing_again(suite: Suite) -> None:
    suite.first = DISTURBS.format(rule="True")
    suite("suite", *ARGUMENTS, "--launches=2")
    assert len(order_of(suite)) == 4


def test_a_run_that_was_killed_goes_on_with_the_repeats_that_are_due(suite: Suite) -> None:
    suite.first = DISTURBS.format(rule="record.cell.framework == 'jax' and record.launch < 2")
    suite("suite", *ARGUMENTS, "--budget=1h")
    whole = order_of(suite)
    (journal,) = (suite.folder / "journals").glob("*.jsonl")
    kept = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(kept[:4]))  # the last one before the kill was the first repeat
    suite("suite", *ARGUMENTS, "--budget=1h", "--resume")
    assert order_of(suite) == whole


@pytest.mark.slow
def test_a_run_that_is_tested_only_after_it_went_on_measures_again_from_then_on(suite: Suite, tmp_path: Path) -> None:
    from tests.submit.test_sessions import alarms

    suite.first = DISTURBS.format(rule="record.cell.framework == 'jax' and record.launch in (1, 4)")
    suite("suite", *ARGUMENTS, "--launches=2")
    done = suite("suite", *ARGUMENTS, f"--launches={LEAST_TESTED}", "--resume")
    assert done.status == 0, done.output
    ran = order_of(suite)
    assert [one for one in ran if int(one.split()[1]) >= CONTROL] == [f"jax {REPEAT + 4}"], "and there is no control"
    assert len(ran) == 2 * LEAST_TESTED + 1
    suite.first = ""
    assert "rule" not in str(alarms(done, tmp_path)), "the readings of stand-ins say nothing"


def test_what_is_due_again_follows_from_the_records_alone() -> None:
    held = launched(2)
    jax = next(record.cell for record in held if record.cell.framework == "jax")
    assert not is_due_again(jax, REPEAT + 1, held)
    held = [disturbed(record) if record.cell == jax else record for record in held]
    assert is_due_again(jax, REPEAT + 1, held)
    assert not is_due_again(jax, REPEAT + 2, held), "there is no such launch"
    most = repeats_allowed(3, 1)
    spent = [replace(held[0], launch=REPEAT + number) for number in range(most)]
    assert not is_due_again(jax, REPEAT + 1, [*held, *spent]), "a third of the plan was measured again"


def test_disturbed_launches_are_in_no_figure_and_no_test() -> None:
    held = launched(6)
    slow = [
        disturbed(replace(r, phases=records.timed(9.0, "jax", 2, workload="imdb_lstm").phases))
        if (r.cell.framework, r.launch) == ("jax", 2) else r for r in held
    ]  # fmt: skip
    again = [replace(r, launch=REPEAT + 2) for r in held if (r.cell.framework, r.launch) == ("jax", 2)]
    (plain,), (table,) = records.tables(held), records.tables([*slow, *again])
    assert table.launches == plain.launches
    for row, as_before in zip(table.group.rows, plain.group.rows, strict=True):
        assert [r.samples_per_s for r in row.ok] == [r.samples_per_s for r in as_before.ok]
        assert table.ratios[row.key].value == plain.ratios[as_before.key].value
        assert len(row.set_aside) == (row.cell.framework == "jax")
    (jax,) = (cell for cell in table.cells if cell.framework == "jax")
    assert "disturbed 1/7" in jax.flags


def test_a_run_of_which_more_than_a_third_was_disturbed_names_no_winner() -> None:
    held = launched(6)
    busy = [disturbed(record) if record.launch < 3 else record for record in held]
    assert say_too_busy(held) == ""
    assert "9 of 18 launches" in say_too_busy(busy)
    (table,) = records.tables(busy)
    others = [row for row in table.group.rows if row.cell.framework != "pytorch"]
    assert not any(table.ratios[row.key].value for row in others)
    assert all("too busy" in table.ratios[row.key].reason for row in others)


def test_a_row_whose_launches_were_all_disturbed_has_figures_and_no_ratio() -> None:
    held = [disturbed(r) if r.cell.framework == "jax" and r.launch < 2 else r for r in launched(2)]
    (table,) = records.tables([*held, *[replace(r, launch=r.launch) for r in []]])
    (jax,) = (row for row in table.group.rows if row.cell.framework == "jax")
    assert len(jax.ok) == 2
    assert table.ratios[jax.key].value is None


@pytest.mark.parametrize(
    ("number", "name"), [(3, "launch3"), (CONTROL + 3, "control3"), (REPEAT + 3, "launch3-repeat"),
                         (REPEAT + CONTROL + 3, "control3-repeat")],
)  # fmt: skip
def test_the_id_of_a_launch_says_what_it_is(number: int, name: str) -> None:
    cell = Cell("imdb_lstm", "jax")
    assert launch_id(cell, number) == f"{cell.id}-{name}"
    made = records.record("jax", number, workload="imdb_lstm")
    assert (made.block, made.control, made.is_repeat) == (3, "control" in name, "repeat" in name)


def test_a_bundle_says_which_repeats_are_due(suite: Suite, tmp_path: Path) -> None:
    from tests.submit.test_sessions import alarms

    suite.first = DISTURBS.format(rule="'disturbed' in record.flags")
    done = suite("suite", *ARGUMENTS, "--budget=1h")
    assert alarms(done, tmp_path) == {}


def test_a_repeat_that_is_left_out_or_put_in_is_noticed() -> None:
    from types import SimpleNamespace
    from typing import Any

    from suite.verify.journal import _check_repeats

    def problems(held: list[Record], repeats: bool = True) -> list[str]:
        placed = [replace(each, run=each.run | {"position": at}) for at, each in enumerate(held)]
        launches = {each.key: each for each in placed}
        run: Any = SimpleNamespace(run={"repeats": repeats}, launches=launches, ended=placed)
        return [problem.kind for problem in _check_repeats(run)]

    held = [disturbed(r) if (r.cell.framework, r.launch) == ("jax", 0) else r for r in launched(2)]
    again = replace(launched(1)[2], launch=REPEAT)
    assert again.cell.framework == "jax"
    assert problems([*held[:3], again, *held[3:]]) == []
    assert len(problems(held)) == 1, "it was disturbed and is not measured again"
    assert len(problems([*held[:3], replace(launched(1)[0], launch=REPEAT), *held[3:]])) == 2, "another one is"
    assert len(problems([*held[:2], again, *held[2:]])) == 1, "before the end of its block"
    assert len(problems([*held[:3], again, *held[3:]], repeats=False)) == 1

"""Which launches of a block form a ratio: those of one host and one session, or of sessions soon after each other."""

from __future__ import annotations

from typing import Any

import pytest

from suite.analysis.identity.verdicts import verdicts
from suite.analysis.records.load import Launch
from suite.analysis.rows.blocks import why_unplanned
from suite.analysis.statistics.accuracy import compare_accuracies
from suite.analysis.statistics.changes import changes
from suite.analysis.statistics.fastest import find_best
from suite.analysis.statistics.multiple_testing import correct_run
from suite.analysis.statistics.ratios import blockwise
from suite.plan.cell import AUTO
from suite.plan.measuring import SEQUENTIAL
from suite.record.record import Record
from suite.report.tables.frame import Table, table
from tests import records
from tests.records import replace
from tests.shown import grouped


def launched(framework: str, started: str, resumed: int = 0, host: str = "") -> Record:
    run = {"id": "run-a"} | ({"resumed": resumed} if resumed else {}) | ({"host": host} if host else {})
    return replace(records.record(framework), started=started, run=run)


@pytest.mark.parametrize(
    ("started", "resumed", "pairs"),
    [
        ("2026-03-01T10:50:00+00:00", 1, 1),  # resumed at once
        ("2026-03-02T10:00:00+00:00", 1, 0),  # on the next day
        ("2026-03-01T13:00:00+00:00", 0, 1),  # a long block of one session
        ("2026-03-01T10:50:00", 1, 0),  # no time that compares
        ("", 1, 0),
    ],
)
def test_launches_of_a_resumed_run_pair_if_they_ran_soon_after_each_other(
    started: str, resumed: int, pairs: int
) -> None:
    first, later = launched("pytorch", "2026-03-01T10:00:00+00:00"), launched("jax", started, resumed)
    assert len(blockwise([first], [later])) == len(blockwise([later], [first])) == pairs


def test_launches_on_two_hosts_are_no_pair() -> None:
    at = "2026-03-01T10:00:00+00:00"
    assert blockwise([launched("pytorch", at, host="a")], [launched("jax", at, host="b")]) == []


@pytest.mark.parametrize("times", ["2", None, []])
def test_a_number_of_times_that_no_run_can_have_written_is_none(times: object) -> None:
    assert replace(records.record(), run={"resumed": times}).resumed == 0


def test_a_row_whose_launches_found_several_batches_has_no_ratio() -> None:
    held = [
        replace(
            each,
            cell=each.cell.but(batch=AUTO),
            settings={"effective_batch": 512 if each.launch or each.cell.framework == "pytorch" else 448},
        )
        for each in records.launches(["pytorch", "jax"], batch=64)
    ]
    found = grouped(held)
    assert "had several batches (448, 512)" in list(table(found).frame["ratio_reason"])[1]


def test_no_row_is_best_by_launches_of_another_day() -> None:
    days = [f"2026-03-0{1 + launch}T10:00:00+00:00" for launch in range(6)]
    held = [replace(each, started=days[each.launch]) for each in records.launches(["pytorch", "jax"], n=6)]
    late = [
        replace(each, started="2026-04-01T10:00:00+00:00", run=each.run | {"resumed": 1})
        if each.cell.framework == "jax"
        else each
        for each in held
    ]
    for launches, marked in ((held, 1), (late, 0)):
        found = grouped(launches)
        best = find_best(
            found, verdicts({row.key: row.ok for row in found.rows}), lambda record: record.samples_per_s, more=True
        )
        assert len(best) == marked


def on(record: Record, host: str, cpu: str = "AMD EPYC 7R13") -> Record:
    """The same launch on this host."""
    machine = record.environment.get("machine", {}) | {"cpu": cpu, "cores": 2}
    return replace(record, run=record.run | {"host": host}, environment=record.environment | {"machine": machine})


def compared(held: list[Record]) -> Table:
    found = grouped(held)
    return table(found)


def test_blocks_on_several_hosts_of_one_kind_give_ratios() -> None:
    found = compared([on(record, f"host{record.block}") for record in records.launches()])
    assert set(found.frame["ratio_reason"]) == {""}
    assert min(found.frame["ratio_blocks"]) == 3


def test_a_launch_that_ran_on_another_host_than_its_block_is_in_no_ratio() -> None:
    held = [
        on(record, "elsewhere" if (record.cell.framework, record.block) == ("jax", 1) else "here")
        for record in records.launches()
    ]
    found = compared(held)
    blocks = dict(zip(found.frame["framework"], found.frame["ratio_blocks"], strict=True))
    assert blocks["jax"] == 2
    assert blocks["tensorflow"] == 3


def test_hosts_of_two_kinds_give_no_ratio() -> None:
    kinds = ("AMD EPYC 7R13", "AMD EPYC 9R14")
    held = [on(record, f"host{record.block % 2}", kinds[record.block % 2]) for record in records.launches()]
    found = compared(held)
    reasons = [reason for reason in found.frame["ratio_reason"] if reason]
    assert reasons
    assert all("ran on hosts of several kinds (AMD EPYC 7R13, 2 cores" in reason for reason in reasons)


def asked(*numbers: int | None, design: str = "", **changes: Any) -> list[Record]:
    """A launch of PyTorch and of JAX for each number, which is what was then asked for."""
    made = []
    for block, number in enumerate(numbers):
        run = {} if number is None else {"launches": number}
        run |= {"design": design} if design else {}
        for each in (records.timed(s, name, block, **changes) for name, s in (("pytorch", 1.0), ("jax", 2.0))):
            off = 1 + 0.01 * ((3 * block + len(each.cell.framework)) % 5)
            phases = records.timed(off / (each.samples_per_s or 1.0), each.cell.framework, block).phases
            made.append(replace(each, phases=phases, run=each.run | run))
    return made


def has_test(held: list[Record]) -> bool:
    return any(ratio.verdict for ratio in correct_run([Launch(each, "run-a", "") for each in held]).ratios.values())


#: What was asked for when each launch was made, and whether it is a test.
RUNS: dict[str, tuple[tuple[int | None, ...], bool]] = {
    "six": ((6,) * 6, True),
    "six after two": ((2, 2, 6, 6, 6, 6), True),
    "six after an interruption": ((6, 6, 6, 6, 6, 6), True),
    "of an older version": ((None,) * 8, True),
    "eight after five": ((5,) * 5 + (8,) * 3, True),
    "eight after six": ((6,) * 6 + (8,) * 2, False),
    "eight after six after two": ((2, 2, 6, 6, 6, 6, 8, 8), False),
    "eight after seven of ten": ((10,) * 7 + (12,) * 5, False),
    "seven of ten": ((10,) * 7, False),
    "fewer than were made": ((2, 2, 9, 9, 9, 9, 9), False),
    "a search's": ((1,) * 8, False),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_a_fixed_number_is_tested_when_all_are_there_and_once(name: str) -> None:
    numbers, is_test = RUNS[name]
    held = asked(*numbers)
    assert has_test(held) == is_test
    assert bool(why_unplanned([each for each in held if each.cell.framework == "jax"])) != is_test
    assert has_test(asked(*numbers, design=SEQUENTIAL)), "which corrects for its looks"


def test_a_failed_launch_that_was_tried_again_hides_no_look() -> None:
    held = asked(*(6,) * 6, 8, 8)
    held[0] = replace(held[0], run=held[0].run | {"launches": 8})
    assert not has_test(held)


def test_an_untested_ratio_keeps_its_figures_and_the_table_says_why() -> None:
    table = records.only(asked(*(6,) * 6, 8, 8))
    (jax,) = (cell for cell in table.cells if cell.framework == "jax")
    assert jax.ratio.value
    assert jax.ratio.blocks == 8
    assert not jax.ratio.verdict
    assert not table.tested


def test_a_run_whose_number_was_raised_fails_no_build() -> None:
    base = [replace(each, run=each.run | {"id": "base"}) for each in asked(*(6,) * 6)]
    raised = asked(*(6,) * 6, 8, 8)
    for new, number in ((asked(*(6,) * 6), 2), (raised, 0)):
        every = [Launch(each, str(each.run["id"]), "") for each in (*base, *new)]
        found, notes = changes(every)
        assert len(found) == number
        assert len(notes) == 2 - number


def test_seeds_that_were_added_after_a_test_are_not_tested() -> None:
    def verdicts(*numbers: int) -> set[str]:
        held = []
        for block, number in enumerate(numbers):
            for name, accuracy in (("pytorch", 0.4), ("jax", 0.6)):
                made = records.trained()
                assert made.course
                last = replace(made.course.epochs[-1], test_accuracy=accuracy + 0.001 * block)
                course = replace(made.course, epochs=(made.course.epochs[0], last))
                run = made.run | {"launches": number, "seed": block}
                held.append(
                    replace(made, cell=made.cell.but(framework=name, compile=""), launch=block, course=course, run=run)
                )
        found = grouped(held)
        return set(compare_accuracies(found, "pytorch").frame["verdict"]) - {""}

    assert verdicts(3, 3, 3) == {"higher"}
    assert verdicts(2, 2, 5, 5, 5) == {"higher"}
    assert verdicts(3, 3, 3, 5, 5) == set()

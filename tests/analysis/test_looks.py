"""A fixed number of launches is tested once: not before all are there, and not again with more."""

from __future__ import annotations

from typing import Any

import pytest

from suite.analysis.records.load import Launch
from suite.analysis.rows.blocks import why_unplanned
from suite.analysis.rows.groups import group
from suite.analysis.statistics.accuracy import compare_accuracies
from suite.analysis.statistics.multiple_testing import correct_run
from suite.analysis.statistics.regress import changes
from suite.plan.measuring import LEAST_TESTED, SEQUENTIAL
from suite.record.record import Record
from tests import records
from tests.records import replace
from tests.studies.looks import share


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
        (found,) = group([Launch(each, "run-a", "") for each in held])
        return set(compare_accuracies(found, "pytorch").frame["verdict"]) - {""}

    assert verdicts(3, 3, 3) == {"higher"}
    assert verdicts(2, 2, 5, 5, 5) == {"higher"}
    assert verdicts(3, 3, 3, 5, 5) == set()


def test_raising_the_number_until_something_is_decided_buys_nothing() -> None:
    """A few answers of the study, on the same draws: looks of the older rule are wrong more often than one test."""
    once, before, now = (
        share(way, 0.15, 40) for way in ("six launches, once", "raised until decided, before", "raised until decided")
    )
    assert now == once < before
    assert LEAST_TESTED == 6

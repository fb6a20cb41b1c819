"""Which launches of a block form a ratio: those of one host and one session, or of sessions soon after each other."""

from __future__ import annotations

import pytest

from suite.analysis.identity.verdicts import verdicts
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.analysis.statistics.fastest import find_best
from suite.analysis.statistics.ratios import blockwise
from suite.plan.cell import AUTO
from suite.record.record import Record
from suite.report.tables.frame import table
from tests import records
from tests.records import replace


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
    (found,) = group([Launch(each, "run-a", "a.json") for each in held])
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
        (found,) = group([Launch(each, "run-a", "a.json") for each in launches])
        best = find_best(
            found, verdicts({row.key: row.ok for row in found.rows}), lambda record: record.samples_per_s, more=True
        )
        assert len(best) == marked

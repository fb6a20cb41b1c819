"""The numbers behind the plots, from records whose answers are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from suite.analysis.rows.wording import NONE
from suite.plan.cell import AUTO, Loader
from suite.record.record import Record
from suite.report.plots.kinds.lines import batch as draw_batch
from suite.report.plots.kinds.lines import break_even
from suite.report.tables.curves import NEVER, batches, courses, memory_kind, pays, speed_ups, workers
from suite.report.tables.timed import view
from tests import records
from tests.drawn import said
from tests.records import only, timed


def searched(record: Record, batch: int, tries: Any) -> Record:
    """A launch of a cell whose batch was found by trying."""
    return replace(record, settings={"effective_batch": batch, "batch_search": tries})


# Speed-up


def test_a_speed_up_is_formed_within_blocks() -> None:
    base = [timed(step, launch=block) for block, step in enumerate((0.1, 0.2, 0.1))]
    bf16 = [timed(step, launch=block, precision="bf16") for block, step in enumerate((0.05, 0.08, 0.04))]
    ours, theirs = speed_ups(only([*base, *bf16]))
    assert (ours.row.cell.precision, ours.ratio.value, ours.ratio.blocks) == ("fp32", 1.0, 0)
    assert (theirs.row.cell.precision, theirs.ratio.blocks) == ("bf16", 3)
    assert (theirs.ratio.value, theirs.ratio.low, theirs.ratio.high) == pytest.approx((2.5, 2.0, 2.5))


def test_from_six_blocks_on_it_is_a_geometric_mean_with_an_interval() -> None:
    steps = (0.05, 0.025) * 3
    held = [each for block, step in enumerate(steps) for each in (
        timed(0.1, launch=block), timed(step, launch=block, loader=Loader("resident"))
    )]  # fmt: skip
    found = speed_ups(only(held))[1].ratio
    assert found.value == pytest.approx(8**0.5)
    assert found.low < 2.8 < found.high
    assert found.low * found.high == pytest.approx(8), "the interval is one of logarithms"


def test_the_base_has_the_batch_of_the_most_cells() -> None:
    cells = [{"batch": 32}, {"batch": 64}, {"batch": 64, "precision": "bf16"}]
    found = speed_ups(only([timed(0.1, **cell) for cell in cells]))
    assert [(each.row.cell.batch, each.ratio.blocks) for each in found] == [(32, 1), (64, 0), (64, 1)]
    assert found[0].ratio.value == pytest.approx(0.5), "the same step with half the samples"


def test_of_batches_with_as_many_cells_the_smallest_is_the_base() -> None:
    found = speed_ups(only([timed(0.1, batch=64), timed(0.1, batch=32)]))
    assert [each.row.cell.batch for each in found if not each.ratio.blocks] == [32]


def test_a_row_that_computed_something_else_or_ran_elsewhere_has_no_speed_up() -> None:
    held = [*records.launches(n=1), *records.launches(n=1, loader=Loader("naive"))]
    assert len(speed_ups(only(held))) == 6
    *others, last = held
    assert last.identity
    differs = replace(last, identity=replace(last.identity, weights="other"))
    elsewhere = replace(last, environment={"machine": {"cpu": "Another", "cores": 2}})
    for changed in (differs, elsewhere):
        assert [each.row.cell.framework for each in speed_ups(only([*others, changed]))] == [
            "pytorch",
            "tensorflow",
        ] * 2


def test_without_another_setting_there_is_no_speed_up() -> None:
    assert speed_ups(only(records.launches())) == []
    assert speed_ups(only(records.launches(precision="bf16"))) == []


# Batch size


def test_throughput_and_memory_by_batch_up_to_the_edge() -> None:
    held = [timed(0.1, launch=block, batch=size, memory={"rss_peak_bytes": size * 10**6 + block})
            for block in range(3) for size in (32, 64)]  # fmt: skip
    edge = records.failed(timed(0.1, batch=128), "out-of-memory")
    further = records.failed(timed(0.1, batch=256), "out-of-memory")
    (found,) = batches(only([*held, further, edge]))
    assert found.rates == {32: pytest.approx((320,) * 3), 64: pytest.approx((640,) * 3)}
    assert found.memory == {32: 32_000_002, 64: 64_000_002}, "the highest of all launches"
    assert found.edge == 128


def test_a_batch_that_was_found_stands_where_it_was_found() -> None:
    tries = [
        {"batch": 32, "status": "ok", "reason": "", "memory": {"rss_peak_bytes": 1000}},
        {"batch": 64, "status": "ok", "reason": "", "memory": {"rss_peak_bytes": 2000}},
        {"batch": 96, "status": "ok", "reason": "", "memory": {"rss_peak_bytes": 3000}},
        {"batch": 128, "status": "crashed", "reason": "", "memory": {}},
        {"batch": 96, "status": "out-of-memory", "reason": "", "memory": {}},
    ]
    held = searched(timed(0.1, batch=AUTO, memory={"rss_peak_bytes": 2500}), 64, tries)
    (found,) = batches(only([held]))
    assert found.rates == {64: pytest.approx((640,) * 3)}
    assert found.memory == {32: 1000, 64: 2500}, "a launch's own peak goes before that of a try"
    assert found.edge == 96, "it fitted for some steps, not for all"
    assert draw_batch(only([held])) is not None


def test_a_batch_that_was_asked_for_goes_before_the_same_one_that_was_found() -> None:
    asked = timed(0.1, batch=64)
    found_it = searched(timed(0.2, batch=AUTO), 64, [{"batch": 128, "status": "timeout"}])
    (found,) = batches(only([asked, found_it]))
    assert found.rates == {64: pytest.approx((640,) * 3)}
    assert found.edge == 128


@pytest.mark.parametrize("tries", [None, "none", [1], [{"batch": "x"}], [{"batch": -1, "status": "ok"}], [{}]])
def test_a_search_that_is_none_is_passed_over(tries: object) -> None:
    assert batches(only([searched(timed(0.1, batch=AUTO), 64, tries)])) == []


def test_cells_that_differ_in_more_than_the_batch_are_lines_of_their_own() -> None:
    held = [timed(0.1, batch=size, precision=name) for size in (32, 64) for name in ("fp32", "bf16")]
    assert [series.rows[0].cell.precision for series in batches(only(held))] == ["fp32", "bf16"]
    assert batches(only([timed(0.1, batch=32), timed(0.1, batch=64, accumulate=2)])) == []
    assert batches(only([timed(0.1), records.failed(timed(0.1, batch=64))])) == [], "a timeout says nothing of memory"


def test_memory_is_of_one_kind_for_all() -> None:
    both = {"allocator_peak_bytes": 10, "rss_peak_bytes": 20}
    held = [timed(0.1, batch=32, memory=both), timed(0.1, batch=64, memory=both)]
    assert memory_kind(only(held)) == "allocator_peak_bytes"
    held.append(timed(0.1, "jax", memory={"rss_peak_bytes": 30}))
    assert memory_kind(only(held)) == "rss_peak_bytes"
    assert batches(only(held))[0].memory == {32: 20, 64: 20}


# Workers


def test_throughput_by_workers_with_the_ceiling_of_the_steps() -> None:
    held = [
        timed(step, loader=Loader("workers", count), compute_s=0.05) for count, step in ((2, 0.1), (0, 0.2), (4, 0.08))
    ]
    (found,) = workers(only([*held, timed(0.1)]))
    assert found.rates == {x: pytest.approx((y,) * 3) for x, y in ((0, 160), (2, 320), (4, 400))}
    assert found.ceiling == pytest.approx(640)


def test_one_number_of_workers_is_no_line() -> None:
    assert workers(only([timed(0.1, loader=Loader("workers", 2)), timed(0.1, loader=Loader("naive"))])) == []
    apart = [Loader("workers", 2), Loader("workers", 4, prefetch=1)]
    assert workers(only([timed(0.1, loader=loader) for loader in apart])) == []


# Compile modes


def test_a_course_starts_with_the_first_step_and_crosses_where_compiling_has_paid() -> None:
    eager, compiled = timed(0.1, first_step_s=1.0), timed(0.08, first_step_s=5.0, compile="compile")
    ((usual, other),) = courses(only([compiled, eager]))
    assert (usual.row.cell.compile, usual.first_s, usual.step_s, usual.pays_after) == (
        "eager",
        1.0,
        pytest.approx(0.1),
        None,
    )
    assert (other.row.cell.compile, other.pays_after) == ("compile", pytest.approx(200))
    assert other.at(200) == pytest.approx(usual.at(200)) == pytest.approx(21)


def test_a_slower_mode_never_pays_and_one_with_a_shorter_start_pays_at_once() -> None:
    held = [
        timed(0.1, first_step_s=2.0),
        timed(0.2, first_step_s=1.0, compile="graph"),
        timed(0.05, first_step_s=1.0, compile="max"),
    ]
    (found,) = courses(only(held))
    assert {course.row.cell.compile: course.pays_after for course in found} == {
        "eager": None,
        "graph": None,
        "max": 0.0,
    }
    words = said(break_even(only(held)))
    for expected in ("eager (usual)", "graph: never pays off", "max: pays off at once"):
        assert expected in words


def test_modes_of_other_settings_or_frameworks_are_not_set_side_by_side() -> None:
    held = [timed(0.1), timed(0.1, batch=64, compile="compile"), *records.launches(["jax", "tensorflow"], n=1)]
    assert courses(only(held)) == []
    assert courses(only([timed(0.1, first_step_s=None), timed(0.1, compile="compile")])) == []


@pytest.mark.parametrize(("step_s", "words"), [
    ((0.05,) * 6, "20.0"), ((0.2,) * 6, NEVER), ((0.06, 0.13) * 3, "not decided"), ((0.1,) * 6, "equally fast"),
])  # fmt: skip
def test_compiling_pays_where_it_is_decidedly_faster(step_s: tuple[float, ...], words: str) -> None:
    held = [timed(0.1, launch=block, first_step_s=2.0) for block in range(6)]
    held += [timed(step, launch=block, first_step_s=3.0, compile="compile") for block, step in enumerate(step_s)]
    table = only(held)
    told = {row.cell.compile: pays(table, row) for row in table.group.rows}
    assert told == {"eager": "", "compile": words}
    shown = view(table).grid
    (column,) = ([row[shown.headers.index("pays after")] for row in each.rows] for each in [shown])
    assert column == [NONE, words]
    assert words == "20.0" or "never" in said(break_even(table)) or words in said(break_even(table))

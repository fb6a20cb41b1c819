"""Every figure that is shown is held against another one of the record: a change of any is noticed.

Each number of a record is made ten times as large and as small. Where that changes a figure of any table, the ledger
must notice it, or the schema refuse it. What no record here shows cannot be judged, so the test fails for it, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from suite.analysis.records.ledger import find_unaccounted, problems
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import Row, group
from suite.analysis.statistics.accuracy import compare_accuracies
from suite.analysis.statistics.scaling import exchange
from suite.analysis.statistics.serving import FIGURES
from suite.catalog.metrics import METRICS
from suite.catalog.setting import WHOLE
from suite.record.record import Record, RecordError
from suite.report.tables.cells import TimedCell
from suite.report.tables.columns import NUMBER
from suite.report.tables.frame import table
from suite.report.tables.inference import COLUMNS as INFERENCE
from suite.report.tables.launches import columns as launch_columns
from suite.report.tables.launches import launch_table
from tests import accounted, records

#: By how much a figure is off that must be noticed.
FACTOR = 10.0
#: Columns that follow from others of the same table, or that say what was planned and not what was measured.
DERIVED = {
    "break_even_steps": "compile_s and step_ms_median of two modes",
    "cost_per_epoch": "cost_per_million_samples and the samples of the data set",
    "cost_per_million_samples": "samples_per_s, energy_j_per_sample and the prices given",
    "datasheet_flops_utilisation": "samples_per_s, the work of a sample and a data sheet",
    "schema": "the version of the columns", "seed": "what was planned", "launch": "what was planned",
    "batch": "what was planned", "accumulate": "what was planned", "devices": "what was planned",
    "threads": "what was planned", "cores": "what was planned",
}  # fmt: skip
#: Figures that only one source knows, so that others bound them from one side, and why.
ONE_SIDED = {
    "activations_kept": "the framework alone counts what a pass keeps; no more than without checkpointing",
    "allreduce_of_peak": "no faster sum was timed", "of_peak": "likewise", "peak_bytes_per_s": "likewise",
    "fragmentation": "the allocator alone counts what it gave out; no more than it reserved",
    "memory_allocator_peak_bytes": "likewise", "peak_memory_bytes": "likewise, on a GPU",
    "infer_memory_bytes": "likewise",
    "words_per_s": "one source counts words; no more than there are places", "padding_share": "likewise",
    "programs": "the framework alone counts what it compiles; no less than inside the windows",
    "compiled_in_windows": "likewise; no more than all programs",
    "infer_latency_ms_worst": "one of a thousand requests hides in the time of all",
}  # fmt: skip
#: Parts of a record that say what was planned.
PLANNED = ("cell", "launch", "schema")

Figures = dict[str, float]


def of_launch(record: Record) -> Figures:
    """The columns of `launches.csv`."""
    return numbers({name: value for name, (value,) in launch_table([Launch(record, "study", "a.json")]).items()})


def of_cell(record: Record) -> Figures:
    """The columns of `cells.csv`, with those of several devices."""
    (cell,) = table(*group([Launch(record, "study", "a.json")])).cells
    names = [name for each in METRICS.values() for name in (each.name, *each.ends)]
    return numbers({name: cell.figure(name) for name in names} | cell.metrics) | numbers(vars(cell.devices))


def of_inference(record: Record) -> Figures:
    return {f"infer_{name}": value for name, read in FIGURES.items() if (value := read(record)) is not None}


def of_accuracy(record: Record) -> Figures:
    (made,) = group([Launch(record, "study", "a.json")])
    (row,) = compare_accuracies(made, "pytorch").frame.to_dict("records")
    return numbers(row)


def of_ranks(record: Record) -> Figures:
    (row,) = group([Launch(record, "study", "a.json")])[0].rows
    assert isinstance(row, Row)
    found = exchange(row)
    return numbers(vars(found) | {"of_peak": found.of_peak})


def numbers(values: dict[Any, Any]) -> Figures:
    known = {str(name): value for name, value in values.items() if isinstance(value, (int, float))}
    return {name: float(v) for name, v in known.items() if not isinstance(v, bool) and math.isfinite(v)}


CASES: dict[str, tuple[Callable[[], Record], tuple[Callable[[Record], Figures], ...]]] = {
    "timed": (accounted.timed, (of_launch, of_cell, of_inference)),
    "on a CPU": (lambda: accounted.timed("cpu"), (of_launch, of_cell)),
    "trained": (accounted.trained, (of_launch, of_accuracy)),
    "several devices": (accounted.united, (of_launch, of_cell, of_ranks)),
    "several lengths": (accounted.of_lengths, (of_launch, of_cell)),
}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all numbers in some JSON."""
    if isinstance(value, (dict, list, tuple)):
        for name, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*path, name))
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and value:
        yield path


def changed(value: Any, path: tuple[Any, ...], factor: float) -> Any:
    """The JSON with this number times a factor."""
    if not path:
        return max(1, round(value * factor)) if isinstance(value, int) else value * factor
    at, *rest = path
    if isinstance(value, dict):
        return {**value, at: changed(value[at], tuple(rest), factor)}
    return [changed(each, tuple(rest), factor) if number == at else each for number, each in enumerate(value)]


def is_noticed(record: Record, others: list[Record]) -> bool:
    return bool(problems(record) or find_unaccounted({"row": [record, *others]}))


@cache
def shown(case: str) -> tuple[Record, Figures]:
    make, tables = CASES[case]
    record = make()
    return record, {name: value for read in tables for name, value in read(record).items()}


@pytest.mark.parametrize("case", CASES)
def test_a_launch_that_has_all_figures_raises_no_alarm(case: str) -> None:
    record, _ = shown(case)
    assert problems(record) == []
    assert Record.from_json(record.to_json()) == record


@pytest.mark.parametrize("case", CASES)
def test_a_figure_that_is_off_is_noticed(case: str) -> None:
    record, before = shown(case)
    others = [replace(record, launch=number) for number in (1, 2)]
    data, unnoticed, noticed = record.to_json(), set(), set()
    for path in leaves({name: value for name, value in data.items() if name not in PLANNED}):
        for factor in (FACTOR, 1 / FACTOR):
            try:
                other = Record.from_json(changed(data, path, factor))
                seen = is_noticed(other, others)
            except RecordError:
                seen = True
            if seen:
                noticed.add(path)
                continue
            after = {name: value for read in CASES[case][1] for name, value in read(other).items()}
            moved = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
            unnoticed |= {(name, path, factor) for name in moved - DERIVED.keys()}
    assert {each for each in unnoticed if each[0] not in ONE_SIDED or each[1] not in noticed} == set()


def test_every_column_is_a_figure_of_a_launch_here() -> None:
    """So that a metric, or a column, which is new is judged by the test above."""
    there = {name for case in CASES for name in shown(case)[1]} | DERIVED.keys()
    assert METRICS.keys() <= there
    assert {f"infer_{each.name}" for each in INFERENCE} <= there
    assert {each.name for each in launch_columns() if each.form in (NUMBER, WHOLE)} <= there
    assert {"loader_efficiency", "peak_memory_bytes"} <= {*TimedCell.__annotations__}


def test_the_throughput_of_a_training_to_its_end_is_that_of_its_epochs() -> None:
    record = accounted.trained()
    assert problems(accounted.window(record, 1, 1.0)) == ["seconds of a window is 2, and 3 to 3 by the epoch"]


def test_made_launches_of_all_kinds_raise_no_alarm() -> None:
    for record in records.complete():
        assert problems(record) == []

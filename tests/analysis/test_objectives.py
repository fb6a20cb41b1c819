"""The figures of a launch that a search judges by."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from suite.analysis.search.state import figure_of, format_value, score, value, why_none
from suite.plan.objective import KINDS, Question, objectives
from tests.records import record, timed, trained

QUESTION = Question(price_hour=3.6)
LAUNCH = timed(0.1, batch=50, memory={"rss_peak_bytes": 10, "allocator_peak_bytes": 7})
JOULES = {"gpus": [{"energy_j_per_sample": 0.5}]}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("samples/s", 500.0),
        ("step-latency", 0.1),
        ("memory", 7.0),
        ("cost", 2.0),
        ("joules/sample", None),
        ("seconds-to-accuracy", None),
    ],
)
def test_a_quantity_is_that_of_the_record(name: str, expected: float | None) -> None:
    found = value(LAUNCH, name, QUESTION)
    assert found == (expected and pytest.approx(expected))


def test_energy_and_its_price_are_those_of_the_gpu() -> None:
    launch = replace(LAUNCH, metrics=JOULES)
    assert value(launch, "joules/sample", QUESTION) == 0.5
    assert value(launch, "cost", Question(price_kwh=0.36)) == pytest.approx(0.05)
    assert value(LAUNCH, "cost", Question(price_kwh=0.36)) is None


def test_energy_of_several_devices_is_their_sum_and_nothing_if_one_is_missing() -> None:
    cell = replace(LAUNCH.cell, devices=2)
    both = {"gpus": [{"energy_j_per_sample": 0.5}, {"energy_j_per_sample": 0.25}, {"energy_j_per_sample": 9.0}]}
    one = {"gpus": [{"energy_j_per_sample": 0.5}, {"energy_j_per_sample": None}]}
    assert value(replace(LAUNCH, cell=cell, metrics=both), "joules/sample", QUESTION) == 0.75
    assert value(replace(LAUNCH, cell=cell, metrics=one), "joules/sample", QUESTION) is None
    assert value(replace(LAUNCH, cell=cell, metrics=JOULES), "joules/sample", QUESTION) is None


def test_without_an_allocator_the_memory_is_that_of_the_process() -> None:
    assert value(record(memory={"rss_peak_bytes": 10}), "memory", QUESTION) == 10


def test_an_accuracy_is_reached_after_seconds_of_training_or_not_at_all() -> None:
    launch = trained()
    assert launch.course
    assert value(launch, "seconds-to-accuracy", QUESTION) == 5.0
    missed = replace(launch, course=replace(launch.course, target=0.9))
    assert value(missed, "seconds-to-accuracy", QUESTION) is None
    asked = Question(objectives("seconds-to-accuracy=.9"))
    assert why_none(missed, asked) == "did not reach 0.9 in 2 epochs (it ended at 0.600)"
    assert why_none(LAUNCH, Question(objectives("joules/sample"))) == "its launch measured no joules/sample"
    assert why_none(LAUNCH, QUESTION) == ""


@pytest.mark.parametrize("name", KINDS)
def test_more_of_a_score_is_better_and_gives_the_quantity_back(name: str) -> None:
    assert (score(2.0, name) > score(1.0, name)) == KINDS[name].more
    assert figure_of(score(3.0, name), name) == pytest.approx(3.0)
    assert math.isnan(score(None, name))


def test_quantities_are_shown_with_their_units() -> None:
    told = [
        format_value(1234.4, "samples/s"),
        format_value(0.0123, "step-latency"),
        format_value(3 * 2**30, "memory"),
        format_value(None, "cost"),
    ]
    assert told == ["1,234 samples/s", "12.3 ms", "3.00 GiB", "\u2013"]

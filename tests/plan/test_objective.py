"""Objectives, limits and budgets, as the command line writes them."""

from __future__ import annotations

import json

import pytest

from suite.plan.matrix import MatrixError
from suite.plan.objective import Budget, Question, budget, check, limit, needs_energy, objectives


@pytest.mark.parametrize(("text", "amount"), [
    ("30min", Budget(seconds=1800.0)), ("1.5h", Budget(seconds=5400.0)), ("90s", Budget(seconds=90.0)),
    ("90", Budget(seconds=90.0)), ("200launches", Budget(launches=200)), ("1 launch", Budget(launches=1)),
])  # fmt: skip
def test_a_budget_is_a_time_or_a_number_of_launches(text: str, amount: Budget) -> None:
    assert budget(text) == amount


@pytest.mark.parametrize(
    "text", ["", "0", "min", "-3min", "0s", "1.5launches", "0launches", "1e3s", "nan h", "9999999h"]
)
def test_other_budgets_are_refused(text: str) -> None:
    with pytest.raises(MatrixError, match="write a time or a number of launches, such as 30min"):
        budget(text)


def test_objectives_are_one_or_two_names() -> None:
    assert [str(each) for each in objectives("samples/s, memory")] == ["samples/s", "memory"]
    (accuracy,) = objectives("seconds-to-accuracy=.86")
    assert accuracy.target == 0.86
    assert str(accuracy) == "seconds-to-accuracy=0.86"
    assert len(objectives("memory,memory")) == 1


@pytest.mark.parametrize(
    "text", ["", "speed", "samples/s=3", "seconds-to-accuracy=2", "seconds-to-accuracy=nan", "a,b,c"]
)
def test_other_objectives_are_refused(text: str) -> None:
    with pytest.raises(MatrixError, match="--objective"):
        objectives(text)


@pytest.mark.parametrize(("text", "value"), [
    ("memory=8GiB", 8 * 2**30), ("memory=500MB", 5e8), ("step-latency=20ms", 0.02), ("step-latency=0.5", 0.5),
    ("samples/s=1000", 1000.0), ("joules/sample=30mJ", 0.03),
])  # fmt: skip
def test_a_limit_has_a_value_in_the_unit_of_its_quantity(text: str, value: float) -> None:
    assert limit(text).value == pytest.approx(value)
    assert str(limit(text)) == text


@pytest.mark.parametrize(
    "text", ["memory", "memory=8", "memory=-1GiB", "samples/s=fast", "samples/s=0", "speed=3", "=3"]
)
def test_other_limits_are_refused(text: str) -> None:
    with pytest.raises(MatrixError, match="--within"):
        limit(text)


def test_a_question_says_what_it_needs_and_is_json() -> None:
    question = Question(objectives("cost"), (limit("memory=1GiB"),), price_hour=2.0)
    check(question)
    assert question.names == ["cost", "memory"]
    assert not needs_energy(question)
    assert json.loads(json.dumps(question.to_json()))["within"] == ["memory=1GiB"]
    assert needs_energy(Question(objectives("cost"), price_kwh=0.3)) == "cost with --price-kwh"
    assert needs_energy(Question(limits=(limit("joules/sample=1J"),))) == "joules/sample"


def test_a_question_that_lacks_something_is_refused() -> None:
    for question, words in (
        (Question(objectives("cost")), "needs a price"),
        (Question(limits=(limit("seconds-to-accuracy=60"),)), "needs the accuracy"),
        (Question(objectives("seconds-to-accuracy=.8,joules/sample")), "search for one of the two"),
    ):
        with pytest.raises(MatrixError, match=words):
            check(question)

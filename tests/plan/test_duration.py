"""Lengths of time, as every option that takes one understands them."""

from __future__ import annotations

import argparse
import random

import pytest

from suite.plan.command import common
from suite.plan.command.common import duration
from suite.plan.objective import Budget, budget
from suite.tune.__main__ import main as tune

SECONDS = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2m", 120), ("90s", 90), ("1h", 3600), ("10min", 600), ("1.5h", 5400), ("0.02", 0.02), ("2 min", 120)],
)  # fmt: skip
def test_a_time_is_understood(text: str, seconds: float) -> None:
    assert duration(text) == seconds


def test_each_number_with_each_unit_is_that_many_seconds() -> None:
    draw = random.Random(7)
    for _ in range(300):
        number = round(draw.uniform(0, 10 ** draw.randint(0, 6)), draw.randint(0, 6))
        for unit, seconds in SECONDS.items():
            assert duration(f"{number:f}{unit}") == pytest.approx(number * seconds, rel=1e-6, abs=1e-5)
            assert duration(f"{int(number)}{unit}") == int(number) * seconds


@pytest.mark.parametrize(
    "text",
    ["", "min", "-1", "+1s", "1d", "1hour", "1h30", "1e3", "nan", "inf", "0x10", "1,5h", "1..5s", "1 0s", "\u0663s"],
)
def test_anything_else_is_refused_with_the_way_to_write_it(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=r"^'.*' is no time"):
        duration(text)


def test_a_budget_is_the_same_time() -> None:
    for text in ("2m", "90s", "1h", "10min", "1.5h", "600"):
        assert budget(text) == Budget(seconds=duration(text))


def test_every_option_of_a_time_takes_it() -> None:
    """Each that names seconds in its help or has a time as its value, of the commands that share options."""
    declared = [each for each in vars(common).values() if isinstance(each, common.Option)]
    times = [each for each in declared if each.others.get("metavar") == "TIME"]
    assert {each.flags[0] for each in times} == {"--min-window", "--max-time", "--wait-idle"}
    assert all(each.others["type"] is duration for each in times)
    assert not [each for each in declared if each.others.get("metavar") == "S"]
    assert tune.parser().parse_args(["--max-time", "2m"]).max_time == 120

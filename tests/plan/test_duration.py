"""Lengths of time, as every option that takes one understands them."""

from __future__ import annotations

import argparse

import pytest

from suite.plan.command.common import duration
from suite.plan.objective import Budget, budget


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2m", 120), ("90s", 90), ("1h", 3600), ("10min", 600), ("1.5h", 5400), ("0.02", 0.02), ("2 min", 120)],
)  # fmt: skip
def test_a_time_is_understood(text: str, seconds: float) -> None:
    assert duration(text) == seconds


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

"""What a profile says of a waiting device backs or refutes the bottleneck. The gaps are made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from suite.analysis.bottleneck import Bottleneck, bottleneck
from suite.analysis.groups import group
from suite.analysis.load import Launch
from suite.record.record import Record
from tests import records
from tests.profiles import profiled, with_gaps


def verdict(held: Sequence[Record]) -> Bottleneck:
    (one,) = group([Launch(each, "run-a", "a.json") for each in held])
    return bottleneck(one.rows[0], one)


def launches(batch: int, step_s: float, idle: float | None, n: int = 4) -> list[Record]:
    made = [
        records.timed(step_s, "pytorch", launch, batch=batch, compute_s=step_s, input_s=step_s / 100)
        for launch in range(n)
    ]
    return made if idle is None else [with_gaps(profiled(each), idle) for each in made]


@pytest.mark.parametrize(
    ("idle", "words"),
    [(0.6, "the profile agrees"), (0.02, "the profile does not"), (0.2, "by the profile")],
)
def test_gaps_back_or_refute_a_launch_bound_row(idle: float, words: str) -> None:
    found = verdict([*launches(32, 0.1, idle), *launches(64, 0.105, idle)])
    assert found.kind == "launch-bound"
    assert f"; {words}: the device had nothing to do for {idle:.0%} of the step, 20 µs between kernels" in found.detail


@pytest.mark.parametrize(("idle", "words"), [(0.6, "the profile does not"), (0.02, "the profile agrees")])
def test_gaps_back_or_refute_a_compute_bound_row(idle: float, words: str) -> None:
    found = verdict(launches(32, 0.1, idle))
    assert found.kind == "compute-bound"
    assert found.detail.startswith(f"{words}: ")


def test_one_launch_is_told_too() -> None:
    assert "one launch; by the profile: " in verdict(launches(32, 0.1, 0.5, n=1)).detail


def test_without_gaps_nothing_is_said() -> None:
    assert verdict(launches(32, 0.1, None)).detail == ""

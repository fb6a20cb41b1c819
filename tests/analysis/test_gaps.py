"""What a profile says of a waiting device backs or refutes the bottleneck. The gaps are made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from suite.analysis.bottlenecks.bottleneck import Bottleneck, bottleneck
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.record.parts.profile import Gaps
from suite.record.record import Record
from tests import records
from tests.profiles import profile, profiled, with_gaps


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


def test_the_share_is_that_of_the_timed_step_not_of_the_longer_profiled_one() -> None:
    held = [
        replace(each, profile=replace(each.profile, step_s=0.15)) for each in launches(32, 0.1, 0.33) if each.profile
    ]
    assert "the profile agrees: the device had nothing to do for 0% of the step" in verdict(held).detail


def test_kernels_keep_their_times_and_the_host_gets_the_rest_of_the_step() -> None:
    seconds = {"matrix product": 0.06, "element-wise": 0.02, "host and launch overhead": 0.05, "idle": 0.01}
    on_gpu = profile(seconds, timed_s=0.1, gaps=Gaps(0.4, 2e-5))
    shares = {name: each.seconds / on_gpu.slowdown_of(name) for name, each in on_gpu.categories.items()}
    assert shares == pytest.approx(
        {"matrix product": 0.06, "element-wise": 0.02, "host and launch overhead": 0.02 * 5 / 6, "idle": 0.02 / 6}
    )
    assert sum(shares.values()) == pytest.approx(on_gpu.timed_s)


@pytest.mark.parametrize("gaps", [None, Gaps(0.0, 0.0)])
def test_on_a_cpu_and_where_kernels_alone_take_longer_all_have_slowed_alike(gaps: Gaps | None) -> None:
    seconds = {"matrix product": 0.09, "element-wise": 0.03, "host and launch overhead": 0.0}
    made = profile(seconds, timed_s=0.1, gaps=gaps)
    assert [made.slowdown_of(name) for name in seconds] == pytest.approx([1.2] * 3)


def test_without_gaps_nothing_is_said() -> None:
    assert verdict(launches(32, 0.1, None)).detail == ""

"""Windows on a fake clock: what a step takes is told in advance, and nothing waits."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from suite.plan.measuring import Plan
from suite.record.record import Phase, Window
from suite.worker.launch.measure import measure

PLAN = Plan(min_window_s=1.0, windows=10, max_warmup_s=20.0)


class Machine:
    """Steps that take what ``step_s`` says of the number of the step, and the clock that sees them pass."""

    def __init__(self, step_s: Callable[[int], float]) -> None:
        self.step_s = step_s
        self.done = 0
        self.now_s = 5.0
        self.seen: list[str] = []

    def clock(self) -> int:
        self.seen.append("clock")
        return round(self.now_s * 1e9)

    def steps(self, number: int) -> None:
        self.seen.append("steps")
        for _ in range(number):
            self.now_s += self.step_s(self.done)
            self.done += 1

    def say(self, window: Window) -> None:
        self.seen.append("say")

    def measure(self, plan: Plan = PLAN) -> Phase:
        return measure(self.steps, plan, self.say, self.clock)


@pytest.mark.parametrize("step_s", [1e-5, 0.003, 0.2, 0.999, 7.0])
def test_windows_are_long_enough_alike_and_as_many_as_planned(step_s: float) -> None:
    phase = Machine(lambda _: step_s).measure()
    assert len(phase.windows) == PLAN.windows
    assert len({window.steps for window in phase.windows}) == 1
    assert all(window.seconds >= PLAN.min_window_s for window in phase.windows)
    assert phase.windows[0].seconds <= max(1.3 * PLAN.min_window_s, 2 * step_s)
    assert phase.steady
    assert phase.step_s == pytest.approx(step_s)
    assert phase.step_times_s == pytest.approx([step_s] * PLAN.windows)


def test_nothing_but_the_steps_happens_between_the_two_readings_of_the_clock() -> None:
    machine = Machine(lambda _: 0.1)
    phase = machine.measure()
    window = ["clock", "steps", "clock", "say"]
    assert machine.seen == window * (len(phase.warmup) + len(phase.windows))


def test_steps_of_all_windows_are_all_the_steps_there_were() -> None:
    machine = Machine(lambda _: 0.03)
    phase = machine.measure()
    assert sum(window.steps for window in (*phase.warmup, *phase.windows)) == machine.done


def test_warm_up_ends_when_two_windows_agree() -> None:
    phase = Machine(lambda step: 0.1 if step > 30 else 0.4 - step / 100).measure()
    assert phase.steady
    *_, before, last = phase.warmup
    assert before.steps == last.steps
    assert abs(before.seconds - last.seconds) <= 0.05 * last.seconds
    assert all(window.seconds == pytest.approx(window.steps * 0.1) for window in phase.windows)


def test_warm_up_ends_at_its_limit_and_the_phase_is_unsteady() -> None:
    plan = Plan(min_window_s=1.0, windows=12, max_warmup_s=20.0)
    phase = Machine(lambda step: 2.0 if step % 2 else 3.0).measure(plan)
    spent = sum(window.seconds for window in phase.warmup[1:])
    assert plan.max_warmup_s <= spent < plan.max_warmup_s + 3.0
    assert len(phase.windows) == plan.windows
    assert not phase.steady, "the halves of the windows agree, but what came before never did"


def test_a_stall_as_the_warm_up_ends_makes_no_short_windows() -> None:
    """Another program had the processor for 1.2 s in the last window that the limit allows."""
    phase = Machine(lambda step: 1.21 if step == 5 else 0.01).measure(Plan(1.0, 10, max_warmup_s=1.0))
    assert not phase.steady
    assert all(window.seconds == pytest.approx(1.0) for window in phase.windows)
    assert {window.steps for window in phase.windows} == {phase.warmup[-1].steps}


def test_windows_that_drift_are_unsteady_although_the_warm_up_was_not() -> None:
    start = Machine(lambda _: 0.5).measure()
    warm = sum(window.steps for window in start.warmup)
    phase = Machine(lambda step: 0.5 if step < warm else 0.5 * 1.02 ** (step - warm)).measure()
    assert phase.warmup == start.warmup
    assert not phase.steady


@pytest.mark.parametrize("first_s", [1.5, 300.0])
def test_a_slow_first_step_neither_sets_the_length_of_a_window_nor_uses_up_the_warm_up(first_s: float) -> None:
    phase = Machine(lambda step: first_s if step == 0 else 0.01).measure()
    assert all(window.seconds >= PLAN.min_window_s for window in phase.windows)
    assert phase.steady


def test_steps_that_become_faster_while_warming_up_get_longer_windows() -> None:
    phase = Machine(lambda step: 0.5 if step < 4 else 0.05).measure()
    assert all(window.seconds >= PLAN.min_window_s for window in phase.windows)


def test_a_clock_that_does_not_move_gives_a_time_that_can_be_divided_by() -> None:
    machine = Machine(lambda _: 0.0)
    phase = machine.measure(Plan(min_window_s=1e-9, windows=2, max_warmup_s=1e-9))
    assert all(window.seconds > 0 for window in phase.windows)


def test_windows_grow_by_at_most_ten_times() -> None:
    warmup = Machine(lambda _: 1e-6).measure().warmup
    assert all(before.steps <= after.steps <= 10 * before.steps for before, after in pairwise(warmup))


def test_an_error_in_a_step_comes_through() -> None:
    def steps(number: int) -> None:
        raise FloatingPointError("loss")

    with pytest.raises(FloatingPointError, match="loss"):
        measure(steps, PLAN)


def test_a_plan_survives_json() -> None:
    assert Plan(**PLAN.to_json()) == PLAN

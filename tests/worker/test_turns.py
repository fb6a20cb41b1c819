"""The phases of a launch in their order, on a simulated machine: a loader fills its queue in the background."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from suite.plan.measuring import PHASES, Plan
from suite.record.record import Phase
from suite.worker.frameworks import RecompiledError
from suite.worker.launch import phases
from suite.worker.launch.description import DivergedError
from suite.worker.launch.measure import Series, in_order

PLAN = Plan(min_window_s=1.0, windows=10, max_warmup_s=20.0)


class Machine:
    """A clock, a step, and a loader that makes batches while the clock runs, as long as its queue has room.

    ``drift`` slows all of it by that share in a hundred seconds. A queue that tunes itself doubles its length whenever
    it was full and is found empty, as tf.data's does.
    """

    def __init__(
        self, step_s: float, batch_s: float, *, room: int = 0, tunes: bool = False, drift: float = 0.0
    ) -> None:
        self.step_s, self.batch_s, self.room, self.tunes, self.drift = step_s, batch_s, room, tunes, drift
        self.now_s, self.ready, self.full = 5.0, 0.0, False
        self.log: list[str] = []

    def clock(self) -> int:
        return round(self.now_s * 1e9)

    def pass_time(self, seconds: float, loads: bool = True) -> None:
        self.now_s += seconds * (1 + self.drift * self.now_s / 100)
        if loads and self.room:
            self.ready = min(self.room, self.ready + seconds / self.batch_s)
            self.full |= self.ready >= self.room

    def batch(self) -> None:
        if self.ready < 1:
            self.pass_time((1 - self.ready) * self.batch_s, loads=False)
            self.ready = 1.0
            if self.tunes and self.full:
                self.room, self.full = 2 * self.room, False
        self.ready -= 1

    def series(self, name: str, plan: Plan = PLAN) -> Series:
        def steps(count: int) -> None:
            self.log.append(name)
            for _ in range(count):
                if name != "compute":
                    self.batch()
                if name != "input":
                    self.pass_time(self.step_s)

        return Series(steps, plan, clock=self.clock)

    def measure(self, plan: Plan = PLAN, names: Sequence[str] = PHASES) -> dict[str, Phase]:
        every = {name: self.series(name, plan) for name in names}
        turns = [every[name] for name in names if name in ("compute", "local")]
        for _ in in_order(every["train"], turns, [every[name] for name in names if name == "input"], plan):
            pass
        return {name: each.phase() for name, each in every.items()}


@pytest.mark.parametrize("room", [0, 4, 32])
@pytest.mark.parametrize(("batch_s", "train_s"), [(0.3, 0.3), (0.12, 0.12), (0.05, 0.1), (0.001, 0.1)])
def test_no_train_window_is_fed_by_what_was_loaded_while_the_steps_ran_alone(
    batch_s: float, train_s: float, room: int
) -> None:
    """A loader that is slower than the steps sets the pace of training, however long its queue is."""
    found = Machine(0.1, batch_s, room=room).measure()
    assert found["train"].step_s == pytest.approx(train_s if room else 0.1 + batch_s, rel=0.03)
    assert found["compute"].step_s == pytest.approx(0.1)
    assert found["input"].step_s == pytest.approx(batch_s, rel=0.05)


@pytest.mark.parametrize(("batch_s", "train_s"), [(0.3, 0.3), (0.05, 0.1), (0.001, 0.1)])
def test_a_queue_that_tunes_its_own_length_is_drained_and_not_made_to_grow(batch_s: float, train_s: float) -> None:
    machine = Machine(0.1, batch_s, room=4, tunes=True)
    found = machine.measure()
    assert found["train"].step_s == pytest.approx(train_s, rel=0.03)
    assert machine.room <= 64


def test_training_is_measured_alike_with_and_without_other_phases() -> None:
    whole, lean = Machine(0.1, 0.05, room=4).measure(), Machine(0.1, 0.05, room=4).measure(names=["train"])
    assert whole["train"] == lean["train"]


def test_steps_with_and_without_communication_take_turns() -> None:
    """A machine that drifts slows both alike."""
    found = Machine(0.1, 0.001, drift=0.2).measure(names=["train", "compute", "local", "input"])
    assert found["local"].step_s / found["compute"].step_s == pytest.approx(0.101 / 0.1, abs=0.01)
    assert len(found["compute"].spans) == len(found["local"].spans) == 4


def test_every_window_that_was_planned_is_taken_and_its_turn_is_told() -> None:
    for windows in (1, 2, 5, 6, 10):
        found = Machine(0.1, 0.01).measure(plan=Plan(1.0, windows, 20.0))
        assert [len(phase.windows) for phase in found.values()] == [windows] * 3
        spans = sorted((*span, name) for name, phase in found.items() for span in phase.spans)
        assert all(end <= begin + 1e-6 for (_, end, _), (begin, _, _) in pairwise(spans))
        for phase in found.values():
            assert sum(end - begin for begin, end in phase.spans) == pytest.approx(
                sum(window.seconds for window in phase.windows)
            )


class Loader:
    """Batches without end, which are numbers."""

    def __init__(self, ahead: object = 0) -> None:
        self.settings, self.delivered = {"prefetch": ahead}, 0

    def __next__(self) -> int:
        self.delivered += 1
        return self.delivered


def told(loss: Callable[[int], float], compiled: Callable[[], int] = lambda: 0) -> list[dict[str, Any]]:
    """What is sent while the phases of a stand-in are measured, whose loss is a function of the batch."""
    training = SimpleNamespace(step=loss, fence=lambda _: None, count_compiled=compiled, read=list)
    sent: list[dict[str, Any]] = []
    plan = Plan(min_window_s=1e-4, windows=4, max_warmup_s=0.01)
    begin_ns = time.perf_counter_ns()
    tools = SimpleNamespace(updates=lambda _: None)
    phases.measure_phases(
        training, Loader(), plan, batch=2, send=lambda **message: sent.append(message), spawned_ns=begin_ns, tools=tools
    )
    return sent


def test_what_is_known_is_sent_after_each_burst() -> None:
    sent = told(float)
    parts = [message["part"]["phases"] for message in sent if "phases" in message.get("part", {})]
    assert [sorted(part) for part in parts[:3]] == [["train"], ["compute", "train"], ["compute", "input", "train"]]
    assert {name: len(phase["windows"]) for name, phase in parts[-1].items()} == {"train": 4, "compute": 4, "input": 4}
    assert all(0 <= begin < end < 60 for phase in parts[-1].values() for begin, end in phase["spans"])
    assert {message["progress"] for message in sent if "progress" in message} == {"train", "compute", "input"}


def test_a_loss_that_is_not_finite_ends_the_launch() -> None:
    with pytest.raises(DivergedError, match="in the train phase"):
        told(lambda batch: math.inf if batch > phases.HELD_BATCHES else 1.0)


def test_a_framework_that_compiles_inside_a_window_ends_the_launch() -> None:
    count = itertools.count()
    with pytest.raises(RecompiledError, match="compiled inside the windows: 0 before them"):
        told(float, lambda: next(count))

"""Faults of measurement, each as a change of the code that measures, of the machine, or of the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import cycle
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest

from suite.record.record import Record, Window
from suite.worker.launch import measure, phases
from suite.worker.loaders import CountingLoader
from tests.studies.measuring.simulated import STEP_S, Fault, Machine


def wrapped(owner: Any, name: str, make: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch, Machine], None]:
    """A plant that replaces a function of the code that measures by what ``make`` makes of it."""
    return lambda patch, _: patch.setattr(owner, name, make(getattr(owner, name)))


def of_train(change: Callable[[Any, int], None]) -> Callable[[pytest.MonkeyPatch, Machine], None]:
    """A plant that takes the steps of training in another way: the loader and the count of a window."""
    return of_steps(change, lambda batches: isinstance(batches, CountingLoader))


def of_compute(change: Callable[[Any, int], None]) -> Callable[[pytest.MonkeyPatch, Machine], None]:
    """The same for the steps alone."""
    return of_steps(change, lambda batches: isinstance(batches, cycle))


def of_steps(change: Any, concerned: Callable[[Any], bool]) -> Callable[[pytest.MonkeyPatch, Machine], None]:
    def make(original: Any) -> Any:
        def steps_of(batches: Any, training: Any, last: list[Any]) -> Any:
            steps = original(batches, training, last)

            def changed(count: int) -> None:
                last[:] = [1.0]
                change(SimpleNamespace(batches=batches, training=training, steps=steps), count)
                training.fence()

            return changed if concerned(batches) else steps

        return steps_of

    return wrapped(phases, "training_steps", make)


def of_windows(change: Callable[[list[Window]], list[Window]]) -> Callable[[Record], Record]:
    """Other windows of each phase in the record."""

    def after(record: Record) -> Record:
        changed = {
            name: replace(phase, windows=tuple(change(list(phase.windows)))) for name, phase in record.phases.items()
        }
        return replace(record, phases=changed)

    return after


def faster(factor: float, keeps: Callable[[int], bool] = lambda _: True) -> Callable[[list[Window]], list[Window]]:
    """The windows with their seconds times this factor."""
    return lambda windows: [
        Window(steps, seconds * factor if keeps(at) else seconds) for at, (steps, seconds) in enumerate(windows)
    ]


def profile_at(factor: float) -> Callable[[Record], Record]:
    def after(record: Record) -> Record:
        assert record.profile
        return replace(record, profile=replace(record.profile, step_s=factor * record.profile.timed_s))

    return after


def best_of(count: int) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        return lambda self, steps: min(
            (original(self, steps) for _ in range(count)), key=lambda taken: taken[0].seconds
        )

    return make


def retried(original: Any) -> Any:
    """Windows that are slower than the one before are measured again."""

    def window(self: Any, steps: int) -> Any:
        taken = original(self, steps)
        slow = self.warmup and taken[0].steps == self.last.steps and taken[0].seconds > self.last.seconds
        return original(self, steps) if slow else taken

    return window


def warmup_counted(original: Any) -> Any:
    def phase(self: Any) -> Any:
        made = original(self)
        return replace(made, windows=made.warmup + made.windows, warmup=())

    return phase


def warmup_for_slowest(original: Any) -> Any:
    def phase(self: Any) -> Any:
        made = original(self)
        return replace(made, windows=(*sorted(made.windows, key=lambda each: each.seconds)[:-3], *made.warmup[-3:]))

    return phase


def nothing(now: Any, count: int) -> None:
    """Steps that take the time of an empty loop."""
    now.training.now_s += 1e-7 * count


def reads(share: int) -> Callable[[Any], Any]:
    """An input phase that reads one of so many batches; of none, 0."""

    def make(original: Any) -> Any:
        def steps_of(batches: Any, training: Any) -> Any:
            def steps(count: int) -> None:
                if share:
                    original(batches, training)(-(-count // share))
                else:
                    nothing(SimpleNamespace(training=training), count)

            return steps

        return steps_of

    return make


def one_batch(now: Any, count: int) -> None:
    for _ in range(count):
        now.training.step(0)


def every_other_batch(now: Any, count: int) -> None:
    for at in range(count):
        now.training.step(0 if at % 2 else next(now.batches))


def no_update(now: Any, count: int, every: int = 2, cost: float = 0.0) -> None:
    """A step in so many takes its batch and makes no update; the share of a step's time that it takes all the same."""
    for at in range(count):
        batch = next(now.batches)
        if at % every:
            now.training.step(batch)
        else:
            now.training.work(cost * STEP_S)


def forward_only(now: Any, count: int) -> None:
    for _ in range(count):
        now.training.work(STEP_S / 3)


def small_batch(now: Any, count: int) -> None:
    """Steps of half a batch, all counted."""
    for _ in range(count):
        next(now.batches)
        now.training.updated += 1
        now.training.work(STEP_S / 2)


def hidden(original: Any) -> Any:
    """Steps that no figure counts, before each burst."""

    def burst(self: Any, windows: int) -> None:
        self.steps(3)
        original(self, windows)

    return burst


def overstated(original: Any) -> Any:
    def window(self: Any, steps: int) -> Any:
        taken, *rest = original(self, steps)
        return taken._replace(steps=steps + steps // 10), *rest

    return window


def no_fence(patch: pytest.MonkeyPatch, machine: Machine) -> None:
    patch.setattr(machine, "fence", lambda _=None: None)


def half_a_fence(patch: pytest.MonkeyPatch, machine: Machine) -> None:
    def fence(pending: Any = None) -> None:
        del pending
        machine.now_s += max(0.0, machine.free_s - machine.now_s) / 2

    patch.setattr(machine, "fence", fence)


def slow_clock(patch: pytest.MonkeyPatch, machine: Machine) -> None:
    patch.setattr(machine, "speed", 0.5)


def compiles(patch: pytest.MonkeyPatch, machine: Machine) -> None:
    def step(batch: int, original: Any = machine.step) -> float:
        machine.programs += machine.updated == 60
        return original(batch)

    patch.setattr(machine, "step", step)


def late_start(patch: pytest.MonkeyPatch, machine: Machine) -> None:
    """The clock is read for the first time after the first quarter of a window."""

    def make(original: Any) -> Any:
        def window(self: Any, steps: int) -> Any:
            taken, *rest = original(self, steps)
            return taken._replace(seconds=0.75 * taken.seconds), *rest

        return window

    wrapped(measure.Series, "_window", make)(patch, machine)


def claimed(factor: int) -> Callable[[Record], Record]:
    return lambda record: replace(record, cell=record.cell.but(batch=factor * record.cell.batch))


def slowest_as_median(windows: list[Window]) -> list[Window]:
    slowest = max(windows, key=lambda each: each.seconds)
    middle = median(each.seconds for each in windows)
    return [each._replace(seconds=middle) if each is slowest else each for each in windows]


def without_slowest(windows: list[Window]) -> list[Window]:
    return sorted(windows, key=lambda each: each.seconds)[:-2]


WINDOW, BURST, PHASE = (measure.Series, "_window"), (measure.Series, "burst"), (measure.Series, "phase")

FAULTS = (
    Fault("a fence that does not wait", no_fence),
    Fault("a fence that waits for half of the time", half_a_fence),
    Fault("the clock runs at half its speed", slow_clock),
    Fault("the clock is read late, after a quarter of a window", late_start),
    Fault("the best of three windows is reported", wrapped(*WINDOW, best_of(3))),
    Fault("the better of two windows is reported", wrapped(*WINDOW, best_of(2))),
    Fault("slow windows are measured again", wrapped(*WINDOW, retried)),
    Fault("warm-up is counted as windows", wrapped(*PHASE, warmup_counted)),
    Fault("warm-up stands for the slowest windows", wrapped(*PHASE, warmup_for_slowest)),
    Fault("the two slowest windows are dropped", after=of_windows(without_slowest)),
    Fault("one window is dropped", after=of_windows(lambda windows: windows[1:])),
    Fault("windows' seconds times 0.3", after=of_windows(faster(0.3))),
    Fault("windows' seconds times 0.8", after=of_windows(faster(0.8))),
    Fault("every other window's seconds times 0.8", after=of_windows(faster(0.8, lambda at: at % 2 == 0))),
    Fault(
        "the slowest window is reported as the median one", after=of_windows(slowest_as_median),
        survives="where windows scatter by 3 % it changes a step by 0.2 %, and they fill their bursts to 0.95",
    ),
    Fault("windows have a tenth more steps than they took", wrapped(*WINDOW, overstated)),
    Fault("steps that no figure counts, before each burst", wrapped(*BURST, hidden)),
    Fault("half of the steps of a training window", of_train(lambda now, count: now.steps(-(-count // 2)))),
    Fault("half of the steps of a compute window", of_compute(lambda now, count: now.steps(-(-count // 2)))),
    Fault("every other step is skipped", of_train(no_update)),
    Fault("every other step makes no update, and takes its time", of_train(partial(no_update, cost=1.0))),
    Fault("every tenth step makes no update", of_train(partial(no_update, every=10, cost=1.0))),
    Fault("one batch again and again, without the loader", of_train(one_batch)),
    Fault("every batch twice", of_train(every_other_batch)),
    Fault("half a batch in each training step", of_train(small_batch)),
    Fault("an input phase that reads nothing", wrapped(phases, "loading_steps", reads(0))),
    Fault("an input phase that reads every other batch", wrapped(phases, "loading_steps", reads(2))),
    Fault("a compute phase that does not compute", of_compute(nothing)),
    Fault("a compute phase that computes the forward pass alone", of_compute(forward_only)),
    Fault("a program is compiled in a window", compiles),
    Fault("a batch three times as large is claimed", after=claimed(3)),
    Fault("a profiled step five times as long as a timed one", after=profile_at(5.0)),
    Fault("a profiled step a fifth as long as a timed one", after=profile_at(0.2)),
)  # fmt: skip

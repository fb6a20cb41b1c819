"""The three phases of a cell, over the object that is timed: training, its steps alone, and its loader alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import cycle
from typing import Any

from suite.plan.measuring import Plan
from suite.record.record import Phase, Window
from suite.worker.measure import Say, Series, Steps, take_turns
from suite.worker.outcome import RecompiledError, check

HELD_BATCHES = 4  # batches that the compute phase keeps on the device and takes in turn

Send = Callable[..., None]


def measure_phases(training: Any, loader: Any, plan: Plan, *, batch: int, send: Send, spawned_ns: int) -> Phase:
    """Measure the phases, and send the results so far after each burst of windows; returns the `train` phase.

    ``batch`` is how many samples a step sees; spans are in seconds since ``spawned_ns``. Raises `RecompiledError` if
    a window had to compile, and `DivergedError` for a loss that is not finite.
    """
    compute_batches = [next(loader) for _ in range(HELD_BATCHES)]
    compiled = training.compiled()

    def series(name: str, steps: Steps, losses: list[Any]) -> Series:
        return Series(steps, plan, _say(name, losses, training, batch, send))

    losses: dict[str, list[Any]] = {"train": [], "compute": []}
    train = series("train", training_steps(loader, training, losses["train"]), losses["train"])
    compute = series("compute", training_steps(cycle(compute_batches), training, losses["compute"]), losses["compute"])
    loading = series("input", loading_steps(loader, training), [])
    for _ in take_turns(train, compute, loading, plan, prefetch(loader)):
        phases = {"train": train, "compute": compute, "input": loading}
        measured = {name: since(each.phase(), spawned_ns) for name, each in phases.items() if each.windows}
        send(part={"phases": {name: asdict(phase) for name, phase in measured.items()}})
    if training.compiled() != compiled:
        raise RecompiledError(f"compiled inside the windows: {compiled} before them, {training.compiled()} after")
    return train.phase()


def training_steps(batches: Any, training: Any, last: list[Any]) -> Steps:
    """Training steps that leave the last loss in ``last``, to be read after the window."""

    def steps(count: int) -> None:
        losses = [training.step(next(batches)) for _ in range(count)]
        training.fence(losses[-1])
        last[:] = losses[-1:]

    return steps


def loading_steps(batches: Any, training: Any) -> Steps:
    """Steps that only bring batches to the device."""

    def steps(count: int) -> None:
        for _ in range(count):
            batch = next(batches)
        training.fence(batch)

    return steps


def since(phase: Phase, spawned_ns: int) -> Phase:
    """The phase with its spans in seconds since ``spawned_ns``."""
    start_s = spawned_ns / 1e9
    return replace(
        phase, spans=tuple((round(begin - start_s, 6), round(end - start_s, 6)) for begin, end in phase.spans)
    )


def _say(name: str, losses: list[Any], training: Any, batch: int, send: Send) -> Say:
    def say(window: Window) -> None:
        check(losses, training, f"the {name} phase")
        send(progress=name, samples_per_s=batch * window.steps / window.seconds)

    return say


def prefetch(loader: Any) -> int | None:
    """How many batches a loader prefetches, or None if it tunes that itself."""
    ahead = loader.settings.get("prefetch")
    return ahead if isinstance(ahead, int) else None

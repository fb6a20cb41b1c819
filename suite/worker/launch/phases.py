"""The phases of a cell, over the object that is timed: training, its steps alone, and its loader alone.

With several devices there is a fourth: the same steps without communication, on a model that is this process's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

from suite.plan.measuring import Plan
from suite.record.parts.history import Ledger
from suite.record.record import Phase, Window
from suite.worker.distributed.ranks import ALONE, Ranks
from suite.worker.frameworks import RecompiledError
from suite.worker.launch.measure import Say, Series, Steps, take_turns
from suite.worker.launch.outcome import check

HELD_BATCHES = 4  # batches that the compute phase keeps on the device and takes in turn

Send = Callable[..., None]


class Measured(NamedTuple):
    """The `train` phase, and by the name of each phase this rank's own seconds of a step, one for each window."""

    train: Phase
    own_step_s: dict[str, list[float]]


def measure_phases(
    training: Any, loader: Any, plan: Plan, *, batch: int, send: Send, spawned_ns: int, tools: Any,
    ranks: Ranks = ALONE, local: Any = None,
) -> Measured:  # fmt: skip
    """Measure the phases, and send the results so far after each burst of windows, and what was counted at the end.

    ``batch`` is how many samples a step sees, on all devices together; spans are in seconds since ``spawned_ns``.
    ``local`` is a compiled training without communication; ``tools`` know how many steps an optimizer has counted
    itself. Raises `RecompiledError` if a window had to compile, and `DivergedError` for a loss that is not finite.
    """
    plan = fit_plan(plan, training)
    compute_batches = [next(loader) for _ in range(HELD_BATCHES)]
    compiled, delivered, updated = training.compiled(), loader.delivered, tools.updates(training)

    def series(name: str, steps: Steps, losses: list[Any], object_: Any = training, **more: Any) -> Series:
        begin = partial(send, begin=name)
        return Series(steps, plan, _say(name, losses, object_, batch, send), ranks=ranks, begin=begin, **more)

    losses: dict[str, list[Any]] = {"train": [], "compute": [], "local": []}
    train = series("train", training_steps(loader, training, losses["train"]), losses["train"])
    compute = series("compute", training_steps(cycle(compute_batches), training, losses["compute"]), losses["compute"])
    phases = {"train": train, "compute": compute, "input": series("input", loading_steps(loader, training), [])}
    if local:
        own_batches = [local.put(training.get(held)) for held in compute_batches]
        steps = training_steps(cycle(own_batches), local, losses["local"])
        phases["local"] = series("local", steps, losses["local"], local)
    for _ in take_turns(train, compute, phases["input"], plan, prefetch(loader), local=phases.get("local")):
        measured = {name: shift_spans(each.phase(), spawned_ns) for name, each in phases.items() if each.windows}
        send(part={"phases": {name: asdict(phase) for name, phase in measured.items()}})
    if training.compiled() != compiled:
        raise RecompiledError(f"compiled inside the windows: {compiled} before them, {training.compiled()} after")
    now = tools.updates(training)
    ledger = Ledger(
        loader.delivered - delivered,
        None if now is None else now - (updated or 0),
        {name: each.untimed_steps for name, each in phases.items()},
    )
    send(part={"ledger": asdict(ledger)})
    return Measured(train.phase(), {name: each.own_step_s for name, each in phases.items()})


def fit_plan(plan: Plan, training: Any) -> Plan:
    """The plan with windows, and the time to warm up, that the interface of a training needs."""
    least_s = max(plan.min_window_s, getattr(training, "least_window_s", 0.0))
    return (
        plan
        if least_s == plan.min_window_s
        else replace(plan, min_window_s=least_s, max_warmup_s=max(plan.max_warmup_s, 3 * least_s))
    )


def training_steps(batches: Any, training: Any, last: list[Any]) -> Steps:
    """Training steps that leave the last loss in ``last``, to be read after the window."""

    def steps(count: int) -> None:
        if run := getattr(training, "run", None):  # an interface that has a loop of its own
            losses = [run(batches, count)]
        else:
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


def shift_spans(phase: Phase, spawned_ns: int) -> Phase:
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

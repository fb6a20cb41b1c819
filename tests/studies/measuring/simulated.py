"""A launch of a simulated machine, whose parent listens by the same simulated clock, with a fault or without one."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from suite.analysis.records.ledger import find_unaccounted
from suite.plan.measuring import Plan
from suite.record.record import SCHEMA, Record
from suite.session.launches.listener import Listener
from suite.worker.launch import measure, phases
from suite.worker.loaders import CountingLoader
from tests import records
from tests.profiles import profiled

PLAN = Plan()
#: Seconds of a step and of a batch, the share by which windows scatter, and of the peak that a step reaches.
STEP_S, BATCH_S, SCATTER, OF_PEAK = 0.02, 0.002, 0.03, 0.94


class Machine:
    """A host that queues steps, a device that takes them one after the other, and a loader without a queue."""

    settings = {"prefetch": 0, "workers": 0}  # noqa: RUF012 - never changed

    def __init__(self, seed: int) -> None:
        self.now_s, self.free_s, self.updated, self.draw = 100.0, 0.0, 1, random.Random(seed)
        self.programs, self.speed, self.trains = 1, 1.0, False

    def clock(self) -> int:
        return round(self.now_s * self.speed * 1e9)

    def __next__(self) -> int:
        self.now_s += BATCH_S
        return 0

    def step(self, batch: int) -> float:
        """Queue a step, which the device takes when it is free."""
        del batch
        self.updated += 1
        self.work(STEP_S)
        return 1.0

    def work(self, seconds: float) -> None:
        self.now_s += 1e-5
        self.free_s = max(self.now_s, self.free_s) + seconds * (1 + SCATTER * self.draw.random())

    def fence(self, pending: Any = None) -> None:
        del pending
        self.now_s = max(self.now_s, self.free_s)

    def read(self, losses: list[float]) -> list[float]:
        """Wait for the device, whatever the fence does."""
        Machine.fence(self)
        return list(losses)

    def count_compiled(self) -> int:
        return self.programs

    def updates(self, training: Any) -> int:
        del training
        return self.updated

    def close(self) -> None:
        """As a loader has it."""


@dataclass(frozen=True)
class Fault:
    """``plant`` changes the machine, or by the patch the code that measures; ``after`` changes the record.

    ``survives`` says why the ledger does not notice it, where that is so.
    """

    name: str
    plant: Callable[[pytest.MonkeyPatch, Machine], None] = lambda _, __: None
    after: Callable[[Record], Record] = lambda record: record
    survives: str = ""


def launched(fault: Fault | None = None, seed: int = 1) -> Record:
    """The record of a simulated launch with this fault."""
    machine, parts = Machine(seed), {}
    listener = Listener(parts, lambda _: None, clock=lambda: machine.now_s)

    def send(**message: Any) -> None:
        machine.now_s += 2e-4
        listener.receive(json.dumps(message).encode() + b"\n")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phases, "Series", partial(measure.Series, clock=machine.clock))
        loader = CountingLoader(machine)
        if fault:
            fault.plant(patch, machine)
        phases.measure_phases(machine, loader, PLAN, batch=32, send=send, spawned_ns=0, tools=machine)
    made = records.record(run="study", launch=seed).to_json()
    flops = made["workload"]["training_flops_per_sample"] = 3e9
    settings = {"loader": machine.settings, "peak_flops_per_s": flops * 32 / STEP_S / OF_PEAK}
    parts["ledger"]["seen_s"] = listener.seen_s
    made |= {"schema": SCHEMA, "run": {"plan": PLAN.to_json()}, "settings": settings} | parts
    record = profiled(Record.from_json(made))
    assert record.profile
    timed_s = record.phases["train"].step_s
    record = replace(record, profile=replace(record.profile, step_s=1.1 * timed_s, timed_s=timed_s))
    return fault.after(record) if fault else record


def uncounted(record: Record) -> Record:
    """The record where the optimizer keeps no count of its steps."""
    return replace(record, ledger=record.ledger and replace(record.ledger, updates=None))


def older(record: Record) -> Record:
    """The record as it was before there was a ledger."""
    return replace(record, ledger=None)


def judge(fault: Fault, reading: Callable[[Record], Record] = lambda record: record) -> str:
    """What the ledger says of a launch with this fault, or why the launch failed; empty if it notices nothing.

    ``reading`` is what becomes of the record before.
    """
    try:
        return find_unaccounted({fault: [reading(launched(fault))]}).get(fault, "")
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"

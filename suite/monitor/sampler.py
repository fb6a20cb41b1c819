"""Watches a worker from its parent: a thread that waits, reads, and writes down; the measured process knows nothing.

What it costs is measured, not assumed: ``python -m suite.monitor`` runs the same cell with and without it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

import psutil

from suite.monitor import host
from suite.monitor.gpu import COUNTERS, POWER_CAP, THROTTLES, Gpu
from suite.monitor.timeline import Sample, Span, cut, energy_j, grown, line, rates, summary
from suite.record import Phase, Record

GPU_EVERY_S, HOST_EVERY_S = 0.1, 0.5

#: A launch is contaminated when the rest of the machine used more than this share of its cores.
OTHERS_MOST = 0.10
#: A clock that moved by more than this share between the windows' samples has drifted.
DRIFT_MOST = 0.05

Reader = Callable[[], dict[str, float]]


@dataclass(frozen=True)
class Idle:
    """What the GPUs took before anything ran: power in W by UUID, and the processes that were there already."""

    power_w: dict[str, float]
    processes: dict[str, frozenset[int]]


def idle(gpus: Sequence[Gpu], readings: int = 10, sleep: Callable[[float], None] = time.sleep) -> Idle:
    """Measure it, over about a second."""
    power: dict[str, list[float]] = {}
    for _ in range(readings if gpus else 0):
        for gpu in gpus:
            if (value := gpu.read().get("power_w")) is not None:
                power.setdefault(gpu.uuid, []).append(value)
        sleep(GPU_EVERY_S)
    present = {gpu.uuid: frozenset(pid for pid, _ in _processes(gpu)) for gpu in gpus}
    return Idle({uuid: sum(values) / len(values) for uuid, values in power.items()}, present)


class Monitor:
    """A context in which a worker and the GPUs are sampled; `noted` puts what was seen into its record."""

    def __init__(self, pid: int, spawned_s: float, gpus: Sequence[Gpu] = (), before: Idle | None = None) -> None:
        self.pid, self.spawned_s, self.gpus, self.before = pid, spawned_s, gpus, before or Idle({}, {})
        self.host: list[Sample] = []
        self.samples: dict[str, list[Sample]] = {gpu.uuid: [] for gpu in gpus}
        self.foreign: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)

    def __enter__(self) -> Monitor:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            watched = host.Host(self.pid)
            due_s = 0.0
            # Each round is due a fixed time after the last began, so that a slow one makes the next late, not more.
            while not self._stop.wait(max(0.0, due_s - time.perf_counter())):
                now_s = time.perf_counter()
                due_s = now_s + (GPU_EVERY_S if self.gpus else HOST_EVERY_S)
                for gpu in self.gpus:
                    self.samples[gpu.uuid].append(Sample(time.perf_counter(), gpu.read()))
                if not self.host or now_s - self.host[-1].at_s >= HOST_EVERY_S:
                    self.host.append(Sample(time.perf_counter(), watched.read()))
                    self._look_for_others()

    def _look_for_others(self) -> None:
        """GPU processes that are not the worker's; in a container their ids may be of another namespace."""
        tree = {self.pid, *(process.pid for process in psutil.Process(self.pid).children(recursive=True))}
        for gpu in self.gpus:
            found = {pid for pid, _ in _processes(gpu)}
            there = self.before.processes.get(gpu.uuid, frozenset())
            # Without an id of ours among them, all that can be told is which were there before.
            if found & there or (found & tree and found - tree):
                self.foreign.add(gpu.uuid)

    def noted(self, record: Record) -> Record:
        """The record with metrics per phase, energy, timelines, and the flags that they earn."""
        spans = {name: self._span(phase) for name, phase in record.phases.items() if phase.span}
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        metrics: dict[str, Any] = {"host": _told(self.host, host.COUNTERS, spans, self.spawned_s), "gpus": []}
        flags = list(record.flags)
        train = spans.get("train")
        others = metrics["host"]["phases"].get("train", {}).get("other_cpu_cores", {}).get("median", 0.0) / cores
        if others > OTHERS_MOST or self.foreign:
            flags.append("contaminated")
        for gpu in self.gpus:
            samples = self.samples[gpu.uuid]
            told = gpu.describe() | _told(samples, COUNTERS, spans, self.spawned_s) | {"absent": dict(gpu.absent)}
            told["idle_power_w"] = self.before.power_w.get(gpu.uuid)
            if train and (used := energy_j(samples, train)):
                joules, told["energy_source"] = used
                told["energy_j_per_sample"] = joules / (_steps(record) * record.effective_batch)
            until_s = _seconds_until_target(record)
            if train and until_s and (used := energy_j(samples, Span(train.begin_s, train.begin_s + until_s))):
                told["energy_j_to_target"] = used[0]
            metrics["gpus"].append(told)
            flags += _clock_flags(cut(samples, train)) if train else []
        return replace(record, metrics=metrics, flags=tuple(dict.fromkeys(flags)))

    def _span(self, phase: Phase) -> Span:
        begin, end = phase.span or (0.0, 0.0)
        return Span(begin + self.spawned_s, end + self.spawned_s)


def _told(
    samples: Sequence[Sample], counters: Mapping[str, str], spans: Mapping[str, Span], begin_s: float
) -> dict[str, Any]:
    flowing = rates(samples, counters)
    phases = {name: summary(cut(flowing, span)) for name, span in spans.items()}
    totals = {name: {c: grown(cut(samples, span), c) for c in counters} for name, span in spans.items()}
    return {"phases": phases, "totals": totals, "timeline": line(flowing, begin_s)}


def _clock_flags(samples: Sequence[Sample]) -> list[str]:
    events = [int(sample.values["clock_events"]) for sample in samples if "clock_events" in sample.values]
    clocks = [sample.values["sm_clock_mhz"] for sample in samples if sample.values.get("sm_clock_mhz")]
    flags = ["throttled"] if any(event & bit for event in events for bit in THROTTLES) else []
    flags += ["power-capped"] if any(event & POWER_CAP for event in events) else []
    drifted = clocks and max(clocks) - min(clocks) > DRIFT_MOST * max(clocks)
    return [*flags, *(["clock-drift"] if drifted else [])]


def _seconds_until_target(record: Record) -> float | None:
    """From the first epoch's begin to the end of the one that reached the target, its evaluations included."""
    course = record.course
    if not course or course.resumed_at or not (reached := course.epochs_to_target):
        return None  # what another process did was not seen here
    return sum(epoch.train_s + epoch.evaluation_s for epoch in course.epochs[:reached])


def _steps(record: Record) -> int:
    return sum(window.steps for window in record.phases["train"].windows)


def _processes(gpu: Gpu) -> list[tuple[int, int | None]]:
    try:
        return gpu.processes()
    except Exception as error:  # as with a reading: absent, with its reason
        gpu.absent.setdefault("processes", str(error))
        return []

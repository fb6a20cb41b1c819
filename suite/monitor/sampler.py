"""Watches a worker from its parent: a thread that waits, reads, and writes down; the measured process knows nothing.

What it costs is measured, not assumed: ``python -m suite.checks monitor`` runs the same cell with and without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from types import TracebackType
from typing import Any

import psutil

from suite.monitor import host
from suite.monitor.gpu import COUNTERS, POWER_CAP, THROTTLES, Gpu
from suite.monitor.timeline import (
    ENERGY_LEAST_S,
    Sample,
    Span,
    Spans,
    cut,
    energy_j,
    grown,
    line,
    rates,
    seconds,
    short,
    summary,
)
from suite.record.record import Phase, Record

GPU_EVERY_S, HOST_EVERY_S = 0.1, 0.5

#: A launch is contaminated when the rest of the machine used more than this share of its cores.
OTHERS_MOST = 0.10
#: A clock that moved by more than this share between the windows' samples has drifted.
DRIFT_MOST = 0.05


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

    def __init__(
        self, pid: int, spawned_s: float, gpus: Sequence[Gpu] = (), before: Idle | None = None, no_gpu: str = ""
    ) -> None:
        """``gpus`` are those that the worker sees, which trains on the first; ``no_gpu`` says why there is none."""
        self.pid, self.spawned_s, self.gpus, self.before = pid, spawned_s, gpus, before or Idle({}, {})
        self.host: list[Sample] = []
        self.samples: dict[str, list[Sample]] = {gpu.uuid: [] for gpu in gpus}
        self.foreign_s: list[float] = []  # when a process that is not ours was seen on the first GPU
        self.absent: dict[str, str] = {"gpus": no_gpu} if no_gpu else {}
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
        try:
            self._sample()
        except psutil.NoSuchProcess:
            pass  # it ended
        except Exception as error:  # what was seen until then is kept, and that no more was
            self.absent["later samples"] = str(error) or type(error).__name__

    def _sample(self) -> None:
        watched = host.Host(self.pid)
        self.absent = self.absent | watched.absent
        due_s = host_due_s = 0.0
        # Each round is due a fixed time after the last began, so that a slow one makes the next late, not more.
        while not self._stop.wait(max(0.0, due_s - time.perf_counter())):
            now_s = time.perf_counter()
            due_s = now_s + (GPU_EVERY_S if self.gpus else HOST_EVERY_S)
            slow = now_s >= host_due_s
            tree = {process.pid for process in watched.tree()} if slow and self.gpus else set()
            for number, gpu in enumerate(self.gpus):
                values = gpu.read()
                values |= self._memory_and_others(gpu, tree, first=number == 0) if slow else {}
                self.samples[gpu.uuid].append(Sample(time.perf_counter(), values))
            if slow:
                host_due_s = now_s + HOST_EVERY_S
                self.host.append(Sample(time.perf_counter(), watched.read()))
                self.absent |= watched.absent

    def _memory_and_others(self, gpu: Gpu, tree: set[int], first: bool) -> dict[str, float]:
        """What our processes hold on a GPU; and whether others are there, whose ids may be of another namespace."""
        held = dict(_processes(gpu))
        there = self.before.processes.get(gpu.uuid, frozenset())
        # Without an id of ours among them, all that can be told is which were there before.
        if first and (held.keys() & there or (held.keys() & tree and held.keys() - tree)):
            self.foreign_s.append(time.perf_counter())
        ours = [held[pid] for pid in held.keys() & tree]
        told = [size for size in ours if size is not None]
        return {"memory_of_ours_bytes": float(sum(told))} if told and len(told) == len(ours) else {}

    def noted(self, record: Record) -> Record:
        """The record with metrics per phase, energy, timelines, the flags that they earn, and its GPU's name."""
        spans = {name: self._spans(phase) for name, phase in record.phases.items() if phase.spans}
        cores = len(host.own_cores())
        metrics: dict[str, Any] = {"host": _told(self.host, host.COUNTERS, spans, self.spawned_s), "gpus": []}
        metrics["host"]["cores"] = cores
        flags = list(record.flags)
        used_gpus = [] if record.settings.get("device") == "cpu" else self.gpus
        seen_s = self.foreign_s if used_gpus else []
        measured = _stretches(spans)
        others = max((_others(self.host, each) for each in measured), default=0.0) / cores
        if others > OTHERS_MOST or any(each.begin_s <= at <= each.end_s for at in seen_s for each in measured):
            flags.append("contaminated")
        for number, gpu in enumerate(used_gpus):
            samples = self.samples[gpu.uuid]
            told = gpu.describe() | _told(samples, COUNTERS, spans, self.spawned_s) | {"absent": dict(gpu.absent)}
            told["idle_power_w"] = self.before.power_w.get(gpu.uuid)
            if not any("memory_of_ours_bytes" in sample.values for sample in samples):
                told["absent"]["memory_of_ours_bytes"] = "the driver lists no process of ours with its memory"
            if "train" in spans:
                told |= _energy(record, samples, spans["train"])
                if "energy_source" not in told:
                    told["absent"]["energy"] = _why_no_energy(record, samples)
                flags += _clock_flags(record, samples, spans["train"]) if number == 0 else []
            metrics["gpus"].append(told)
        unused = {"gpus": "training used the CPU"} if self.gpus and not used_gpus else {}
        if self.absent or unused:
            metrics["absent"] = self.absent | unused
        record = _named(record, used_gpus) if record.settings.get("device") == "cuda" else record
        return replace(record, metrics=metrics, flags=tuple(dict.fromkeys(flags)))

    def _spans(self, phase: Phase) -> list[Span]:
        return [Span(begin + self.spawned_s, end + self.spawned_s) for begin, end in phase.spans]


def _named(record: Record, gpus: Sequence[Gpu]) -> Record:
    """The record of a training on the first GPU under NVML's name for it, so that all frameworks name one GPU alike.

    The framework's own spelling goes to ``settings["device_name"]``. The record stays as it is where NVML's name may be
    that of something else: of a whole GPU where a slice trained, or of another model where CUDA counts its own way.
    """
    order = record.environment.get("variables", {}).get("CUDA_DEVICE_ORDER")
    alike = len({gpu.name for gpu in gpus}) == 1 or (gpus and order == "PCI_BUS_ID")
    if not alike or gpus[0].describe()["mig"]:
        return record
    machine = record.environment.get("machine", {})
    environment = record.environment | {"machine": machine | {"gpus": [gpus[0].name]}}
    spelled = {"device_name": machine["gpus"][0]} if machine.get("gpus") else {}
    return replace(record, environment=environment, settings=record.settings | spelled)


def _told(
    samples: Sequence[Sample], counters: Mapping[str, str], spans: Mapping[str, Spans], begin_s: float
) -> dict[str, Any]:
    phases = {name: summary(rates(samples, counters, bursts)) for name, bursts in spans.items()}
    totals = {name: {c: _total(samples, c, bursts) for c in counters} for name, bursts in spans.items()}
    return {"phases": phases, "totals": totals, "timeline": line(rates(samples, counters), begin_s)}


def _total(samples: Sequence[Sample], counter: str, spans: Spans) -> float | None:
    """By how much a counter grew over all of a phase, scaled from what was seen of it."""
    counted = grown(samples, counter, spans)
    return short(counted[0] * seconds(spans) / counted[1]) if counted else None


def _stretches(spans: Mapping[str, Spans]) -> list[Span]:
    """From the first to the last moment of each phase: who disturbs one burst disturbs the phases that take turns."""
    return [Span(bursts[0].begin_s, bursts[-1].end_s) for bursts in spans.values()]


def _others(samples: Sequence[Sample], span: Span) -> float:
    """Cores that the rest of the machine kept busy, on average over the span."""
    within = [sample for sample in cut(samples, [span]) if "other_cpu_s" in sample.values]
    if len(within) < 2:
        return 0.0
    # The two counters are read one after the other, so that their difference may go back a little.
    return (within[-1].values["other_cpu_s"] - within[0].values["other_cpu_s"]) / (within[-1].at_s - within[0].at_s)


def _energy(record: Record, samples: Sequence[Sample], train: Spans) -> dict[str, Any]:
    """Joules per sample, or to the target of one that trains to its end, which has evaluations in its span."""
    found: dict[str, Any] = {}
    if record.course:
        until_s, begin_s = _seconds_until_target(record, seconds(train)), train[0].begin_s
        if until_s and (used := energy_j(samples, [Span(begin_s, begin_s + until_s)])):
            found["energy_j_to_target"], found["energy_source"] = used
    elif used := energy_j(samples, train):
        joules, found["energy_source"] = used
        found["energy_j_per_sample"] = joules / (_steps(record) * record.effective_batch)
    return found


def _why_no_energy(record: Record, samples: Sequence[Sample]) -> str:
    if not any(sample.values.keys() & {"energy_j", "power_w"} for sample in samples):
        return "the GPU tells neither energy nor power"
    if record.course and record.course.resumed_at:
        return "the training was resumed: what went before was not seen"
    if record.course and not record.course.epochs_to_target:
        return "the target was not reached"
    return f"what is timed lasts less than {ENERGY_LEAST_S:g} s, or samples do not cover it: see --min-window"


def _clock_flags(record: Record, samples: Sequence[Sample], train: Spans) -> list[str]:
    within = cut(samples, train)
    events = [int(sample.values["clock_events"]) for sample in within if "clock_events" in sample.values]
    clocks = _clocks(within, train, len(record.phases["train"].windows))
    flags = ["throttled"] if any(event & bit for event in events for bit in THROTTLES) else []
    flags += ["power-capped"] if any(event & POWER_CAP for event in events) else []
    drifted = clocks and max(clocks) - min(clocks) > DRIFT_MOST * max(clocks)
    return [*flags, *(["clock-drift"] if drifted else [])]


def _clocks(samples: Sequence[Sample], spans: Spans, windows: int) -> list[float]:
    """The median SM clock of each window, as parts of the spans that are as long as each other."""
    each_s = seconds(spans) / windows
    parts: dict[tuple[int, int], list[float]] = {}
    for number, span in enumerate(spans):
        for sample in samples:
            if span.holds(sample) and (clock := sample.values.get("sm_clock_mhz")):
                parts.setdefault((number, int((sample.at_s - span.begin_s) / each_s)), []).append(clock)
    return [median(clocks) for clocks in parts.values()]


def _seconds_until_target(record: Record, whole_s: float) -> float | None:
    """From the first epoch's begin to the end of the one that reached the target, its evaluations included.

    What is left of the ``whole_s`` of all epochs went into checkpoints, one after each.
    """
    course = record.course
    if not course or course.resumed_at or not (reached := course.epochs_to_target):
        return None  # what another process did was not seen here
    taken = [epoch.train_s + epoch.evaluation_s for epoch in course.epochs]
    taken[0] -= record.compile_s or 0.0  # which came before the span
    saving_s = max(0.0, whole_s - sum(taken)) / len(taken)
    return sum(taken[:reached]) + (reached - 1) * saving_s


def _steps(record: Record) -> int:
    return sum(window.steps for window in record.phases["train"].windows)


def _processes(gpu: Gpu) -> list[tuple[int, int | None]]:
    try:
        held = gpu.processes()
    except Exception as error:  # as with a reading: absent, with its reason
        gpu.absent["processes"] = str(error)
        return []
    gpu.absent.pop("processes", None)
    return held

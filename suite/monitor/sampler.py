"""Watches a worker from its parent, in a thread that samples; the measured process does not take part.

The overhead is measured, not assumed: ``training-suite checks monitor`` runs the same cell with and without it.
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

from suite.catalog.devices import ACCELERATORS
from suite.monitor import host, timeline
from suite.monitor.background import Others, taken_cores
from suite.monitor.gpu import COUNTERS, POWER_CAP, THROTTLES, Gpu
from suite.monitor.timeline import Sample, Span, Spans, cut, seconds
from suite.record.disturbance import DISTURBED, OTHERS_MOST, SHARED_GPU, is_disturbed
from suite.record.parts.bounds import drop_outside
from suite.record.parts.environment import own_cores
from suite.record.record import Phase, Record

GPU_EVERY_S, HOST_EVERY_S = 0.1, 0.5

#: A clock that moved by more than this share between the windows' samples has drifted.
DRIFT_MOST = 0.05


@dataclass(frozen=True)
class Idle:
    """The GPUs before anything ran: power in W and the ids of the processes that were there already, by UUID."""

    power_w: dict[str, float]
    processes: dict[str, frozenset[int]]


def idle(gpus: Sequence[Gpu], readings: int = 10, sleep: Callable[[float], None] = time.sleep) -> Idle:
    """Measure the idle state, for about a second."""
    power: dict[str, list[float]] = {}
    for _ in range(readings if gpus else 0):
        for gpu in gpus:
            if (value := gpu.read().get("power_w")) is not None:
                power.setdefault(gpu.uuid, []).append(value)
        sleep(GPU_EVERY_S)
    processes = {gpu.uuid: frozenset(pid for pid, _ in _processes(gpu)) for gpu in gpus}
    return Idle({uuid: sum(values) / len(values) for uuid, values in power.items()}, processes)


class Monitor:
    """A context in which a worker and the GPUs are sampled; `annotated` adds the metrics to its record."""

    def __init__(
        self,
        pid: int | Sequence[int],
        spawned_s: float,
        gpus: Sequence[Gpu] = (),
        before: Idle | None = None,
        no_gpu: str = "",
        *,
        devices: int = 1,
    ) -> None:
        """``pid`` is the worker's, or those of all ranks; ``gpus`` are those that they see.

        They train on the first ``devices`` of them; ``no_gpu`` says why there is none.
        """
        self.devices = devices
        self.pid, self.spawned_s, self.gpus, self.before = pid, spawned_s, gpus, before or Idle({}, {})
        self.host: list[Sample] = []
        self.others = Others(len(own_cores()))
        self.samples: dict[str, list[Sample]] = {gpu.uuid: [] for gpu in gpus}
        self.foreign_s: list[float] = []  # when another's process was seen on a GPU that trains
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
        except Exception as error:  # the samples until then are kept, with the reason why there are no more
            self.absent["later samples"] = str(error) or type(error).__name__

    def _sample(self) -> None:
        watched = host.Host(self.pid)
        self.absent = self.absent | watched.absent
        due_s = host_due_s = 0.0
        # Each round is due a fixed time after the last one began, so that a slow round delays only the next one.
        while not self._stop.wait(max(0.0, due_s - time.perf_counter())):
            now_s = time.perf_counter()
            due_s = now_s + (GPU_EVERY_S if self.gpus else HOST_EVERY_S)
            slow = now_s >= host_due_s
            tree = {process.pid for process in watched.tree()} if slow and self.gpus else set()
            for number, gpu in enumerate(self.gpus):
                values = gpu.read()
                values |= self._memory_and_others(gpu, tree, used=number < self.devices) if slow else {}
                self.samples[gpu.uuid].append(Sample(time.perf_counter(), values))
            if slow:
                host_due_s = now_s + HOST_EVERY_S
                self.host.append(Sample(time.perf_counter(), watched.read()))
                self.others.watch(self.host, watched.pids)
                self.absent |= watched.absent

    def _memory_and_others(self, gpu: Gpu, tree: set[int], used: bool) -> dict[str, float]:
        """Memory of our processes on a GPU. Also notes when others are there, whose ids may be of another namespace."""
        memory = dict(_processes(gpu))
        before = self.before.processes.get(gpu.uuid, frozenset())
        # Without an id of ours among them, only those that were there before are known to be foreign.
        if used and (memory.keys() & before or (memory.keys() & tree and memory.keys() - tree)):
            self.foreign_s.append(time.perf_counter())
        ours = [memory[pid] for pid in memory.keys() & tree]
        sizes = [size for size in ours if size is not None]
        return {"memory_of_ours_bytes": float(sum(sizes))} if sizes and len(sizes) == len(ours) else {}

    def annotate(self, record: Record) -> Record:
        """The record with metrics per phase, energy, timelines, the flags that follow from them, and its GPU's name."""
        spans = {name: self._spans(phase) for name, phase in record.phases.items() if phase.spans}
        cores = len(own_cores())
        metrics: dict[str, Any] = {"host": _statistics(self.host, host.COUNTERS, spans, self.spawned_s), "gpus": []}
        metrics["host"]["cores"] = cores
        flags = list(record.flags)
        used_gpus = [] if record.settings.get("device") == "cpu" else self.gpus
        foreign_s = self.foreign_s if used_gpus else []
        extents = _extents(spans)
        taken = max((taken_cores(self.host, extent) for extent in extents.values()), default=0.0) / cores
        shared = {name for name, each in extents.items() if any(each.begin_s <= at <= each.end_s for at in foreign_s)}
        flags += ["contaminated"] if shared or taken > OTHERS_MOST else []
        flags += [SHARED_GPU] if "train" in shared else []
        if "train" in extents:
            metrics["host"]["disturbance"] = self.others.describe(self.host, extents["train"])
        for number, gpu in enumerate(used_gpus):
            samples = self.samples[gpu.uuid]
            gpu_metrics = gpu.describe() | _statistics(samples, COUNTERS, spans, self.spawned_s)
            gpu_metrics["absent"] = dict(gpu.absent)
            gpu_metrics["idle_power_w"] = self.before.power_w.get(gpu.uuid)
            if not any("memory_of_ours_bytes" in sample.values for sample in samples):
                gpu_metrics["absent"]["memory_of_ours_bytes"] = "the driver lists no process of ours with its memory"
            if "train" in spans:
                gpu_metrics |= _energy(record, samples, spans["train"])
                if "energy_source" not in gpu_metrics:
                    gpu_metrics["absent"]["energy"] = _why_no_energy(record, samples)
                flags += _clock_flags(record, samples, spans["train"]) if number < self.devices else []
            metrics["gpus"].append(gpu_metrics)
        self.absent = self.absent | drop_outside(metrics)
        unused = {"gpus": "training used the CPU"} if self.gpus and not used_gpus else {}
        if self.absent or unused:
            metrics["absent"] = self.absent | unused
        record = _rename_gpu(record, used_gpus) if record.settings.get("device") in ACCELERATORS else record
        record = replace(record, metrics=metrics, flags=tuple(dict.fromkeys(flags)))
        return replace(record, flags=(*record.flags, DISTURBED)) if is_disturbed(record) else record

    def _spans(self, phase: Phase) -> list[Span]:
        return [Span(begin + self.spawned_s, end + self.spawned_s) for begin, end in phase.spans]


def _rename_gpu(record: Record, gpus: Sequence[Gpu]) -> Record:
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


def _statistics(
    samples: Sequence[Sample], counters: Mapping[str, str], spans: Mapping[str, Spans], begin_s: float
) -> dict[str, Any]:
    phases = {name: timeline.summary(timeline.rates(samples, counters, bursts)) for name, bursts in spans.items()}
    totals = {name: {c: _total(samples, c, bursts) for c in counters} for name, bursts in spans.items()}
    return {"phases": phases, "totals": totals, "timeline": timeline.line(timeline.rates(samples, counters), begin_s)}


def _total(samples: Sequence[Sample], counter: str, spans: Spans) -> float | None:
    """The growth of a counter over a whole phase, scaled from the samples that cover it."""
    counted = timeline.grown(samples, counter, spans)
    return timeline.short(counted[0] * seconds(spans) / counted[1]) if counted else None


def _extents(spans: Mapping[str, Spans]) -> dict[str, Span]:
    """From the first to the last moment of each phase: phases alternate, so a disturbed burst concerns them all."""
    return {name: Span(bursts[0].begin_s, bursts[-1].end_s) for name, bursts in spans.items()}


def _energy(record: Record, samples: Sequence[Sample], train: Spans) -> dict[str, Any]:
    """Joules per sample; for a training to the end, joules to the target, evaluations included."""
    energy: dict[str, Any] = {}
    if record.course:
        until_s, begin_s = _seconds_until_target(record, seconds(train)), train[0].begin_s
        if until_s and (measured := timeline.energy_j(samples, [Span(begin_s, begin_s + until_s)])):
            energy["energy_j_to_target"], energy["energy_source"] = measured
    elif measured := timeline.energy_j(samples, train):
        joules, energy["energy_source"] = measured
        energy["energy_j_per_sample"] = joules / (_steps(record) * record.effective_batch)
    return energy


def _why_no_energy(record: Record, samples: Sequence[Sample]) -> str:
    if not any(sample.values.keys() & {"energy_j", "power_w"} for sample in samples):
        return "the GPU tells neither energy nor power"
    if record.course and record.course.resumed_at:
        return "the training was resumed: what went before was not seen"
    if record.course and not record.course.epochs_to_target:
        return "the target was not reached"
    return f"what is timed lasts less than {timeline.ENERGY_LEAST_S:g} s, or samples do not cover it: see --min-window"


def _clock_flags(record: Record, samples: Sequence[Sample], train: Spans) -> list[str]:
    within = cut(samples, train)
    events = [int(sample.values["clock_events"]) for sample in within if "clock_events" in sample.values]
    clocks = _clocks(within, train, len(record.phases["train"].windows))
    flags = ["throttled"] if any(event & bit for event in events for bit in THROTTLES) else []
    flags += ["power-capped"] if any(event & POWER_CAP for event in events) else []
    drifted = clocks and max(clocks) - min(clocks) > DRIFT_MOST * max(clocks)
    return [*flags, *(["clock-drift"] if drifted else [])]


def _clocks(samples: Sequence[Sample], spans: Spans, windows: int) -> list[float]:
    """The median SM clock of each window, taken as equal parts of the spans."""
    each_s = seconds(spans) / windows
    parts: dict[tuple[int, int], list[float]] = {}
    for number, span in enumerate(spans):
        for sample in samples:
            if span.holds(sample) and (clock := sample.values.get("sm_clock_mhz")):
                parts.setdefault((number, int((sample.at_s - span.begin_s) / each_s)), []).append(clock)
    return [median(clocks) for clocks in parts.values()]


def _seconds_until_target(record: Record, whole_s: float) -> float | None:
    """From the first epoch's begin to the end of the one that reached the target, its evaluations included.

    The rest of ``whole_s``, the time of all epochs, went into checkpoints, one after each epoch.
    """
    course = record.course
    if not course or course.resumed_at or not (reached := course.epochs_to_target):
        return None  # an earlier process trained the first epochs
    epochs_s = [epoch.train_s + epoch.evaluation_s for epoch in course.epochs]
    epochs_s[0] -= record.compile_s or 0.0  # which came before the span
    saving_s = max(0.0, whole_s - sum(epochs_s)) / len(epochs_s)
    return sum(epochs_s[:reached]) + (reached - 1) * saving_s


def _steps(record: Record) -> int:
    return sum(window.steps for window in record.phases["train"].windows)


def _processes(gpu: Gpu) -> list[tuple[int, int | None]]:
    try:
        processes = gpu.processes()
    except Exception as error:  # as with a reading: absent, with its reason
        gpu.absent["processes"] = str(error)
        return []
    gpu.absent.pop("processes", None)
    return processes

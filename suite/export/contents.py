"""What is exported of a launch, the same for all targets: its settings, its facts, its figures and its curves.

Names come from a record, which may be a stranger's. `plain` makes them safe for every target. `LIVE` and `STORED` are
the metrics of Prometheus, which dashboards and tests read too.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import accumulate
from typing import Any

from suite.catalog.settings import SETTINGS
from suite.record.record import Phase, Record
from suite.record.saved import decode_line as plain_line
from suite.record.text import clean

#: Characters of a name, and of a text, that are kept.
NAME_MOST, TEXT_MOST = 80, 500

#: Readings of a launch's record that are exported per device, at most. A real record has about thirty.
READINGS_MOST = 60


@dataclass(frozen=True)
class Point:
    """One value of a curve: the step it belongs to, and seconds since the launch began, if the record says when."""

    step: int
    value: float
    at_s: float = 0.0


def plain(text: object, most: int = NAME_MOST) -> str:
    """A name of letters, digits, ``_``, ``-``, ``+`` and ``.``, which is neither empty nor hidden nor a way up.

    A name that had to be changed ends in a digest of the original, so that two names stay two.
    """
    original = str(text)
    name = re.sub(r"\.\.+", ".", re.sub(r"[^A-Za-z0-9_.+-]", "_", original)).lstrip(".-")[:most]
    return name if name and name == original else f"{name[: most - 9]}_{digest(original)[:8]}"


def digest(text: str) -> str:
    """A digest of any text, as hexadecimal digits."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def identity(run: str, record: Record) -> str:
    """Identifies one try of a launch: a launch that failed and ran again is two."""
    return digest(f"{run}\n{record.key}\n{record.started}")[:32]


def settings(record: Record) -> dict[str, str | int]:
    """The cell, setting by setting, and the number of the launch."""
    cell = record.cell
    values = {each.name: getattr(cell, each.name) for each in fields(cell) if each.name != "loader"}
    values |= {"loader": cell.loader.id, "launch": record.launch, "effective_batch": record.effective_batch}
    return {name: value if isinstance(value, int) else clean(value, TEXT_MOST) for name, value in values.items()}


def facts(record: Record) -> dict[str, str]:
    """What a reader filters by: outcome, flags, data, machine and versions. Every value is one printable line."""
    environment, machine = record.environment, _mapping(record.environment.get("machine"))
    packages = _mapping(environment.get("packages"))
    facts_of: dict[str, object] = {
        "cell": record.cell.id,
        "outcome": record.outcome.status,
        "reason": record.outcome.reason,
        "flags": " ".join(record.flags),
        "control": "yes" if record.control else "",
        "data": record.data.get("kind", ""),
        "device": record.settings.get("device", ""),
        "cpu": machine.get("cpu", ""),
        "gpu": ", ".join(map(str, machine.get("gpus") or ())) if isinstance(machine.get("gpus"), list) else "",
        "python": environment.get("python", ""),
        "environment": environment.get("digest", ""),
        "packages": ", ".join(f"{name} {version}" for name, version in list(packages.items())[:20]),
        "suite": record.run.get("suite", ""),
    }
    return {name: clean(value, TEXT_MOST) for name, value in facts_of.items() if value}


def figures(record: Record) -> dict[str, float]:
    """The launch's own values: throughput, step times in seconds, memory in bytes, energy; only what was measured."""
    values: dict[str, float | None] = {"samples_per_s": record.samples_per_s}
    for name, phase in record.phases.items():
        values[f"{name}.step_s"] = phase.step_s
        values[f"{name}.samples_per_s"] = record.effective_batch / phase.step_s
    values |= {"compile_s": record.compile_s, "first_step_s": record.first_step_s}
    values |= {f"startup.{plain(name)}": seconds for name, seconds in record.startup.items()}
    values |= {f"memory.{plain(name)}": float(count) for name, count in record.memory.items()}
    for number, gpu in enumerate(_devices(record)):
        for name in ("energy_j_per_sample", "energy_j_to_target", "idle_power_w"):
            values[f"gpu{number}.{name}"] = _number(gpu.get(name))
    if record.inference:
        from suite.analysis.statistics.serving import FIGURES  # SciPy, which the options do not need

        once = (name for name in FIGURES if not name.endswith("samples_per_s"))  # which the phases have
        values |= {f"infer.{name}": FIGURES[name](record) for name in once}
    if record.course:
        values |= {"test_accuracy": record.course.final_accuracy, "train_s": record.course.train_s[-1]}
        values |= {"seconds_to_target": record.course.seconds_to_target}
    return {name: value for name, value in values.items() if value is not None}


def curves(record: Record) -> dict[str, list[Point]]:
    """Every curve by its name: the windows of each phase, the epochs and losses of a training, and the readings.

    The step of a window is the number of steps until its end; that of an epoch its number; that of a reading seconds
    since the launch began.
    """
    lines: dict[str, list[Point]] = {}
    for name, phase in record.phases.items():
        lines |= _windows(name, phase, record.effective_batch)
    if course := record.course:
        ends_s = list(accumulate(epoch.train_s + epoch.evaluation_s for epoch in course.epochs))
        for name in ("train_loss", "test_loss", "test_accuracy", "train_s"):
            lines[f"epoch.{name}"] = [
                Point(number, float(getattr(epoch, name)), at_s)
                for number, (epoch, at_s) in enumerate(zip(course.epochs, ends_s, strict=True), 1)
            ]
        lines["first_epoch.loss"] = [Point(step, loss) for step, loss in enumerate(course.curve, 1)]
    lines |= _readings("host", _mapping(record.metrics.get("host")))
    for number, gpu in enumerate(_devices(record)):
        lines |= _readings(f"gpu{number}", gpu)
    return {name: points for name, points in lines.items() if points}


def start_of(record: Record) -> float:
    """When the launch began, in seconds since 1970; 0 where the record does not say."""
    return seconds_of(record.started)


def seconds_of(text: str) -> float:
    """A moment in ISO format, in seconds since 1970; 0 for anything else."""
    try:
        moment = datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
    return moment if 0 < moment < 2**32 else 0.0


def took_s(record: Record) -> float:
    """How long the launch took, in seconds; 0 where the record does not say."""
    seconds = _number(record.run.get("took_s")) or 0.0
    return seconds if 0 < seconds < 366 * 86_400 else 0.0


def _windows(name: str, phase: Phase, batch: int) -> dict[str, list[Point]]:
    steps = accumulate(window.steps for window in phase.windows)
    begin_s = phase.spans[0][0] if phase.spans else 0.0
    ends_s = accumulate((window.seconds for window in phase.windows), initial=begin_s)
    next(ends_s)
    moments = list(zip(phase.windows, steps, ends_s, strict=True))
    return {
        f"{name}.window_step_s": [Point(step, window.seconds / window.steps, at_s) for window, step, at_s in moments],
        f"{name}.window_samples_per_s": [
            Point(step, batch * window.steps / window.seconds, at_s) for window, step, at_s in moments
        ],
    }


def _readings(source: str, metrics: Mapping[str, Any]) -> dict[str, list[Point]]:
    line = plain_line(metrics.get("timeline")) or {}
    at_s, values = line.get("at_s"), line.get("values")
    if at_s is None or not isinstance(values, dict):
        return {}
    return {
        f"{source}.{plain(name)}": list(_points(at_s, readings))
        for name, readings in list(values.items())[:READINGS_MOST]
    }


def _points(at_s: Any, readings: Any) -> Iterator[Point]:
    try:
        pairs = list(zip(at_s, readings, strict=False))
    except TypeError:  # a record of a stranger, which holds no lists there
        return
    for moment, reading in pairs:
        second, value = _number(moment), _number(reading)
        if second is not None and value is not None and abs(second) < 2**31:
            yield Point(max(0, round(second)), value, second)


def _devices(record: Record) -> list[Mapping[str, Any]]:
    devices = record.metrics.get("gpus")
    return [_mapping(each) for each in devices[:64]] if isinstance(devices, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else None


PREFIX = "training_suite_"

#: The settings of a cell, as labels.
CELL = tuple(SETTINGS)
LAUNCH = ("run", *CELL, "launch")
GPU = ("gpu", "name")


@dataclass(frozen=True)
class Family:
    """One metric, without the prefix of its name."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    counter: bool = False

    @property
    def series(self) -> str:
        """The name under which Prometheus finds its values."""
        return f"{PREFIX}{self.name}{'_total' if self.counter else ''}"

    def made(self, core: Any) -> Any:
        """An empty family of `prometheus_client`, given its module ``core``."""
        kind = core.CounterMetricFamily if self.counter else core.GaugeMetricFamily
        return kind(f"{PREFIX}{self.name}", self.help, labels=self.labels)


#: What `training-suite run --metrics-port` serves while a run goes on.
LIVE = (
    Family("run_info", "The run that goes on; its value is always 1", ("run", "matrix", "suite")),
    Family("launches_planned", "Launches of the run"),
    Family("launches", "Launches that have ended, by outcome", ("outcome",), counter=True),
    Family("time_left_seconds", "Estimate of the time until the run ends; absent until there is one"),
    Family("cell_info", "The launch that goes on; its value is always 1", ("id", *CELL, "launch")),
    Family("phase_info", "What its worker does; its value is always 1", ("phase",)),
    Family("launch_elapsed_seconds", "Time since the launch began"),
    Family("samples_per_second", "Throughput that the worker reported last, by phase", ("phase",)),
    Family("last_samples_per_second", "Training throughput of the last launch of each cell", ("id", *CELL)),
    Family("gpu_utilization_ratio", "Share of time in which a kernel ran, 0 to 1", GPU),
    Family("gpu_power_watts", "Power drawn", GPU),
    Family("gpu_memory_used_bytes", "Memory in use, of all processes", GPU),
    Family("gpu_temperature_celsius", "Temperature of the GPU", GPU),
    Family("gpu_sm_clock_hertz", "Clock of the streaming multiprocessors", GPU),
    Family("host_cpu_cores", "Cores that the worker and its children use"),
    Family("host_memory_bytes", "Resident memory of the worker and its children"),
)

#: What `training-suite export prometheus` writes of each launch.
STORED = (
    Family("launch_samples_per_second", "Throughput of a launch, by phase", (*LAUNCH, "phase")),
    Family("launch_step_seconds", "Mean time of a step, by phase", (*LAUNCH, "phase")),
    Family("launch_compile_seconds", "Time to compile", LAUNCH),
    Family("launch_first_step_seconds", "Time of the first step", LAUNCH),
    Family("launch_memory_bytes", "Memory, by kind", (*LAUNCH, "kind")),
    Family("launch_energy_joules_per_sample", "Energy of a GPU for a sample", (*LAUNCH, "gpu")),
    Family("launch_test_accuracy", "Test accuracy after the last epoch, 0 to 1", LAUNCH),
    Family("launch_outcome_info", "How the launch ended; its value is always 1", (*LAUNCH, "outcome", "flags")),
)

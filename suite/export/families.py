"""The Prometheus metrics of the suite: name, kind, help and labels. Dashboards and tests read this table.

Names follow Prometheus' conventions: a prefix, base units, and `_total` for what only grows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from suite.catalog.settings import SETTINGS

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


#: What `pytest suite --metrics-port` serves while a run goes on.
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

#: What `python -m suite.export prometheus` writes of each launch.
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

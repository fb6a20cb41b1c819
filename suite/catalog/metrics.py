"""The metrics of a comparison, each declared once: tables, CSV files, JSON, its schema, legends and docs read them.

A new metric is one more entry of `METRICS`, with the reading of the monitor that it is, or a function of a launch's
record. Figures that need a whole row or a whole table are computed in `suite.report.tables.frame`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from suite.catalog.devices import gpu_peak
from workloads.lengths import FIXED

HIGHER, LOWER = "higher", "lower"


@dataclass(frozen=True)
class Metric:
    """``name`` is its column in `cells.csv` and its key in JSON, ``meaning`` what legend and docs say of it.

    A launch has it as ``source`` (``host.NAME`` or ``gpu.NAME``, the monitor's median while it trained; of the first
    GPU), or as what ``read`` returns of its record, None where it was not measured. A row has the median of its
    launches. Without both, only a row has it.

    A table shows it under ``label``, in units of ``per``, formatted by ``form`` instead of to three digits, with the
    columns ``ends`` as its bounds, and marks the best value where it is ``marked``. ``headline`` metrics are in the
    table's first part. `launches.csv` has it if ``launches``.
    """

    name: str
    unit: str
    meaning: str
    source: str = ""
    read: Callable[[Any], float | None] | None = None
    label: str = ""
    per: float = 1.0
    form: str = ""
    ends: tuple[str, ...] = ()
    better: str = ""
    marked: bool = False
    headline: bool = False
    launches: bool = False

    @property
    def is_of_launch(self) -> bool:
        """Whether a single launch has it."""
        return bool(self.source or self.read)

    def value(self, record: Any) -> float | None:
        """Returns the value of a launch; None if it has none."""
        if self.read:
            return self.read(record)
        device, _, name = self.source.partition(".")
        readings = first_gpu(record) if device == "gpu" else record.metrics.get("host")
        return number(within(readings, "phases", "train", name, "median"))


def number(value: Any) -> float | None:
    """Returns the value as a float; None if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer beyond all floats, which no sampler writes
        return None


def within(data: Any, *path: str) -> Any:
    """Returns the value at the end of these names in nested mappings; None if one is missing."""
    for name in path:
        # The first, since asking an abstract class of millions of readings takes seconds.
        data = data.get(name) if type(data) is dict or isinstance(data, Mapping) else None
    return data


def first_gpu(record: Any) -> Mapping[str, Any]:
    """Returns the readings of the first GPU; empty if none was watched."""
    gpus = record.metrics.get("gpus")
    gpu = gpus[0] if isinstance(gpus, list) and gpus else {}
    return gpu if isinstance(gpu, Mapping) else {}


def unit_of(record: Any) -> str:
    """Returns what a launch's throughput counts: ``samples``, or ``steps`` of a script in which no batch was seen."""
    return common_unit([record.settings.get("unit")])


def common_unit(units: Iterable[object]) -> str:
    """Returns what several throughputs count: ``steps`` if each does, else ``samples``."""
    return "steps" if {*units} == {"steps"} else "samples"


def joules_per_sample(record: Any) -> float | None:
    """Returns the energy of all GPUs that trained, per sample; None unless each was measured."""
    gpus = record.metrics.get("gpus")
    trained = gpus[: record.cell.devices] if isinstance(gpus, list) else []
    joules = [number(gpu.get("energy_j_per_sample")) for gpu in trained if isinstance(gpu, Mapping)]
    known = [each for each in joules if each is not None]
    return sum(known) if len(known) == record.cell.devices else None


def fragmentation(record: Any) -> float | None:
    """Returns the peak of the memory that an allocator reserved over the peak of what it gave out; None if unknown.

    What is beyond 1 lies in pieces that fit nothing, or was taken before it was needed.
    """
    reserved, used = (record.memory.get(f"allocator_{name}_bytes") for name in ("reserved", "peak"))
    return reserved / used if reserved and used else None


def shapes_of(record: Any) -> Any:
    """Returns what was counted of batches of several lengths; None where they have one, whatever the record says."""
    varied = record.cell.lengths != FIXED and "train" in record.phases
    return record.ledger.shapes if record.ledger and varied else None


def training_flops(record: Any) -> float | None:
    """Returns the FLOPs of training on a sample: the spec's, or the mean over the lengths of its batches."""
    shapes = shapes_of(record)
    return shapes.training_flops_per_sample if shapes else number(record.workload.get("training_flops_per_sample"))


def _of_shapes(read: Callable[[Any, Any], float]) -> Callable[[Any], float | None]:
    return lambda record: read(shapes, record) if (shapes := shapes_of(record)) else None


def datasheet_utilisation(record: Any) -> float | None:
    """Returns the model's FLOP/s relative to what NVIDIA's data sheet says of these GPUs; None if it says nothing."""
    gpus = within(record.environment, "machine", "gpus")
    peak = gpu_peak(str(gpus[0]), record.cell.precision) if isinstance(gpus, list) and gpus else None
    flops, rate = training_flops(record), record.samples_per_s
    trained_there = record.settings.get("device") != "cpu"
    return flops * rate / (peak * record.cell.devices) if peak and flops and rate and trained_there else None


def _activations_kept(record: Any) -> float | None:
    recomputed = record.identity.recomputed if record.identity else None
    return recomputed.kept_bytes / recomputed.usual_bytes if recomputed and recomputed.usual_bytes else None


def _step_ms(record: Any) -> float | None:
    return 1e3 * record.phases["train"].step_s if "train" in record.phases else None


_DECLARED = (
    Metric(
        "samples_per_s", "samples/s", "median over launches (lowest\u2013highest)",
        read=lambda record: record.samples_per_s, label="samples/s",
        ends=("samples_per_s_min", "samples_per_s_max"), better=HIGHER, marked=True,
        headline=True,
    ),
    Metric(
        "step_ms_median", "ms", "median over all windows of all launches (quartiles)", read=_step_ms,
        label="step ms", ends=("step_ms_q1", "step_ms_q3"), better=LOWER, marked=True, headline=True,
    ),
    Metric(
        "train_of_compute", "share", "samples/s relative to the same steps on batches that are already on the device; "
        "1 means that loading costs nothing", label="loader efficiency", form=".2f", better=HIGHER, headline=True,
    ),
    Metric(
        "first_step_s", "s", "time from everything being ready to the first loss, compiling included",
        read=lambda record: record.first_step_s, label="first step s", better=LOWER, marked=True, headline=True,
        launches=True,
    ),
    Metric(
        "compile_s", "s", "part of it that was spent compiling", read=lambda record: record.compile_s,
        label="compile s", better=LOWER, headline=True, launches=True,
    ),
    Metric(
        "break_even_steps", "steps", "steps until compiling has saved the time that it took, compared with the "
        "framework's usual mode", label="pays after", better=LOWER, headline=True,
    ),
    Metric(
        "peak_memory_bytes", "bytes", "the highest of all launches", label="peak memory MiB", per=2**20, better=LOWER,
        marked=True, headline=True,
    ),
    Metric(
        "cpu_cores", "cores", "kept busy by the worker's processes", source="host.cpu_cores", label="CPU cores",
    ),
    Metric(
        "other_cpu_cores", "cores", "CPU cores kept busy by other processes", source="host.other_cpu_cores",
        label="background load",
    ),
    Metric(
        "words_per_s", "words/s", "words trained on, without padding; empty with fixed lengths",
        read=_of_shapes(lambda shapes, record: sum(shapes.words) / sum(
            window.seconds for window in record.phases["train"].windows
        )), label="words/s", better=HIGHER, launches=True,
    ),
    Metric(
        "padding_share", "share", "padding relative to words and padding; empty with fixed lengths",
        read=_of_shapes(lambda shapes, _: 1 - sum(shapes.words) / sum(shapes.places)), label="padding %", per=0.01,
        better=LOWER, launches=True,
    ),
    Metric(
        "programs", "programs", "compiled, or traced by TensorFlow, for the lengths of batches; empty with fixed "
        "lengths", read=_of_shapes(lambda shapes, _: float(shapes.programs)), label="programs", launches=True,
    ),
    Metric(
        "compiled_in_windows", "programs", "those of them that were compiled inside the windows, whose time is in the "
        "throughput", read=_of_shapes(lambda shapes, _: float(shapes.compiled)), label="compiled in windows",
        launches=True,
    ),
    Metric(
        "model_flops_utilisation", "share", "the model's FLOP/s relative to a large matrix product in the same "
        "precision (the best that any framework measured on the device)", label="MFU %", per=0.01, better=HIGHER,
    ),
    Metric(
        "datasheet_flops_utilisation", "share", "the model's FLOP/s relative to the dense peak of the GPU's data sheet "
        "in the same precision", read=datasheet_utilisation, label="MFU % of data sheet", per=0.01, better=HIGHER,
    ),
    Metric(
        "gpu_utilisation_percent", "%", "share of the time in which any kernel ran",
        source="gpu.gpu_utilisation_percent", label="GPU busy %",
    ),
    Metric(
        "sm_utilisation_percent", "%", "how much of the GPU worked", source="gpu.gpm_sm_utilisation_percent",
        label="SM active %",
    ),
    Metric(
        "sm_occupancy_percent", "%", "warps in flight relative to the most that fit",
        source="gpu.gpm_sm_occupancy_percent", label="SM occupancy %",
    ),
    Metric(
        "tensor_percent", "%", "how much of the tensor cores worked", source="gpu.gpm_tensor_percent",
        label="tensor pipe %",
    ),
    Metric(
        "dram_bandwidth_percent", "%", "memory bandwidth used, of the GPU's most",
        source="gpu.gpm_dram_bandwidth_percent", label="DRAM %",
    ),
    Metric(
        "gpu_memory_used_bytes", "bytes", "memory of the GPU in use, by all processes", source="gpu.memory_used_bytes",
        label="GPU memory MiB", per=2**20,
    ),
    Metric("power_w", "W", "power of the GPU", source="gpu.power_w", label="power W"),
    Metric("sm_clock_mhz", "MHz", "clock of the GPU's multiprocessors", source="gpu.sm_clock_mhz"),
    Metric("temperature_c", "\u00b0C", "temperature of the GPU", source="gpu.temperature_c"),
    Metric(
        "energy_j_per_sample", "J/sample", "energy of all GPUs that trained", read=joules_per_sample,
        label="mJ per sample", per=1e-3, better=LOWER,
    ),
    Metric(
        "fragmentation", "times", "the peak of what the GPU's allocator reserved over the peak of what it gave out",
        read=fragmentation, label="reserved / allocated", better=LOWER,
    ),
    Metric(
        "activations_kept", "share", "bytes that a forward pass keeps for the backward pass, relative to those without "
        "checkpointing", read=_activations_kept, label="activations kept %", per=0.01,
    ),
    Metric(
        "cost_per_million_samples", "currency", "the price of training on a million samples, by the prices given",
        label="cost per 1M samples", better=LOWER,
    ),
    Metric(
        "cost_per_epoch", "currency", "the same of training on every sample once; empty for data sets of other users",
        label="cost per epoch", better=LOWER,
    ),
)  # fmt: skip

#: By their names, in the order of a table's columns.
METRICS: dict[str, Metric] = {metric.name: metric for metric in _DECLARED}


def monitor_metrics() -> list[Metric]:
    """Returns the metrics in a table's second part, most of them the monitor's."""
    return [metric for metric in METRICS.values() if not metric.headline]

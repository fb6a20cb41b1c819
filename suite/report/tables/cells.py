"""All findings on a cell that was timed, and their columns in `cells.csv`.

Times are in seconds (``_s``) or milliseconds (``_ms``), memory is in bytes, throughput is samples per second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suite.analysis.bottlenecks.bottleneck import Bottleneck
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.groups import ON_DEMAND, SETTINGS, Group
from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.scaling import Exchange
from suite.catalog.metrics import METRICS


@dataclass(frozen=True, kw_only=True)
class Spread:
    """The median, the lowest and the highest of launches, or the quartiles of windows; null if there are none."""

    median: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Devices:
    """What a cell of several devices has besides the others; of one device, its own batch and threads.

    ``global_batch`` is the samples of an update, of all devices. ``threads_per_device`` is text, empty on a GPU.
    ``efficiency`` is the throughput per device relative to one device with the same batch.
    """

    devices: int
    strategy: str
    global_batch: int | None
    threads_per_device: str
    efficiency: Estimate | None
    communication: Estimate | None
    exchange: Exchange
    allreduce_of_peak: float | None


@dataclass(frozen=True, kw_only=True)
class TimedCell:
    """A cell that was timed: one row of a table.

    ``settings`` are its settings by name, ``best`` the columns in which it is significantly the best. Times end in
    their unit; ``loader_efficiency`` is its throughput relative to the same steps without the loader. ``identity`` is
    null without a good launch, ``control`` is a second copy of the cell relative to it, and ``metrics`` are null where
    they were not measured.
    """

    cell: str
    framework: str
    settings: dict[str, str]
    launches: int
    launches_ok: int
    samples_per_s: Spread
    ratio: Estimate
    control: Estimate | None
    windows: int
    step_ms: Spread
    loader_efficiency: float | None
    bottleneck: Bottleneck
    advice: str
    symptoms: str
    metrics: dict[str, float | None]
    first_step_s: float | None
    compile_s: float | None
    break_even_steps: float | None
    peak_memory_bytes: int | None
    peak_memory_kind: str
    identity: Verdict | None
    outcome: str
    reason: str
    flags: str
    batch_search: str
    machine: str
    devices: Devices
    best: Sequence[str]

    def figure(self, name: str) -> float | None:
        """Returns a metric, or an end of its range, by the name of its column."""
        found: float | None = _read(self, COLUMNS[name]) if name in COLUMNS else self.metrics[name]
        return found


#: Where a cell has what stands in a column; the metrics of a launch follow those of `SPEED`, and all others the last.
SPEED = {
    "launches": "launches", "launches_ok": "launches_ok",
    "samples_per_s": "samples_per_s.median", "samples_per_s_min": "samples_per_s.low",
    "samples_per_s_max": "samples_per_s.high",
    "ratio": "ratio.value", "ratio_min": "ratio.low", "ratio_max": "ratio.high",
    **{f"ratio_{name}": f"ratio.{name}"
       for name in ("blocks", "baseline", "p", "verdict", "blocks_to_decide", "reason", "caveat")},
    "control_ratio": "control.value", "control_min": "control.low", "control_max": "control.high",
    "control_verdict": "control.verdict", "windows": "windows",
    "step_ms_median": "step_ms.median", "step_ms_q1": "step_ms.low", "step_ms_q3": "step_ms.high",
    "train_of_compute": "loader_efficiency",
    "bottleneck": "bottleneck.kind", "bottleneck_detail": "bottleneck.detail",
    "loading_share": "bottleneck.loading.value", "loading_share_low": "bottleneck.loading.low",
    "loading_share_high": "bottleneck.loading.high", "advice": "advice", "symptoms": "symptoms",
}  # fmt: skip
OTHERS = {
    **{name: name for name in ("first_step_s", "compile_s", "break_even_steps", "peak_memory_bytes",
                               "peak_memory_kind", "identity")},
    "identity_kind": "identity.kind", "identity_losses_deviation": "identity.losses",
    "identity_updates_deviation": "identity.updates",
    **{name: name for name in ("outcome", "reason", "flags", "batch_search", "machine")},
    "global_batch": "devices.global_batch", "threads_per_device": "devices.threads_per_device",
    "efficiency": "devices.efficiency.value", "efficiency_min": "devices.efficiency.low",
    "efficiency_max": "devices.efficiency.high", "efficiency_verdict": "devices.efficiency.verdict",
    "communication_percent": "devices.communication.value", "communication_percent_min": "devices.communication.low",
    "communication_percent_max": "devices.communication.high", "skew": "devices.exchange.skew",
    "allreduce_bytes_per_s": "devices.exchange.bytes_per_s", "allreduce_of_peak": "devices.allreduce_of_peak",
}  # fmt: skip
COLUMNS = {**SPEED, **OTHERS}


def columns(group: Group, cell: TimedCell) -> dict[str, Any]:
    """Returns the cell as a row of `cells.csv`; None for a figure that is missing."""
    of_launches = {name: value for name, value in cell.metrics.items() if METRICS[name].is_of_launch}
    return {
        "workload": group.workload,
        "size": cell.settings["size"],
        **{name: getattr(group, name) for name in ("data_kind", "data_digest", "spec_digest")},
        "cell": cell.cell,
        "framework": cell.framework,
        **{name: cell.settings[name] for name in SETTINGS if name not in ON_DEMAND},
        **{name: _value(cell, name) for name in SPEED},
        **of_launches,
        **{name: _value(cell, name) for name in OTHERS},
        **{name: value for name, value in cell.metrics.items() if name not in of_launches},
    }


def _value(cell: TimedCell, name: str) -> Any:
    value = _read(cell, COLUMNS[name])
    if name == "identity" or name.endswith(("_verdict", "_kind")):
        return str(value or "")
    return 100 * value if name.startswith("communication") and value is not None else value


def _read(finding: Any, path: str) -> Any:
    """Returns an attribute of attributes, None where one of them is missing."""
    for name in path.split("."):
        finding = getattr(finding, name, None)
    return finding

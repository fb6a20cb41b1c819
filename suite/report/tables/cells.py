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
from suite.analysis.statistics.scaling import Communication, Exchange
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
    communication: Communication | None
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

    @property
    def figures(self) -> dict[str, float | None]:
        """All metrics, and their bounds, by the names of their columns."""
        return {
            **_parts(self.samples_per_s, samples_per_s="median", samples_per_s_min="low", samples_per_s_max="high"),
            **_parts(self.step_ms, step_ms_median="median", step_ms_q1="low", step_ms_q3="high"),
            "train_of_compute": self.loader_efficiency,
            **{name: getattr(self, name) for name in _OWN},
            **self.metrics,
        }


def columns(group: Group, cell: TimedCell) -> dict[str, Any]:
    """Returns the cell as a row of `cells.csv`."""
    devices, figures = cell.devices, cell.figures
    of_launches = [name for name in cell.metrics if METRICS[name].is_of_launch]
    return {
        "workload": group.workload,
        "size": cell.settings["size"],
        **{name: getattr(group, name) for name in ("data_kind", "data_digest", "spec_digest")},
        "cell": cell.cell,
        "framework": cell.framework,
        **{name: cell.settings[name] for name in SETTINGS if name not in ON_DEMAND},
        "launches": cell.launches,
        "launches_ok": cell.launches_ok,
        **{name: figures[name] for name in ("samples_per_s", "samples_per_s_min", "samples_per_s_max")},
        **_parts(cell.ratio, ratio="value", ratio_min="low", ratio_max="high"),
        **{f"ratio_{name}": getattr(cell.ratio, name) for name in _OF_RATIO},
        **_parts(cell.control, control_ratio="value", control_min="low", control_max="high"),
        "control_verdict": cell.control.verdict if cell.control else "",
        "windows": cell.windows,
        **{name: figures[name] for name in ("step_ms_median", "step_ms_q1", "step_ms_q3", "train_of_compute")},
        **_parts(cell.bottleneck, bottleneck="kind", bottleneck_detail="detail"),
        **_parts(cell.bottleneck, loading_share="loading", loading_share_low="low", loading_share_high="high"),
        "advice": cell.advice,
        "symptoms": cell.symptoms,
        **{name: cell.metrics[name] for name in of_launches},
        **{name: figures[name] for name in _OWN},
        "peak_memory_kind": cell.peak_memory_kind,
        "identity": str(cell.identity or ""),
        "identity_kind": cell.identity.kind if cell.identity else "",
        **_parts(cell.identity, identity_losses_deviation="losses", identity_updates_deviation="updates"),
        **{name: getattr(cell, name) for name in ("outcome", "reason", "flags", "batch_search", "machine")},
        "global_batch": devices.global_batch,
        "threads_per_device": devices.threads_per_device,
        **_parts(devices.efficiency, efficiency="value", efficiency_min="low", efficiency_max="high"),
        "efficiency_verdict": devices.efficiency.verdict if devices.efficiency else "",
        "communication_percent": _percent(devices.communication, "share"),
        "communication_percent_min": _percent(devices.communication, "low"),
        "communication_percent_max": _percent(devices.communication, "high"),
        "skew": devices.exchange.skew,
        "allreduce_bytes_per_s": devices.exchange.bytes_per_s,
        "allreduce_of_peak": devices.allreduce_of_peak,
        **{name: value for name, value in cell.metrics.items() if name not in of_launches},
    }


_OF_RATIO = ("blocks", "baseline", "p", "verdict", "blocks_to_decide", "reason", "caveat")
_OWN = ("first_step_s", "compile_s", "break_even_steps", "peak_memory_bytes")


def _parts(finding: object, **names: str) -> dict[str, Any]:
    """Returns attributes of a finding by the names of their columns, None without the finding."""
    return {column: getattr(finding, name, None) for column, name in names.items()}


def _percent(cost: Communication | None, name: str) -> float | None:
    share: float | None = getattr(cost, name, None)
    return None if share is None else 100 * share

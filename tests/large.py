"""Large files as runs leave them, for tests: launches that hold as much as real ones. They measured nothing."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.record.record import Record
from tests import records
from tests.records import STEP_S

HOST = ("cpu_cores", "other_cpu_cores", "context_switches_per_s", "rss_bytes", "threads", "available_bytes")
GPU = (
    "gpu_utilisation_percent", "memory_utilisation_percent", "memory_used_bytes", "power_w", "power_average_w",
    "power_from_energy_w", "temperature_c", "memory_temperature_c", "sm_clock_mhz", "memory_clock_mhz", "clock_events",
    "pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s", "gpm_graphics_percent", "gpm_sm_utilisation_percent",
    "gpm_sm_occupancy_percent", "gpm_tensor_percent", "gpm_dram_bandwidth_percent", "gpm_fp32_percent",
)  # fmt: skip
PARTS = ("kernel", "bias")


def noted(record: Record, points: int, gpus: int) -> Record:
    """The record with as much in it as a real one has."""
    draw = random.Random(record.key)
    layers = [f"layer{number}/{part}" for number in range(8) for part in PARTS]
    assert record.identity
    identity = replace(record.identity, updates={name: 0.01 * (1 + number) for number, name in enumerate(layers)})
    metrics = {
        "host": _seen(HOST, points, draw),
        "gpus": [{"name": "Example GPU", "memory_bytes": 80 * 2**30, **_seen(GPU, points, draw)} for _ in range(gpus)],
    }
    packages = {"torch": "2.13.0", "numpy": "2.4.6"}
    environment = record.environment | {"packages": packages, "system": "Linux 6.1 x86_64", "python": "3.11.7"}
    settings = {"device": "cpu", "threads": 8, "optimizer": "fused", "kernels": {}, "peak_flops_per_s": 1e12}
    return replace(record, identity=identity, metrics=metrics, environment=environment, settings=settings)


def _seen(names: Sequence[str], points: int, draw: random.Random) -> dict[str, Any]:
    def value() -> float:
        return float(f"{draw.uniform(1, 100):.6g}")

    phases = {
        phase: {name: {"median": value(), "p5": value(), "p95": value(), "max": value(), "n": 12} for name in names}
        for phase in ("train", "compute", "input")
    }
    line = {"at_s": [round(0.1 * at, 3) for at in range(points)]}
    values = {name: [value() for _ in range(points)] for name in names}
    return {"phases": phases, "totals": {}, "timeline": {**line, "values": values}}


def journal(path: Path, launches: int, cells: int = 4) -> None:
    """A journal of so many launches, block by block, with about 11 KB in a line.

    Only what differs between launches is made anew: making records takes longer than comparing them.
    """
    chosen = itertools.islice(itertools.product((32, 64, 128, 256), STEP_S), cells)
    templates = [noted(records.record(name, batch=batch, run="scale"), 98, 0).to_json() for batch, name in chosen]
    draw = random.Random(launches).random
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps({"run": {"id": "scale", "seed": 1}}) + "\n")
        for number in range(launches):
            block, position = divmod(number, cells)
            line = templates[position] | {"launch": block, "run": {"id": "scale", "seed": 1, "position": number}}
            line["started"] = f"2026-03-01T10:{block // 60 % 60:02d}:{block % 60:02d}+00:00"
            factor = 0.98 + 0.04 * draw()
            line["phases"] = {
                name: phase | {"windows": [[steps, seconds * factor] for steps, seconds in windows]}
                for name, phase in line["phases"].items()
                for windows in [phase["windows"]]
            }
            line["identity"] = line["identity"] | {
                "losses": [loss * (1 + 1e-9 * draw()) for loss in line["identity"]["losses"]]
            }
            file.write(json.dumps(line) + "\n")

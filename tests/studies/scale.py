"""How long does a comparison take, and how much memory? ``python -m tests.studies.scale`` makes runs and compares.

First one saved run of many cells, as `pytest suite --benchmark-save` writes them, plots included; then several large
files, whose records hold long lines over time; with ``--journal 50000`` one journal of so many launches as well. What
is generated is no measurement of anything.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suite.plan.cell import Loader
from suite.record.record import Record
from tests import records

ROOT = Path(__file__).parents[2]

#: What a comparison of 500 cells with ten launches each may take; the memory is that of a journal of 50,000 too.
MOST_S, MOST_BYTES = 5.0, 2**30

HOST = ("cpu_cores", "other_cpu_cores", "context_switches_per_s", "rss_bytes", "threads", "available_bytes")
GPU = (
    "gpu_utilisation_percent", "memory_utilisation_percent", "memory_used_bytes", "power_w", "power_average_w",
    "power_from_energy_w", "temperature_c", "memory_temperature_c", "sm_clock_mhz", "memory_clock_mhz", "clock_events",
    "pcie_tx_bytes_per_s", "pcie_rx_bytes_per_s", "gpm_graphics_percent", "gpm_sm_utilisation_percent",
    "gpm_sm_occupancy_percent", "gpm_tensor_percent", "gpm_dram_bandwidth_percent", "gpm_fp32_percent",
)  # fmt: skip
PARTS = ("kernel", "bias")


@dataclass(frozen=True)
class Cost:
    """Of one comparison, as its process had it."""

    seconds: float
    peak_bytes: int
    status: int


def measured(paths: Iterable[Path], output: Path) -> Cost:
    """Compare these files in a process of its own."""
    command = [sys.executable, "-m", "suite.compare", *map(str, paths), "--output", str(output)]
    begin = time.perf_counter()
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        # A process starts with the peak of the one that made it; this one stays far smaller.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(time.perf_counter() - begin, usage.ru_maxrss * 1024, process.returncode)


def many_cells(cells: int, launches: int, points: int = 30) -> Iterator[Record]:
    """So many cells over every axis, block by block."""
    axes = itertools.product(
        ("cifar100_cnn", "imdb_lstm"),
        ("fp32", "bf16", "fp64", "tf32"),
        (16, 32, 64, 128, 256, 512, 1024),
        (Loader(), Loader("naive"), Loader("workers", 2)),
        ("pytorch", "tensorflow", "jax"),
    )
    chosen = list(itertools.islice(axes, cells))
    for block in range(launches):
        for workload, precision, batch, loader, framework in chosen:
            one = records.record(
                framework, block, workload=workload, precision=precision, batch=batch, loader=loader, run="scale"
            )
            yield noted(one, points=points, gpus=0)


def long_lines(run: str, launches: int) -> Iterator[Record]:
    """Launches of a dozen cells with a GPU that was watched for minutes."""
    for number in range(launches):
        framework, batch = ("pytorch", "tensorflow", "jax")[number % 3], 32 * 2 ** (number // 3 % 4)
        yield noted(records.record(framework, number // 12, batch=batch, run=run), points=600, gpus=1)


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


def save(path: Path, held: Iterable[Record], run: str) -> int:
    """A saved run, indented as pytest-benchmark does it and written record by record; the number of records."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        file.write('{\n    "machine_info": {},\n    "benchmarks": [\n')
        for count, record in enumerate(held, 1):
            times = record.phases["train"].step_times_s
            entry = {
                "group": record.cell.workload,
                "name": f"test_training[{record.cell.id}-launch{record.launch}]",
                "extra_info": {"record": record.to_json()},
                "stats": {"min": min(times), "max": max(times), "data": times},
            }
            file.write(",\n" if count > 1 else "")
            file.write(json.dumps(entry, indent=4))
        suite = {"schema": 1, "run": {"id": run, "seed": 0}, "failed": []}
        file.write(f'\n    ],\n    "version": "5.3.1",\n    "suite": {json.dumps(suite)}\n}}\n')
    return count


def journal(path: Path, launches: int, cells: int = 100) -> None:
    """A journal of so many launches, block by block, with about 11 KB in a line.

    Only what differs between launches is made anew: making records takes longer than comparing them.
    """
    templates = [record.to_json() for record in many_cells(cells, 1, points=98)]
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Generate, compare and print; the exit status is 1 where a comparison failed or the first took too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=500, help="of the first run (default: 500)")
    parser.add_argument("--launches", type=int, default=10, help="of each of them (default: 10)")
    parser.add_argument("--files", type=int, default=10, help="large ones (default: 10)")
    parser.add_argument("--size", type=int, default=84, metavar="N", help="launches in each (default: 84, about 50 MB)")
    parser.add_argument("--journal", type=int, default=0, metavar="N", help="launches in one journal (default: none)")
    options = parser.parse_args(arguments)
    failed = False
    print(f"{'':22}{'launches':>9}{'MB':>7}{'s':>8}{'peak MiB':>10}")
    with tempfile.TemporaryDirectory(prefix="scale-") as name:
        folder = Path(name)
        one = folder / "0001_scale.json"
        count = save(one, many_cells(options.cells, options.launches), "scale")
        cost = _told(f"{options.cells} cells, plots", count, [one], folder)
        failed |= bool(cost.status) or cost.seconds > MOST_S or cost.peak_bytes > MOST_BYTES
        one.unlink()
        if options.files:
            paths = [folder / f"{number:04}_long.json" for number in range(options.files)]
            held = ((path, path.stem) for path in paths)
            count = sum(save(path, long_lines(run, options.size), run) for path, run in held)
            failed |= bool(_told(f"{options.files} large files", count, paths, folder).status)
        if options.journal:
            long = folder / "long.jsonl"
            journal(long, options.journal)
            cost = _told("one journal", options.journal, [long], folder)
            failed |= bool(cost.status) or cost.peak_bytes > MOST_BYTES
    return int(failed)


def _told(what: str, launches: int, paths: Sequence[Path], folder: Path) -> Cost:
    size = sum(path.stat().st_size for path in paths) / 1e6
    cost = measured(paths, folder / "out")
    ended = f"  exit status {cost.status}" if cost.status else ""
    print(f"{what:22}{launches:>9}{size:>7.0f}{cost.seconds:>8.1f}{cost.peak_bytes / 2**20:>10.0f}{ended}", flush=True)
    return cost


if __name__ == "__main__":
    sys.exit(main())

"""Records and run files for tests: plausible figures from settings and a seed, with no measurement behind them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from suite.cell import Cell
from suite.record import Identity, Outcome, Phase, Record, Window

#: Seconds of a step per sample, of starting, and of compiling, roughly as CPU prototypes had them.
STEP_S = {"pytorch": 1.0e-3, "tensorflow": 0.8e-3, "jax": 2.5e-3}
IMPORT_S = {"pytorch": 1.0, "tensorflow": 2.9, "jax": 0.4}
COMPILE_S = {"eager": None, "graph": 0.6, "compile": 2.2}
MACHINE = {"cpu": "Example CPU 3000", "cores": 8, "memory_bytes": 32 * 2**30, "gpus": []}
LOSSES = tuple(4.605 * 0.97**step for step in range(10))
UPDATES = {"conv1/kernel": 0.012, "conv1/bias": 0.0041, "dense/kernel": 0.0087}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def record(
    framework: str = "pytorch",
    launch: int = 0,
    *,
    workload: str = "cifar100_cnn",
    kind: str = "real",
    run: str = "run-a",
    **changes: Any,
) -> Record:
    """A launch that ended well. ``changes`` are settings of the cell, or fields of the record, which go first."""
    of_record = {name: changes.pop(name) for name in list(changes) if name in Record.__dataclass_fields__}
    cell = Cell(workload, framework, **changes)
    draw = np.random.default_rng(int(digest(f"{cell.id}#{launch}")[:8], 16))
    step_s = STEP_S[framework] * cell.batch * (0.8 if cell.compile == "compile" else 1) * (1 + 0.02 * draw.normal())
    compile_s = COMPILE_S[cell.compile]
    made = Record(
        cell,
        Outcome(),
        launch,
        started=f"2026-03-01T10:{launch:02d}:00+00:00",
        run={"id": run, "seed": 1, "position": launch},
        data={"name": workload.partition("_")[0], "kind": kind, "digest": digest(f"{workload} {kind}")},
        workload={"parameters": 1_000_000, "flops_per_sample": 10**9, "digest": digest(f"{workload} {cell.size}")},
        identity=identity(framework, cell.batch, run, noise=1e-6),
        startup={
            "interpreter_s": 0.05,
            "import_s": IMPORT_S[framework],
            "data_s": 0.02,
            "build_s": 0.3,
            "first_batch_s": 0.08,
        },
        compile_s=compile_s,
        first_step_s=3 * step_s + (compile_s or 0),
        phases={
            "train": phase(step_s, draw),
            "compute": phase(step_s * 0.9, draw),
            "input": phase(step_s * 0.05, draw),
        },
        memory={"rss_peak_bytes": int(700e6 + 1e6 * cell.batch)},
        environment={"machine": MACHINE, "digest": digest(framework)},
    )
    return replace(made, **of_record)


def identity(framework: str, batch: int = 32, seed: str = "", noise: float = 0.0) -> Identity:
    """The fingerprint that all share, each framework off by about ``noise``."""
    off = 1 + noise * {"pytorch": 0.0, "tensorflow": 1.0, "jax": -2.0}[framework]
    losses = tuple(loss * off for loss in LOSSES)
    return Identity(digest("weights"), digest(f"batch {batch}"), losses, {n: u * off for n, u in UPDATES.items()})


def phase(step_s: float, draw: np.random.Generator, windows: int = 8) -> Phase:
    """Windows of twenty steps that scatter by three percent, after two slower ones."""
    times = step_s * (1 + 0.03 * np.abs(draw.normal(size=windows)))
    return Phase(tuple(Window(20, 20 * float(t)) for t in times), (Window(5, 10 * step_s), Window(5, 6 * step_s)))


def failed(record: Record, status: str = "timeout", reason: str = "no answer after 600 s") -> Record:
    """The same launch, ended before it measured anything."""
    changes: dict[str, Any] = {"outcome": Outcome(status, reason), "phases": {}, "identity": None, "memory": {}}
    return replace(record, **changes, data={}, workload={}, compile_s=None, first_step_s=None)


def launches(frameworks: Sequence[str] = ("pytorch", "tensorflow", "jax"), n: int = 3, **changes: Any) -> list[Record]:
    """``n`` launches of one cell per framework, block by block."""
    return [record(framework, block, **changes) for block in range(n) for framework in frameworks]


def saved(records: Iterable[Record], run: str = "run-a") -> dict[str, Any]:
    """A run as pytest-benchmark's JSON with the suite's part in it."""
    records = list(records)
    return {
        "machine_info": {"node": "example"},
        "datetime": "2026-03-01T11:00:00+00:00",
        "version": "5.3.1",
        "benchmarks": [
            {"name": f"test_training[{r.cell.id}]", "stats": {}, "extra_info": {"record": r.to_json()}}
            for r in records
            if r.outcome.ok
        ],
        "suite": {
            "schema": 1,
            "run": {"id": run, "seed": 1, "matrix": "smoke", "launches": 3, "started": "2026-03-01T10:00:00+00:00"},
            "failed": [r.to_json() for r in records if not r.outcome.ok],
        },
    }


def save(path: Path, records: Iterable[Record], run: str = "run-a") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(saved(records, run)), encoding="utf-8")
    return path


def journal(path: Path, records: Iterable[Record]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r.to_json()) + "\n" for r in records), encoding="utf-8")
    return path

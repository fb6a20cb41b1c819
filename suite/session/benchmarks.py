"""Saves the launches of a search as `pytest suite --benchmark-save` saves those of a run: pytest-benchmark's JSON."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest_benchmark
from pytest_benchmark import plugin as benchmarks
from pytest_benchmark.stats import Stats
from pytest_benchmark.utils import get_commit_info, get_machine_id

from suite.plan.blocks import launch_id
from suite.record.files.saved import SCHEMA
from suite.record.record import Record
from suite.session.run import Run
from suite.session.storage import PROJECT, compact, describe_commit, save, shorten_name


def save_run(run: Run, storage: Path, name: str) -> Path:
    """Save the launches of a run under the next free number; returns the file. Raises OSError."""
    return save(storage / get_machine_id(), shorten_name(name), compact(content(run)).encode())


def content(run: Run) -> dict[str, Any]:
    """The run as pytest-benchmark writes it, with the suite's part; of a repeated launch the last one counts."""
    records = list({record.key: record for record in run.records}.values())
    machine = benchmarks.pytest_benchmark_generate_machine_info()
    machine.pop("node", None)  # so that a saved run can be published as it is
    failed = [record.to_json() for record in records if not record.outcome.ok]
    return {
        "machine_info": machine,
        "commit_info": describe_commit(get_commit_info(PROJECT)),
        "benchmarks": list(_entries(records)),
        "datetime": datetime.now(UTC).isoformat(),
        "version": pytest_benchmark.__version__,
        "suite": {"schema": SCHEMA, "run": run.info, "failed": failed},
    }


def _entries(records: Iterable[Record]) -> Iterable[dict[str, Any]]:
    for record in records:
        if record.outcome.ok:
            launch = launch_id(record.cell, record.launch)
            stats = Stats()
            for seconds in record.phases["train"].step_times_s:
                stats.update(seconds)
            yield {
                "group": record.cell.workload,
                "name": f"test_training[{launch}]",
                "fullname": f"suite/test_training.py::test_training[{launch}]",
                "params": {"launch_id": launch},
                "param": launch,
                "extra_info": {"record": record.to_json()},
                "options": {},
                "stats": {**stats.as_dict(), "data": stats.data, "iterations": 1},
            }

"""A small matrix as users measure and compare it: `pytest suite --benchmark-save`, then `python -m suite.compare`."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest

from suite.record.record import Record
from tests.cuda import background
from tests.cuda.background import Compared
from tests.cuda.cells import DEVICE, MATRIX
from tests.cuda.launcher import Launches
from tests.sessions import records_of

GPU_COLUMNS = ("power_w", "gpu_utilisation_percent", "gpu_memory_used_bytes", "sm_clock_mhz", "temperature_c")


@pytest.fixture
def whole_run(launches: Launches) -> Compared:
    return background.compared(launches)


def test_a_small_matrix_is_measured_and_saved(whole_run: Compared, figures: dict[str, Any]) -> None:
    assert whole_run.status == 0, whole_run.said[-4000:]
    (path,) = (whole_run.folder / "runs").rglob("*.json")
    records: list[Record] = records_of(json.loads(path.read_text()))
    figures["whole_run/records"] = {record.key: dict(record.metrics.get("absent", {})) for record in records}
    assert len(records) == 2 * len(MATRIX[0]) * len(whole_run.frameworks)
    for record in records:
        assert record.outcome.ok, record.outcome
        assert record.settings["device"] == DEVICE
        assert bool(record.metrics["gpus"]) == (DEVICE == "cuda")


def test_the_comparison_has_metrics_of_the_gpu_and_plots(whole_run: Compared, figures: dict[str, Any]) -> None:
    assert whole_run.compare_status == 0, whole_run.compare_said[-4000:]
    out = whole_run.folder / "out"
    with (out / "cells.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    figures["whole_run/cells"] = {row["cell"]: {name: row[name] for name in GPU_COLUMNS} for row in rows}
    figures["whole_run/plots"] = sorted(path.name for path in out.glob("*.png"))
    assert len(rows) == len(MATRIX[0]) * len(whole_run.frameworks)
    assert figures["whole_run/plots"]
    if DEVICE == "cuda":
        for row in rows:
            assert all(row[name] for name in GPU_COLUMNS), row
        assert all(heading in whole_run.compare_said for heading in ("power", "GPU mem"))

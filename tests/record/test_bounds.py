"""Readings that no sensor and no machine can give are refused by the unit in their name."""

from __future__ import annotations

import json
from typing import Any

import pytest

from suite.record.parts.bounds import drop_outside
from suite.record.record import SCHEMA, Record, RecordError
from tests import records
from tests.record.test_record_refused import changed


def watched(gpu: object = 40.0, cores: object = 1.5, line: object = 3) -> dict[str, Any]:
    """Readings as the monitor writes them."""
    host = {"cores": 2, "phases": {"train": {"cpu_cores": {"median": cores, "p5": 1.0, "max": 1.9, "n": 50_000}}}}
    timeline = {"at_ms": [0, 500], "lines": {"power_w": {"e": 2, "n": [None, line]}}}
    device = {"phases": {"train": {"gpu_utilisation_percent": {"median": gpu, "n": 3}}}, "timeline": timeline}
    return {"host": host, "gpus": [device]}


@pytest.mark.parametrize("schema", range(1, SCHEMA + 1))
@pytest.mark.parametrize(
    ("readings", "problem"),
    [
        ({"gpu": 5000.0}, r"gpus\[0\]\.phases\.train\.gpu_utilisation_percent is 5000; it can be from 0 to 110"),
        ({"cores": -7.5}, r"host\.phases\.train\.cpu_cores is -7\.5; it can be from 0 to 100000"),
        ({"cores": 9.0}, r"host\.phases\.train\.cpu_cores is 9; it can be from 0 to 4"),
        ({"line": 4000}, r"gpus\[0\]\.timeline\.lines\.power_w is 400000; it can be from 0 to 10000"),
    ],
)
def test_a_reading_beyond_what_its_unit_allows_is_refused(schema: int, readings: dict[str, Any], problem: str) -> None:
    """They were printed as they stood."""
    data = json.loads(json.dumps(records.record().to_json())) | {"schema": schema}
    if schema < 4:
        for phase in data["phases"].values():
            phase.pop("spans", None)
            for part in ("windows", "warmup"):
                phase[part] = [{"steps": steps, "seconds": seconds} for steps, seconds in phase[part]]
    assert Record.from_json(data | {"metrics": watched()})
    with pytest.raises(RecordError, match=f"^metrics\\.{problem}$"):
        Record.from_json(data | {"metrics": watched(**readings)})


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("settings.peak_flops_per_s", -1.0, "settings.peak_flops_per_s is -1; it can be from 0"),
        ("workload.parameters", -5, "workload.parameters is -5; it can be from 0"),
        ("environment.machine.cores", 0, "environment.machine.cores is 0; it can be from 1"),
    ],
)
def test_a_fact_beyond_what_can_be_is_refused(path: str, value: float, problem: str) -> None:
    with pytest.raises(RecordError, match=problem):
        Record.from_json(changed(path, value))


def test_steps_that_take_no_time_are_refused() -> None:
    with pytest.raises(RecordError, match=r"phases\.train has .*: no step takes less than 1e-08 s"):
        Record.from_json(changed("phases.train.windows.0", [10**9, 1e-9]))


def test_a_sensor_that_answers_nonsense_once_costs_its_reading_and_not_the_launch() -> None:
    metrics = watched(gpu=4294967295.0, cores=-7.5)
    reasons = drop_outside(metrics)
    assert reasons == {"cpu_cores": "it was read as -7.5", "gpu_utilisation_percent": "it was read as 4.29497e+09"}
    kept = records.record().to_json() | {"metrics": metrics}
    assert Record.from_json(kept).metrics["gpus"][0]["timeline"] == watched()["gpus"][0]["timeline"]

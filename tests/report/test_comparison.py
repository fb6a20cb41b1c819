"""The comparison as JSON: what its schema says, complete, and the same figures as the tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from suite.analysis.records.load import Launch, Loaded, load
from suite.analysis.rows.groups import group
from suite.analysis.statistics.accuracy import compare_accuracies, trains_to_the_end
from suite.plan.measuring import CONTROL
from suite.report.screen.comparison import json_schema, to_json
from suite.report.tables.frame import table
from tests import records
from tests.expected import golden
from tests.published import numbered

ROOT = Path(__file__).parents[2]


def compared(loaded: Loaded) -> dict[str, Any]:
    groups = group(loaded.launches)
    timed = [table(each, "pytorch") for each in groups if not trains_to_the_end(each)]
    trained = [compare_accuracies(each, "pytorch") for each in groups if trains_to_the_end(each)]
    text = to_json(timed, trained, loaded, ["0001_a.json"], ["a note"])
    data = json.loads(text)
    assert isinstance(data, dict)
    return data


def test_the_published_schema_is_up_to_date() -> None:
    """`UPDATE_GOLDEN=1 pytest tests/report` writes it anew."""
    golden(ROOT / "results" / "comparison.schema.json", json.dumps(json_schema(), indent=1) + "\n")
    assert "](comparison.schema.json)" in (ROOT / "results" / "SCHEMA.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["0005", "0009", "0023"])
def test_published_runs_fit_the_schema(name: str) -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.check_schema(json_schema())
    data = compared(load([numbered(name)]))
    validator.validate(data)
    assert not validator.is_valid(data | {"schema": 1})


def test_it_has_the_figures_of_the_tables() -> None:
    held = [
        *records.launches(n=6),
        *(replace(x, launch=x.launch + CONTROL) for x in records.launches(["pytorch"], n=6)),
    ]
    held.append(records.failed(records.record("jax", 6)))
    loaded = Loaded(tuple(Launch(x, "run-a", "0001_a.json") for x in held), runs={"run-a": {"planned": 30}})
    data = compared(loaded)
    (timed,) = data["tables"]
    frame = table(group(loaded.launches)[0], "pytorch").frame
    pytorch, tensorflow, jax = timed["cells"]
    assert tensorflow["ratio"]["value"] == frame["ratio"][1]
    assert tensorflow["ratio"]["p"] == frame["ratio_p"][1]
    assert tensorflow["ratio"]["verdict"] == "faster"
    assert "samples_per_s" in tensorflow["best"]
    assert pytorch["control"]["verdict"] in ("equal", "inconclusive")
    assert pytorch["ratio"]["p"] is None, "which compares a cell with itself"
    assert tensorflow["control"] is None
    assert (jax["launches"], jax["launches_ok"]) == (7, 6)
    assert "no answer after 600 s" in jax["reason"]
    assert tensorflow["loader_efficiency"] == frame["train_of_compute"][1]
    assert timed["power"]["noise"]["of_control"]
    assert data["runs"] == [{"id": "run-a", "launches": 25, "planned": 30}]
    assert data["sentences"][0].startswith("CIFAR-100 CNN (6 launches): TensorFlow is fastest: ")
    assert data["notes"] == ["a note"]


def test_trained_cells_have_their_differences() -> None:
    (trained,) = compared(load([numbered("0009")]))["accuracies"]
    by_cell = {(each["framework"], each["precision"]): each for each in trained["cells"]}
    bf16 = by_cell["tensorflow", "bf16"]
    assert bf16["to_fp32"]["verdict"] == bf16["to_baseline"]["verdict"] == "same"
    assert bf16["to_fp32"]["difference"]["blocks"] == 8
    assert by_cell["jax", "bf16"]["to_fp32"] is None, "which has two seeds"

"""The published JSON Schema is what the types say, accepts every record, and refuses what `Record.from_json` does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from suite.record.json_schema import json_schema
from suite.record.record import Record
from tests import records
from tests.expected import golden

ROOT = Path(__file__).parents[2]
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def test_the_published_schema_is_up_to_date() -> None:
    """`UPDATE_GOLDEN=1 pytest tests/record` writes it anew."""
    golden(ROOT / "results" / "record.schema.json", json.dumps(json_schema(), indent=1) + "\n")
    assert "](record.schema.json)" in (ROOT / "results" / "SCHEMA.md").read_text(encoding="utf-8")


def test_it_is_a_schema_and_accepts_every_record() -> None:
    VALIDATOR.check_schema(VALIDATOR.schema)
    for record in [*records.mixed(), *records.everything(), records.trained()]:
        VALIDATOR.validate(json.loads(json.dumps(record.to_json())))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.update(verdict="fast"),
        lambda data: data.update(schema=3),
        lambda data: data.pop("cell"),
        lambda data: data["cell"].update(framework="theano"),
        lambda data: data["cell"]["loader"].update(threads=2),
        lambda data: data["outcome"].update(status="splendid"),
        lambda data: data["phases"].update(evaluate=data["phases"]["train"]),
        lambda data: data["phases"]["train"].update(windows=[]),
        lambda data: data["phases"]["train"].update(windows=[[0, 1.0]]),
        lambda data: data["phases"]["train"].update(windows=[[1, 0.0]]),
        lambda data: data["phases"]["train"].update(windows=[{"steps": 1, "seconds": 1.0}]),
        lambda data: data["startup"].update(import_s=-1.0),
        lambda data: data["memory"].update(rss_peak_bytes="1"),
        lambda data: data["course"]["epochs"][0].update(test_accuracy=1.5),
    ],
)
def test_it_refuses_what_a_record_cannot_be(change: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads(json.dumps(records.trained().to_json()))
    assert VALIDATOR.is_valid(data)
    assert Record.from_json(data) == records.trained()
    change(data)
    assert not VALIDATOR.is_valid(data)
    if data["schema"] == json_schema()["$defs"]["Record"]["properties"]["schema"]["const"]:
        with pytest.raises(ValueError, match=r"."):
            Record.from_json(data)

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from suite.record.record import SCHEMA, STATUSES, Outcome, Phase, Record, RecordError, Window
from tests import records


def test_a_record_survives_json() -> None:
    record = replace(records.record("jax", 3, batch=64), flags=("unsteady",))
    assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record
    assert record.to_json()["schema"] == SCHEMA
    assert record.key == f"{record.cell.id}#3"


def test_a_number_of_numpy_is_written_as_a_plain_one() -> None:
    record = replace(records.record(), first_step_s=np.float64(1.5), settings={"x": [np.float32(0.5)]})
    back = json.loads(json.dumps(record.to_json()))
    assert (back["first_step_s"], back["settings"]) == (1.5, {"x": [0.5]})


def test_the_bursts_of_a_phase_survive_json_and_the_one_span_of_old_records_is_one() -> None:
    record = records.record()
    spans = ((5.0, 6.0), (7.0, 8.5))
    record = replace(record, phases={name: replace(phase, spans=spans) for name, phase in record.phases.items()})
    assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record
    data = records.older(record, 3)
    assert {phase.spans for phase in Record.from_json(data).phases.values()} == {((5.0, 6.0),)}
    data["phases"]["train"]["span"] = None
    assert Record.from_json(data).phases["train"].spans == ()


def test_all_evidence_of_identity_survives_json() -> None:
    record = records.proved(records.record())
    back = Record.from_json(json.loads(json.dumps(record.to_json())))
    assert back == record
    assert back.identity
    assert back.identity.traces.keys() == {"own", "float64", "fingerprint", "dropout"}


def test_a_record_from_before_there_was_more_evidence_is_read() -> None:
    data = json.loads(json.dumps(records.older(records.record(), 3)))
    kept = ("weights", "batches", "losses", "updates")
    data["identity"] = {name: data["identity"][name] for name in kept}
    assert Record.from_json(data) == records.record()


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "ok"])
def test_a_failed_launch_survives_json_with_its_reason_and_its_last_words(status: str) -> None:
    record = replace(records.failed(records.record(), status, "why"), log=("one", "two"))
    back = Record.from_json(json.loads(json.dumps(record.to_json())))
    assert back == record
    assert not back.outcome.ok
    assert back.samples_per_s is None


def test_the_least_that_a_record_holds_is_its_cell_and_outcome() -> None:
    least = {"schema": 1, "cell": {"workload": "imdb_lstm", "framework": "jax"}, "outcome": {"status": "crashed"}}
    assert Record.from_json(least).outcome == Outcome("crashed")


def test_throughput_is_samples_over_the_time_of_all_windows() -> None:
    phase = Phase((Window(2, 1.0), Window(8, 1.0)))
    record = replace(records.record(batch=10), phases={"train": phase})
    assert phase.step_s == pytest.approx(0.2)
    assert phase.step_times_s == pytest.approx([0.5, 0.125])
    assert record.samples_per_s == pytest.approx(50)


def test_a_window_is_written_as_an_array_of_steps_and_seconds() -> None:
    record = replace(records.record(), phases={"train": Phase((Window(20, 1.5),), (Window(1, 0.5),))})
    text = json.dumps(record.to_json()["phases"]["train"])
    assert text == '{"windows": [[20, 1.5]], "warmup": [[1, 0.5]], "steady": true, "spans": []}'


@pytest.mark.parametrize(("schema", "window"), [(1, [1, 1.0]), (3, [1, 1.0]), (3, {"steps": 1}), (3, 5)])
def test_a_window_has_the_form_of_its_schema(schema: int, window: Any) -> None:
    old = records.older(records.record(), schema)
    assert Record.from_json(old) == records.record()
    old["phases"]["input"]["warmup"][1] = window
    with pytest.raises(
        RecordError, match=r"^phases\.input\.warmup\[1\] is .*: expected an object of steps and seconds"
    ):
        Record.from_json(old)

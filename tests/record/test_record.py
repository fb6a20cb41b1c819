from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from suite.record.json_schema import json_schema
from suite.record.parts.profile import CATEGORIES, Gaps, Operation, Profile, Share
from suite.record.record import SCHEMA, STATUSES, Outcome, Phase, Record, RecordError, Window
from tests import records
from tests.expected import golden


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


PROFILE = Profile(
    steps=4, step_s=0.11, timed_s=0.1, categories={"matrix product": Share(0.08, 6, 4096), "other": Share(0.02, 1)},
    operations=(Operation("aten::mm", "matrix product", 0.08, 6, "cuda", ("bias", "relu"), 4096),),
    gaps=Gaps(0.25, 2e-6), threads=2, counted_flops=1e9, trace="cell-launch0.trace.json.gz", span=(60.0, 61.0),
)  # fmt: skip


def test_a_profile_survives_json() -> None:
    record = replace(records.record(), profile=PROFILE)
    back = Record.from_json(json.loads(json.dumps(record.to_json())))
    assert back == record
    assert back.profile
    assert back.profile.cost == pytest.approx(1.1)
    assert back.profile.covered == pytest.approx(1.0)
    assert back.profile.other == pytest.approx(0.2)


def test_a_record_from_before_there_were_profiles_has_none() -> None:
    data = json.loads(json.dumps(records.record().to_json())) | {"schema": 4}
    del data["profile"]
    assert Record.from_json(data).profile is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.update(step_s=math.nan), "step_s"),
        (lambda data: data.update(step_s=0), "step_s"),
        (lambda data: data.update(steps=0), "steps"),
        (lambda data: data["categories"].update(magic={"seconds": 1.0, "calls": 1.0}), "has no category 'magic'"),
        (lambda data: data["categories"]["other"].update(seconds=-1.0), "seconds"),
        (lambda data: data["categories"]["other"].update(bytes=2**70), "bytes"),
        (lambda data: data["operations"][0].update(category="magic"), "there are: convolution forward"),
        (lambda data: data["operations"][0].update(device="tpu"), "there are: cpu, cuda"),
        (lambda data: data["operations"][0].update(name="x" * 1000), "name"),
        (lambda data: data.update(operations=data["operations"] * 26), "operations"),
        (lambda data: data.update(gaps={"idle": 1.5, "median_s": 0.0}), "idle"),
        (lambda data: data.update(trace="../../etc/passwd"), "names a file that is not beside the journal"),
        (lambda data: data.update(files=["a\nb"]), "names a file that is not beside the journal"),
        (lambda data: data.update(note="x" * 1000), "note"),
        (lambda data: data.update(verdict="fast"), "unknown fields"),
    ],
)
def test_what_no_profiler_can_have_seen_is_refused(change: Callable[[dict[str, Any]], object], words: str) -> None:
    data = json.loads(json.dumps(replace(records.record(), profile=PROFILE).to_json()))
    change(data["profile"])
    with pytest.raises(RecordError, match=words):
        Record.from_json(data)


def test_the_categories_are_documented_in_one_order() -> None:
    assert len(set(CATEGORIES)) == len(CATEGORIES) == 17
    assert CATEGORIES[-3:] == ("host and launch overhead", "idle", "other")


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

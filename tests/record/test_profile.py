"""The profile in a record: it survives JSON, and what no profiler can have seen is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from suite.record.parts.profile import CATEGORIES, Gaps, Operation, Profile, Share
from suite.record.record import Record, RecordError
from tests import records

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

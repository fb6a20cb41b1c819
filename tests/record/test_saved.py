"""Saved runs in which values that launches have in common stand once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records.load import LoadError, load
from suite.record.saved import SHARED, pack, restore, unpack
from tests import records
from tests.records import mixed


def test_what_is_packed_comes_back_whole_and_is_lighter() -> None:
    run = json.loads(json.dumps(records.saved(records.launches(n=8))))
    small = pack(run)
    assert unpack(json.loads(json.dumps(small))) == {**run, "suite": {**run["suite"], "schema": 2}}
    assert len(json.dumps(small)) < 0.75 * len(json.dumps(run))
    assert run == json.loads(json.dumps(records.saved(records.launches(n=8)))), "packing changes nothing in place"


def test_what_is_shared_stands_in_front_so_that_a_file_can_be_read_launch_by_launch() -> None:
    assert next(iter(pack(records.saved(mixed())))) == "shared"


def test_a_packed_run_loads_like_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "0001_a.json"
    records.save(path, mixed())
    before = load([path])
    path.write_text(json.dumps(pack(json.loads(path.read_text()))))
    assert load([path]) == before
    assert any(not launch.record.outcome.ok for launch in before.launches)


def test_benchmarks_of_other_tests_are_left_alone() -> None:
    other = {"name": "test_other", "extra_info": {}}
    run = records.saved(mixed())
    run["benchmarks"].append(other)
    assert pack(run)["benchmarks"][-1] == other
    assert pack({"benchmarks": [other]}) == {"benchmarks": [other]}


@pytest.mark.parametrize("shared", [None, [], {}, {"cell": {}}, {"cell": []}, {"cell": "ab"}, {"cell": [{}] * 7}])
@pytest.mark.parametrize("place", [7, -1, 10**20])
def test_a_place_that_is_not_there_is_refused(shared: Any, place: int, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"cell is number {place} of what the file shares"):
        restore({"cell": place}, shared)
    run = pack(records.saved(records.launches(n=1)))
    run["shared"] = shared
    run["benchmarks"][0]["extra_info"]["record"]["cell"] = place
    path = tmp_path / "0001_a.json"
    path.write_text(json.dumps(run))
    with pytest.raises(LoadError, match="what the file shares, which is not there"):
        load([path])


@pytest.mark.parametrize("value", [True, 1.0, "0", None, [0]])
def test_only_a_whole_number_stands_for_something_else(value: Any) -> None:
    assert restore(dict.fromkeys(SHARED, value), {name: [{}] for name in SHARED}) == dict.fromkeys(SHARED, value)
    assert restore(value, {}) == value

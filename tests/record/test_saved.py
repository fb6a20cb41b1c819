"""Saved runs in which values that launches have in common stand once."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records.load import LoadError, find, load
from suite.record import saved
from suite.record.saved import (
    DIGITS,
    POINTS,
    SHARED,
    compress,
    decode_line,
    encode_lines,
    pack,
    restore,
    thin_lines,
    unpack,
)
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


def restored(values: list[float | None]) -> list[float | None]:
    line = decode_line(json.loads(json.dumps(encode_lines([0.5 * at for at in range(len(values))], {"a": values}))))
    assert line
    return list(line["values"]["a"])


def test_moments_come_back_to_the_millisecond() -> None:
    at_s = [0.001, 0.501, 1.0014, 12.5, 3600.25]
    line = decode_line(encode_lines(at_s, {"a": [1.0] * 5}))
    assert line
    assert line["at_s"] == [round(at, 3) for at in at_s]


@pytest.mark.parametrize(
    "values",
    [[], [None, None], [0.0, 0.0], [0.0, 55.0, 100.0], [1980.0, 1965.0, None], [9999.0, 1.0], [-3.0, 4.0], [0.02, 1.9]],
)
def test_what_an_instrument_counts_comes_back_exactly(values: list[float | None]) -> None:
    assert restored(values) == values


@pytest.mark.parametrize("peak", [3e-9, 0.02, 1.98, 480.0, 5e8, 8e10, 2e14])
def test_every_reading_is_within_what_three_digits_of_the_peak_resolve(peak: float) -> None:
    draw = random.Random(1)
    values = [draw.uniform(0, peak) for _ in range(100)] + [peak]
    assert restored(values) == pytest.approx(values, abs=peak / 10 ** (DIGITS - 1) / 2 * (1 + 1e-9), rel=0)


def test_it_takes_a_third_less_than_plain_numbers() -> None:
    draw = random.Random(2)
    at_s = [round(0.5 * at + 0.001 * draw.random(), 3) for at in range(100)]
    values = {"rss_bytes": [float(f"{draw.uniform(1e8, 9e8):.6g}") for _ in at_s], "cpu_cores": [1.97934 for _ in at_s]}
    new, old = (len(json.dumps(form)) for form in (encode_lines(at_s, values), {"at_s": at_s, "values": values}))
    assert new < 2 / 3 * old


def test_plain_numbers_of_old_records_stay_as_they_are() -> None:
    old = {"at_s": [0.0, 0.5], "values": {"a": [None, 1.23456]}}
    assert decode_line(old) is old
    metrics = {"host": {"timeline": old}}
    thin_lines(metrics)
    assert metrics["host"]["timeline"] == old


SPOILT: list[Any] = [
    None, [], "x", {"at_ms": None, "lines": {}}, {"at_ms": [1], "lines": None}, {"at_ms": ["1"], "lines": {}},
    {"at_ms": [1.5], "lines": {}}, {"at_ms": [True], "lines": {}}, {"at_ms": [1], "lines": {"a": [1]}},
    {"at_ms": [1], "lines": {"a": {"n": [1]}}}, {"at_ms": [1], "lines": {"a": {"e": 0, "n": "1"}}},
    {"at_ms": [1], "lines": {"a": {"e": 10**9, "n": [1]}}}, {"at_ms": [1], "lines": {"a": {"e": -(10**9), "n": [1]}}},
    {"at_ms": [1], "lines": {"a": {"e": 0.5, "n": [1]}}}, {"at_ms": [1], "lines": {"a": {"e": 30, "n": ["ab"]}}},
    {"at_ms": [1], "lines": {"a": {"e": -1, "n": [10**400]}}}, {"at_ms": [10**400], "lines": {}},
    {"at_ms": [1], "lines": {"a": {"e": 30, "n": [10**400]}}}, {"at_ms": [1], "lines": {"a": {"e": True, "n": [1]}}},
]  # fmt: skip


@pytest.mark.parametrize("timeline", SPOILT)
def test_what_is_no_timeline_is_none(timeline: Any) -> None:
    assert decode_line(timeline) is None
    metrics = {"gpus": [{"timeline": timeline}]}
    thin_lines(metrics)
    assert metrics["gpus"][0].get("timeline") is None


def test_lines_that_do_not_fit_their_moments_go() -> None:
    metrics = {"host": {"timeline": {"at_ms": [1, 2], "lines": {"a": {"e": 0, "n": [1]}}}}}
    thin_lines(metrics)
    assert metrics == {"host": {}}


def test_a_line_that_was_thinned_is_not_thinned_again() -> None:
    metrics: dict[str, Any] = {"host": {"timeline": encode_lines(range(5000), {"a": list(range(5000))})}}
    thin_lines(metrics)
    first = metrics["host"]["timeline"]
    assert POINTS / 2 < len(first["at_s"]) <= POINTS
    thin_lines(metrics)
    assert metrics["host"]["timeline"] == first


def test_a_compressed_run_is_the_same_run_by_each_of_its_names(tmp_path: Path) -> None:
    plain = records.save(tmp_path / "0001_a.json", records.launches(n=1))
    packed = tmp_path / "0002_b.json.gz"
    packed.write_bytes(compress(plain.read_bytes()))
    assert [each.record for each in load([packed]).launches] == [each.record for each in load([plain]).launches]
    assert {each.source for each in load([packed]).launches} == {"0002_b.json"}
    assert all(find([name], tmp_path)[0] == [packed] for name in ("2", "b", "0002_b", "0002_b.json", packed.name))


@pytest.mark.parametrize("damage", ["cut", "longer", "twice", "not compressed", "larger than is read"])
def test_a_damaged_file_is_refused_in_one_line(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = records.save(tmp_path / "a.json", records.launches(n=1))
    plain = path.read_bytes()
    whole = compress(plain)
    contents = {"cut": whole[:-9], "longer": whole + b"x", "twice": whole + whole, "not compressed": plain}
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(contents.get(damage, whole))
    if damage == "larger than is read":
        monkeypatch.setattr(saved, "RUN_MOST", len(plain) - 1)
    with pytest.raises(LoadError, match=r"a\.json\.gz: ") as caught:
        load([packed])
    assert "\n" not in str(caught.value)

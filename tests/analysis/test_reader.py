"""What is kept of a record says the same in every table and plot, and what launches have in common is there once."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records import load, reader, saved
from suite.analysis.records.load import Launch, LoadError
from suite.analysis.rows import metrics
from suite.analysis.rows.groups import Row
from suite.analysis.rows.metrics import Line, clock_mhz, first_gpu, has_lines, lines_of
from suite.record.parts.evidence import Recomputed
from suite.record.parts.history import Ledger, Shapes
from suite.record.record import Record
from suite.record.saved import POINTS
from tests import large, records
from tests.records import HOSTILE


def loaded(path: Path, held: Iterable[Record], whole: bool = False) -> list[Record]:
    made = records.journal(path / "a.jsonl", held)
    return [launch.record for launch in load.load([made], whole=whole).launches]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_numbers_that_no_measurement_gives_are_refused(number: str) -> None:
    with pytest.raises(ValueError, match=r"the number .* is not finite"):
        saved.decode(f"[{number}]".encode())


@pytest.mark.parametrize("broken", ["", "{", '{"a"', '{"a": 1,', '{"a": 1}x', "{1: 2}", '{"a": tru}', '{"a": "\\u12"}'])
def test_what_is_no_json_is_refused_and_its_place_named(broken: str) -> None:
    for take in (saved.decode, saved.members, saved.items):
        with pytest.raises(ValueError, match=r"char \d+"):
            take(broken.encode())


def test_text_that_only_json_can_carry_becomes_spaces(tmp_path: Path) -> None:
    names = [HOSTILE, "\\ud800", "\\\ud800", "a\ud800\udc00b", "\U0001f600", "\udc00\ud800"]
    wanted = [re.sub("[\ud800-\udfff]", " ", name) for name in names]
    wanted[3] = "a\U00010000b"  # a pair is one character
    held = [replace(records.record(launch=n), settings={"name": name}) for n, name in enumerate(names)]
    assert [record.settings["name"] for record in loaded(tmp_path, held)] == wanted
    saved = load.load([records.save(tmp_path / "a.json", held)])
    assert [launch.record.settings["name"] for launch in saved.launches] == wanted


def test_what_launches_have_in_common_is_there_once(tmp_path: Path) -> None:
    first, second, other = loaded(
        tmp_path, [large.noted(records.record(batch=size, launch=n), 9, 1) for size, n in ((32, 0), (32, 1), (64, 0))]
    )
    for name in ("cell", "outcome", "data", "workload", "settings", "environment"):
        assert getattr(first, name) is getattr(second, name), name
    assert first.identity
    assert second.identity
    assert first.identity.updates is second.identity.updates
    assert first.environment is other.environment
    assert first.cell is not other.cell
    assert first.run is not second.run


def test_equal_values_of_different_kinds_are_not_taken_for_one_another(tmp_path: Path) -> None:
    values: list[Any] = [1, 1.0, True, "1", [1], [True], {"1": 1}, {"1": 1.0}, None, "None", 0.0, -0.0, [], {}]
    held = [replace(records.record(launch=n), settings={"x": value}) for n, value in enumerate(values)]
    taken = [json.dumps(record.settings["x"]) for record in loaded(tmp_path, held)]
    assert taken == [json.dumps(value) for value in values]


def test_what_is_remembered_is_bounded_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_SHARED", 2)
    memory = {"rss_peak_bytes": 700_000_000}
    held = [replace(each, settings={"n": at}, memory=memory) for at, each in enumerate(records.mixed())]
    assert loaded(tmp_path, held) == held


def figures(record: Record) -> dict[str, float | None]:
    return metrics.metrics(Row("a", record.cell, (Launch(record, "a", "a.jsonl"),)))


def watched() -> Record:
    """A launch of which every figure was seen."""
    one = large.noted(records.record("pytorch", 99), 110, 2)
    one.metrics["gpus"][0]["energy_j_per_sample"] = 0.5
    assert one.identity
    identity = replace(one.identity, recomputed=Recomputed(8, 3, 4, 0.0))
    machine = one.environment["machine"] | {"gpus": ["NVIDIA T4"]}
    shapes = Shapes((9,), (10,), 1, 10, 1, 0, 0.0, 1e7)
    return replace(
        one, cell=one.cell.but(lengths="free"), identity=identity, ledger=Ledger(1, shapes=shapes),
        memory={"allocator_reserved_bytes": 12, "allocator_peak_bytes": 10},
        settings=one.settings | {"device": "cuda"}, environment=one.environment | {"machine": machine},
        workload=one.workload | {"training_flops_per_sample": 10**7},
    )  # fmt: skip


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_all_that_is_shown_of_what_the_monitor_saw_is_kept(form: str, tmp_path: Path) -> None:
    every = [*records.everything(), watched()]
    path = (records.journal if form == "jsonl" else records.save)(tmp_path / f"a.{form}", every)
    kept = {launch.record.key: launch.record for launch in load.load([path]).launches}
    assert len(kept) == len(every)
    for record in every:
        one = kept[record.key]
        assert has_lines(one) == has_lines(record) == bool(lines_of(record))
        assert lines_of(one) == lines_of(record)
        assert clock_mhz(one) == clock_mhz(record)
        facts = {name: fact for name, fact in first_gpu(record).items() if not isinstance(fact, (dict, list))}
        assert facts.items() <= first_gpu(one).items()
        assert figures(one) == figures(record)
    assert any(lines_of(record) for record in every)
    assert None not in figures(watched()).values()


STRANGE_LINES: list[dict[str, Any]] = [
    {"values": []}, {"values": {"cpu_cores": [1.0]}}, {"values": {"cpu_cores": 5}}, {"at_s": None}, {"at_s": "x"},
]  # fmt: skip


@pytest.mark.parametrize(
    "strange",
    [{"host": None}, {"gpus": [None, 5, "x"]}, {"gpus": {"0": {}}}, {"host": {"phases": {"train": []}}}, {"gpus": "x"},
     {"host": {"phases": {"train": {"cpu_cores": {"median": [1]}}}}}, {"gpus": [{"timeline": None, "phases": 7}]},
     *({"host": {"timeline": {"at_s": [0, 1], "values": {"cpu_cores": [1, 2]}} | line}} for line in STRANGE_LINES)],
)  # fmt: skip
def test_strange_metrics_are_no_figures_and_no_lines(strange: dict[str, Any], tmp_path: Path) -> None:
    record = replace(records.record(), metrics=strange)
    (one,) = loaded(tmp_path, [record])
    assert lines_of(one) == lines_of(record) == {}
    assert not has_lines(one)
    assert "timeline" not in one.metrics.get("host", {})
    assert figures(one) == figures(record)


def timed(points: int, name: str = "power_w") -> dict[str, Any]:
    """A source of metrics with one line that is shown."""
    return {
        "timeline": {"at_s": [0.1 * at for at in range(points)], "values": {name: [float(at) for at in range(points)]}}
    }


@pytest.mark.parametrize("points", [600, 601])
def test_lines_over_time_are_thinned(points: int, tmp_path: Path) -> None:
    shown = {"host": timed(30, "cpu_cores"), "gpus": [timed(points), timed(points)]}
    (one,) = loaded(tmp_path, [replace(records.record(), metrics=shown)])
    found = lines_of(one)
    assert found["cpu_cores"] == Line(tuple(0.1 * at for at in range(30)), tuple(map(float, range(30))))
    assert POINTS / 2 <= len(found["power_w"].at_s) <= POINTS
    assert [0.1 * (value or 0.0) for value in found["power_w"].values] == pytest.approx(found["power_w"].at_s)
    assert one.metrics["gpus"][1] == {}, "of a second device only the facts are shown"


def test_lines_of_a_file_that_changed_meanwhile_are_not_drawn(tmp_path: Path) -> None:
    (one,) = loaded(tmp_path, [records.watched(records.record())])
    path = tmp_path / "a.jsonl"
    path.write_text(path.read_text().replace("480.0", "400.0"))
    with pytest.raises(OSError, match="it changed while it was compared"):
        lines_of(one)


def test_a_reader_that_needs_all_of_a_record_gets_it(tmp_path: Path) -> None:
    held = [records.watched(records.proved(records.record()))]
    assert loaded(tmp_path, held, whole=True) == held


def peak_bytes(of: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        of()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_large_file_does_not_stay_in_memory(tmp_path: Path) -> None:
    names = {f"metric_{number}": [1.5] * 600 for number in range(20)}
    shown = {"gpus": [{"timeline": {"at_s": [0.1 * at for at in range(600)], "values": names}}]}
    held = [replace(records.record("jax", launch), metrics=shown) for launch in range(10)]
    path = records.save(tmp_path / "a.json", held)
    whole = peak_bytes(lambda: [json.loads(line) for line in path.read_text().splitlines()])
    assert peak_bytes(lambda: load.load([path])) < whole / 3


def test_the_place_is_named_where_a_file_is_cut_off(tmp_path: Path) -> None:
    path = records.save(tmp_path / "a.json", [records.record()])
    path.write_text(path.read_text()[:-1] + ', "more": [1, 2')
    with pytest.raises(LoadError, match=r"a\.json: cut off or no JSON \(Expecting ',' delimiter: char \d+\)"):
        load.load([path])

"""What is kept of a record says the same in every table and plot, and what launches have in common is there once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records import kept
from suite.analysis.records.kept import RecordPool
from suite.analysis.records.load import Launch, load
from suite.analysis.rows import metrics
from suite.analysis.rows.groups import Row
from suite.analysis.rows.metrics import clock_mhz, first_gpu
from suite.analysis.rows.timelines import has_lines, lines_of
from suite.compare.__main__ import main
from suite.record.evidence import Recomputed
from suite.record.record import Record
from suite.report import plots
from tests import records
from tests.published import numbered
from tests.studies import scale


def loaded(path: Path, held: Iterable[Record]) -> list[Record]:
    return [launch.record for launch in load([records.journal(path / "a.jsonl", held)]).launches]


def test_what_launches_have_in_common_is_there_once(tmp_path: Path) -> None:
    first, second, other = loaded(
        tmp_path, [scale.noted(records.record(batch=size, launch=n), 9, 1) for size, n in ((32, 0), (32, 1), (64, 0))]
    )
    for name in ("cell", "outcome", "data", "workload", "settings", "environment", "identity"):
        assert getattr(first, name) is getattr(second, name), name
    assert first.environment is other.environment
    assert first.cell is not other.cell
    assert first.run is not second.run
    assert first.run["id"] is other.run["id"]
    for one, two in zip(first.startup, other.startup, strict=True):
        assert one is two


def test_equal_values_of_different_kinds_are_not_taken_for_one_another(tmp_path: Path) -> None:
    values: list[Any] = [1, 1.0, True, "1", [1], [True], {"1": 1}, {"1": 1.0}, None, "None", 0.0, -0.0, [], {}]
    held = [replace(records.record(launch=n), settings={"x": value}) for n, value in enumerate(values)]
    told = [json.dumps(record.settings["x"]) for record in loaded(tmp_path, held)]
    assert told == [json.dumps(value) for value in values]


def test_what_is_remembered_is_bounded_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST", 2)
    held = [replace(each, settings={"n": number}) for number, each in enumerate(records.mixed())]
    assert loaded(tmp_path, held) == held


def figures(record: Record) -> dict[str, float | None]:
    return metrics.metrics(Row("a", record.cell, (Launch(record, "a", "a.jsonl"),)))


def watched() -> Record:
    """A launch of which every figure was seen."""
    one = scale.noted(records.record(), 120, 2)
    one.metrics["gpus"][0]["energy_j_per_sample"] = 0.5
    assert one.identity
    identity = replace(one.identity, recomputed=Recomputed(8, 3, 4, 0.0))
    return replace(one, identity=identity, memory={"allocator_reserved_bytes": 12, "allocator_peak_bytes": 10})


def test_all_that_is_shown_of_what_the_monitor_saw_is_kept() -> None:
    every = [*records.everything(), watched()]
    for record in every:
        one = RecordPool().intern(record)
        assert has_lines(one) == has_lines(record) == bool(lines_of(record))
        assert lines_of(one) == lines_of(record)
        assert clock_mhz(one) == clock_mhz(record)
        facts = {name: fact for name, fact in first_gpu(record).items() if not isinstance(fact, (dict, list))}
        assert facts.items() <= first_gpu(one).items()
        assert figures(one) == figures(record)
    assert any(lines_of(record) for record in every)
    assert None not in figures(watched()).values()


@pytest.mark.parametrize(
    "strange",
    [{"host": None}, {"gpus": [None, 5, "x"]}, {"gpus": {"0": {}}}, {"host": {"phases": {"train": []}}},
     {"host": {"phases": {"train": {"cpu_cores": {"median": [1]}}}}}, {"gpus": [{"timeline": None, "phases": 7}]}],
)  # fmt: skip
def test_strange_metrics_are_no_figures_as_before(strange: dict[str, Any], tmp_path: Path) -> None:
    record = replace(records.record(), metrics=strange)
    (one,) = loaded(tmp_path, [record])
    assert lines_of(one) == lines_of(record) == {}
    assert figures(one) == figures(record)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_tables_and_page_are_the_same_bytes_as_of_whole_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plots, "draw", lambda *_: [])  # of what it draws, see above
    again = [replace(each, started="2026-03-02T10:00:00+00:00", flags=("throttled",)) for each in records.everything()]
    made = [
        records.journal(tmp_path / "a.jsonl", [*records.everything(), *again[:3]]),
        records.save(tmp_path / "b.json", scale.long_lines("b", 24), "b"),
        records.save(tmp_path / "c.json", records.mixed(), "c"),
    ]
    recorded = [
        numbered(number) for number in ("0002", "0005", "0006")
    ]  # timed on a CPU, watched, and trained to the end
    assert len(recorded) == 3
    told = []
    for name in ("kept", "whole"):
        assert main([*map(str, (*made, *recorded)), "--output", str(tmp_path / name), "--verbose"]) == 0
        told.append(capsys.readouterr().out)
        monkeypatch.setattr(RecordPool, "intern", lambda _, record: record)
    assert told[0] == told[1]
    one, other = files(tmp_path / "kept"), files(tmp_path / "whole")
    assert one.keys() == other.keys() >= {"cells.csv", "epochs.csv", "launches.csv", "table.md", "report.html"}
    for name in one:
        assert one[name] == other[name], name

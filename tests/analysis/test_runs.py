"""How many launches of a run are missing, by what its files say was planned."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records.load import LoadError, find, load
from suite.analysis.rows.runs import Count, counts
from suite.plan.command.common import OLDER, SAVED
from suite.record.record import Record
from suite.report.text.missing import sentences
from tests import records


def counted(path: Path, held: list[Record], **run: Any) -> Count:
    lines = [{"run": {"id": "run-a", **run}}, *(record.to_json() for record in held)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (count,) = counts(load([path]))
    return count


def test_a_complete_run_misses_nothing(tmp_path: Path) -> None:
    count = counted(tmp_path / "a.jsonl", records.launches(n=3), planned=9, launches=3)
    assert (count.launches, count.planned, count.missing) == (9, 9, 0)
    assert not sentences([count])


def test_the_number_that_was_planned_is_believed(tmp_path: Path) -> None:
    count = counted(tmp_path / "a.jsonl", records.launches(n=2)[:-1], planned=12, launches=4, matrix="smoke", seed=0)
    assert sentences([count]) == [
        "7 of 12 launches of run run-a are missing. Run them with: "
        "training-suite run --matrix smoke --launches 4 --resume=run-a"
    ]


def test_older_files_tell_it_by_their_cells_and_blocks(tmp_path: Path) -> None:
    count = counted(tmp_path / "a.jsonl", records.launches(n=2)[:-1], launches=4)
    assert (count.planned, count.missing, count.least) == (12, 7, False)
    first = counted(tmp_path / "b.jsonl", records.launches(n=1)[:-1], launches=4)
    assert sentences([first])[0].startswith("At least 6 of 8 launches"), "since not every cell has run once"


def test_more_launches_than_the_first_line_says_are_no_surplus(tmp_path: Path) -> None:
    count = counted(tmp_path / "a.jsonl", records.launches(n=4)[:-1], planned=9, launches=3)
    assert (count.planned, count.missing) == (12, 1)
    assert " is missing. " in sentences([count])[0]


def test_files_without_a_description_say_nothing(tmp_path: Path) -> None:
    count = counted(tmp_path / "a.jsonl", records.launches(n=2)[:-1])
    assert count.planned is None
    assert not sentences([count])


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """Three runs, saved one after another, and the journal of a fourth."""
    runs = tmp_path / "results" / "runs"
    for age, name in enumerate(["m/0001_smoke.json", "m/0002_batch.json", "m/0003_smoke.json"]):
        os.utime(records.save(runs / name, [records.record()]), (1000 + age, 1000 + age))
    os.utime(records.journal(tmp_path / "results" / "journals" / "killed.jsonl", [records.record()]), (2000, 2000))
    return runs


@pytest.mark.parametrize(
    ("run", "file"),
    [
        ("0002", "0002_batch.json"),
        ("2", "0002_batch.json"),
        ("batch", "0002_batch.json"),
        ("0001_smoke", "0001_smoke.json"),
        ("0001_smoke.json", "0001_smoke.json"),
        ("smoke", "0003_smoke.json"),
        ("killed", "killed.jsonl"),
    ],
)
def test_a_run_is_found_by_number_or_name(storage: Path, run: str, file: str) -> None:
    paths, notes = find([run], storage)
    assert [path.name for path in paths] == [file]
    assert bool(notes) == (run == "smoke"), "which one was chosen of several is said"


def test_without_a_name_it_is_the_run_saved_last(storage: Path) -> None:
    paths, notes = find([], storage)
    assert [path.name for path in paths] == ["0003_smoke.json"]
    assert "killed.jsonl is newer" in notes[0]


def test_a_folder_means_all_runs_in_it(storage: Path) -> None:
    assert len(find([str(storage / "m")], storage)[0]) == 3


def test_a_file_named_twice_is_read_once(storage: Path) -> None:
    assert len(find(["0002", "batch"], storage)[0]) == 1


@pytest.mark.parametrize("run", ["", "*", "..", "0009", "%s", "[", "nosuch/file.json"])
def test_a_run_that_is_not_there_is_named_with_those_that_are(storage: Path, run: str, monkeypatch: Any) -> None:
    empty = storage.parent / "empty"
    empty.mkdir()
    (empty / "in").mkdir()
    monkeypatch.chdir(empty / "in")
    with pytest.raises(LoadError, match="no run"):
        find([run], storage)


@pytest.mark.parametrize(
    ("run", "meant"),
    [
        ("smoek", "smoke"), ("0002_bacth", "0002_batch"), ("kiled.jsonl", "killed"),
        ("some/0001_smok.json", "0001_smoke"), ("0009", ""), ("wombat", ""),
    ],
)  # fmt: skip
def test_a_name_that_no_run_has_is_refused_with_the_nearest(tmp_path: Path, run: str, meant: str) -> None:
    for name in ("0001_smoke.json", "0002_batch.json", "killed.jsonl"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(LoadError) as caught:
        find([run], tmp_path)
    assert str(caught.value).endswith(f"; did you mean {meant!r}?" if meant else ")")


def test_an_empty_storage_says_how_to_make_a_run(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="training-suite run"):
        find([], tmp_path / "nowhere")


def test_a_user_s_runs_and_the_published_ones_are_found_and_of_a_name_the_user_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    published = [records.save(OLDER[SAVED] / "m" / name, [records.record()]) for name in ("0001_a.json", "0002_b.json")]
    own = records.save(SAVED / "m" / "0001_a.json", [records.record()])
    for age, path in enumerate([own, *published]):
        os.utime(path, (1000 + age, 1000 + age))
    paths, notes = find(["0001", "b"])
    assert [path.resolve() for path in paths] == [own.resolve(), published[1].resolve()]
    assert len(notes) == 1, "which of two was chosen is said"
    assert find([])[0][0].resolve() == published[1].resolve(), "the newest of both"
    os.utime(own, (2000, 2000))
    assert find([])[0][0].resolve() == own.resolve()
    assert find(["b"], tmp_path / "results/runs")[0][0].resolve() == published[1].resolve()

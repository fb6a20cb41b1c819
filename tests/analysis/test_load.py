from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.analysis.records.load import LoadError, find, load
from suite.analysis.rows.runs import counts
from suite.compare.__main__ import main
from suite.plan.command.common import OLDER, SAVED
from suite.record.record import SCHEMA
from suite.record.saved import compress
from tests import records
from tests.records import HOSTILE


def test_a_saved_run_gives_its_launches_failed_ones_included(tmp_path: Path) -> None:
    wanted = [*records.launches(n=2), records.failed(records.record("jax", 2))]
    loaded = load([records.save(tmp_path / "0001_a.json", wanted)])
    assert sorted(x.record.key for x in loaded.launches) == sorted(r.key for r in wanted)
    assert {x.record.outcome.status for x in loaded.launches} == {"ok", "timeout"}
    assert {(x.run, x.source) for x in loaded.launches} == {("run-a", "0001_a.json")}, "a file's name, never its folder"


def test_a_journal_gives_the_same_as_the_saved_run(tmp_path: Path) -> None:
    wanted = records.launches(n=2)
    journal = load([records.journal(tmp_path / "a.jsonl", wanted)])
    saved = load([records.save(tmp_path / "a.json", wanted)])
    assert [x.record for x in journal.launches] == [x.record for x in saved.launches] == wanted


def test_the_same_launch_in_journal_and_saved_run_counts_once(tmp_path: Path) -> None:
    wanted = records.launches(n=2)
    both = [records.journal(tmp_path / "a.jsonl", wanted), records.save(tmp_path / "a.json", wanted)]
    loaded = load(both)
    assert len(loaded.launches) == len(wanted)
    assert loaded.notes == ()


def test_of_two_different_launches_with_one_key_the_later_counts_and_a_note_says_so(tmp_path: Path) -> None:
    first = records.failed(records.record())
    again = replace(records.record(), started="2026-03-01T12:00:00+00:00")
    loaded = load([records.journal(tmp_path / "a.jsonl", [again, first])])
    assert [x.record for x in loaded.launches] == [again]
    assert "held twice" in loaded.notes[0]


def test_runs_are_kept_apart(tmp_path: Path) -> None:
    paths = [records.save(tmp_path / f"{run}.json", [records.record(run=run)], run) for run in ("a", "b")]
    assert [x.run for x in load(paths).launches] == ["a", "b"]


def test_a_half_written_last_line_is_left_out_with_a_note(tmp_path: Path) -> None:
    path = records.journal(tmp_path / "a.jsonl", records.launches(n=1))
    path.write_text(path.read_text()[:-40])
    loaded = load([path])
    assert len(loaded.launches) == 2
    assert "half written" in loaded.notes[0]


def test_what_a_file_itself_gives_rise_to_is_said_before_what_its_launches_do(tmp_path: Path) -> None:
    again = replace(records.record(), started="2026-03-01T12:00:00+00:00")
    path = records.journal(tmp_path / "a.jsonl", [records.record(), again, records.record("jax")])
    path.write_text(path.read_text()[:-40])
    half, twice = load([path]).notes
    assert "half written" in half
    assert "held twice" in twice


def test_a_journal_without_a_finished_launch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no finished launch"):
        load([records.journal(tmp_path / "a.jsonl", [])])
    (tmp_path / "a.jsonl").write_text('{"run": {"id"')
    with pytest.raises(LoadError, match="no finished launch"):
        load([tmp_path / "a.jsonl"])


def test_bare_records_a_line_each_are_a_journal_too(tmp_path: Path) -> None:
    path = records.journal(tmp_path / "a.jsonl", [replace(records.record(), run={})])
    assert load([path]).launches[0].run == "run-a"
    path.write_text(path.read_text().split("\n", 1)[1])
    assert load([path]).launches[0].run == "a", "where nothing names the run, the file does"


def test_a_broken_line_elsewhere_is_refused(tmp_path: Path) -> None:
    path = records.journal(tmp_path / "a.jsonl", records.launches(n=1))
    path.write_text("{broken\n" + path.read_text())
    with pytest.raises(LoadError, match=r"a\.jsonl: line 1 is no JSON"):
        load([path])


def spoilt(path: str, value: Any) -> str:
    """A saved run in which one value, named by keys with slashes between, is another."""
    data: Any = json.loads(json.dumps(records.saved(records.launches(n=1))))
    *keys, last = (int(key) if key.isdigit() else key for key in path.split("/"))
    place = data
    for key in keys:
        place = place[key]
    place[last] = value
    return json.dumps(data)


RECORD = "benchmarks/0/extra_info/record"
TRAIN = f"{RECORD}/phases/train"

REFUSED = {
    "empty": ("", "is empty"),
    "blank": (" \n ", "is empty"),
    "cut off": (spoilt("version", "5")[:-500], "cut off or no JSON"),
    "no JSON": ("<html>", "cut off or no JSON"),
    "a list": ("[]", "no run of this suite"),
    "a number": ("1", "no run of this suite"),
    "other tests": ('{"benchmarks": [{"name": "x"}], "version": "4.0.0"}', "holds no records of this suite.*4.0.0"),
    "nothing in it": (json.dumps(records.saved([])), "holds no launch"),
    "suite is no object": (spoilt("suite", []), "holds no records of this suite"),
    "no schema": (spoilt("suite/schema", None), "schema is None"),
    "newer file": (spoilt("suite/schema", 3), "schema 3 is newer"),
    "newer record": (spoilt(f"{RECORD}/schema", 9), "schema is 9, newer"),
    "failed is no list": (spoilt("suite/failed", {}), "failed launches are not a list"),
    "failed is no record": (spoilt("suite/failed", [1]), "record has no schema"),
    "record is null": (spoilt(RECORD, None), "record has no schema"),
    "NaN": (spoilt(f"{TRAIN}/windows/0/1", float("nan")), "NaN is not finite"),
    "infinity": (spoilt(f"{RECORD}/compile_s", float("inf")), "Infinity is not finite"),
    "infinity by overflow": (spoilt(f"{RECORD}/compile_s", "@").replace('"@"', "1e999"), "1e999 is not finite"),
    "a number without end": (spoilt(f"{RECORD}/launch", "@").replace('"@"', "9" * 5000), "too large"),
    "negative window": (spoilt(f"{TRAIN}/windows/0/1", -1.0), r"phases\.train\.windows\[0\]\.seconds is -1\.0"),
    "no time at all": (spoilt(f"{TRAIN}/windows/0/1", 0), r"phases\.train\.windows\[0\]\.seconds is 0:"),
    "negative start": (spoilt(f"{RECORD}/startup/import_s", -0.1), r"startup\.import_s is -0\.1"),
    "no window": (spoilt(f"{TRAIN}/windows", []), r"phases\.train\.windows: expected a list of length >= 1"),
    "no training": (spoilt(f"{RECORD}/phases", {}), "lack train"),
    "windows are a number": (spoilt(f"{TRAIN}/windows", 5), r"phases\.train\.windows is 5: expected a list"),
    "updates are a list": (
        spoilt(f"{RECORD}/identity/updates", [1]),
        r"identity\.updates: expected an object, got a list",
    ),
    "digest is a list": (spoilt(f"{RECORD}/identity/weights", []), r"identity\.weights: expected text, got a list"),
    "unknown framework": (spoilt(f"{RECORD}/cell/framework", "theano"), "unknown framework"),
    "unknown outcome": (
        spoilt(f"{RECORD}/outcome/status", "splendid"),
        r"outcome\.status is 'splendid'; there are: ok, unsup",
    ),
    "deep": ("[" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_trusted_is_refused_in_one_line_with_its_name(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "spoilt.json"
    path.write_text(text)
    with pytest.raises(LoadError, match=message) as raised:
        load([path])
    assert "spoilt.json" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    for name in ("a.json", "a.jsonl"):
        (tmp_path / name).write_bytes(b"\x89PNG\xff")
        with pytest.raises(LoadError, match="not UTF-8"):
            load([tmp_path / name])


IN_A_JOURNAL = {
    "NaN": ('"compile_s": 0.6', '"compile_s": NaN', "line 3 is no JSON .*NaN is not finite"),
    "infinity": ('"compile_s": 0.6', '"compile_s": 1e999', "line 3 is no JSON .*1e999 is not finite"),
    "negative time": ('"compile_s": 0.6', '"compile_s": -0.6', "line 3: compile_s is -0.6: expected a number >= 0.0"),
    "newer record": (
        f'"schema": {SCHEMA}',
        '"schema": 99',
        f"line 2: schema is 99, newer than the {SCHEMA} known here: update",
    ),
    "unknown field": ('"launch": 0', '"launch": 0, "colour": "<b>"', "line 2: record has unknown fields"),
    "half written in the middle": ('"identity": {', "\n", "line 2 is no JSON"),
    "nothing": ("", "", "is empty"),
}


@pytest.mark.parametrize(("old", "new", "message"), IN_A_JOURNAL.values(), ids=IN_A_JOURNAL.keys())
def test_a_line_of_a_journal_that_cannot_be_trusted_is_named(
    tmp_path: Path, old: str, new: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = records.journal(tmp_path / "spoilt.jsonl", records.launches(n=1))
    path.write_text(path.read_text().replace(old, new) if old else "")
    with pytest.raises(LoadError, match=message):
        load([path])
    assert main([str(path), "--output", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    assert (said.out, len(said.err.splitlines())) == ("", 1)
    assert "spoilt.jsonl" in said.err
    assert not (tmp_path / "out").exists()


def test_hostile_text_in_a_message_neither_controls_the_terminal_nor_breaks_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "spoilt.json"
    path.write_text(spoilt(f"{RECORD}/outcome/status", HOSTILE))
    assert main([str(path)]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert not set(said[:-1]) & set("\x1b\x07\r\u202e\ud800")


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("schema", [1, 2, 3])
def test_records_of_older_schemas_still_load(schema: int, tmp_path: Path) -> None:
    old = [records.older(record, schema) for record in records.launches(n=2)]
    path = tmp_path / "old.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [{"run": {"id": "run-a"}}, *old]))
    assert [x.record for x in load([path]).launches] == records.launches(n=2)
    assert main([str(path), "--output", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "cells.csv").exists()


def test_what_the_system_will_not_read_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder.json"
    folder.mkdir()
    with pytest.raises(LoadError, match="it is a folder, and a regular file is expected"):
        load([folder])
    with pytest.raises(LoadError, match="no run in this folder"):
        find([str(folder)])


def test_a_file_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    path = records.save(tmp_path / "a.json", [records.record()])
    monkeypatch.setattr("suite.record.saved.regular", refuse)  # since root may read everything
    with pytest.raises(LoadError, match=r"a\.json: Permission denied"):
        load([path])


def test_benchmarks_of_other_tests_in_the_same_file_are_left_out_with_a_note(tmp_path: Path) -> None:
    data = records.saved(records.launches(n=1))
    data["benchmarks"] += [{"name": "test_other", "extra_info": {}}, "nonsense"]
    (tmp_path / "a.json").write_text(json.dumps(data))
    loaded = load([tmp_path / "a.json"])
    assert len(loaded.launches) == 3
    assert "2 benchmarks of other tests" in loaded.notes[0]


@pytest.mark.parametrize("name", ["0001_a.json", "a.jsonl"])
def test_a_byte_order_mark_is_read_over(name: str, tmp_path: Path) -> None:
    write = records.save if name.endswith(".json") else records.journal
    path = write(tmp_path / name, records.launches())
    plain = load([path]).launches
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert load([path]).launches == plain


@pytest.mark.parametrize("item", [b"[],", b"{},", b'{"extra_info":{"record":0}},', b"0,"])
def test_a_small_compressed_file_that_would_take_much_memory_is_not_decoded(item: bytes, tmp_path: Path) -> None:
    (path := tmp_path / "0001_a.json.gz").write_bytes(compress(b'{"benchmarks":[' + item * 5_000_000 + b"0]}"))
    assert path.stat().st_size < 1 << 20
    with pytest.raises(LoadError, match="MiB of memory"):
        load([path])


def test_without_a_run_of_one_s_own_the_newest_of_a_quiet_machine_is_read_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    published = [records.save(OLDER[SAVED] / f"000{n}_{name}.json", records.launches(n=1)) for n, name in
                 enumerate(("old", "quiet", "busy"))]  # fmt: skip
    saved = json.loads(published[-1].read_text())
    saved["suite"]["run"]["background"] = {"busy_cores": 1.46, "cores": 2, "steal_cores": 0.08}
    published[-1].write_text(json.dumps(saved))
    for age, path in enumerate(published):
        os.utime(path, (age, age))
    paths, notes = find([])
    assert paths == published[1:2]
    assert "0001_quiet" in notes[0]
    (run,) = counts(load(published[-1:]))
    assert run.busy_cores == pytest.approx(1.54)
    own = records.save(SAVED / "0001_mine.json", records.launches(n=1))
    assert find([]) == ([own], [])


def test_elsewhere_than_in_a_clone_the_error_says_where_published_runs_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LoadError, match="of a clone"):
        find(["0032"])
    OLDER[SAVED].mkdir(parents=True)
    with pytest.raises(LoadError) as error:
        find(["0032"])
    assert "clone" not in str(error.value)

"""A run is saved whole or not at all, and saving deletes nothing that was there."""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from suite.plan.command.common import OLDER, SAVED
from suite.record.saved import pack
from suite.session import storage as saving
from suite.session.storage import PROJECT, compact, describe_commit, name_fits, save, shorten_name
from tests import records
from tests.sessions import ROOT, Suite

ONE = ("suite", "--launches=1", "-k", "jax and imdb", "--benchmark-save=mine")


def stored(suite: Suite) -> dict[Path, str]:
    """Eight runs that were there before, and a file of somebody else's."""
    folder = suite.folder / "runs" / "Linux-CPython-3.11-64bit"
    folder.mkdir(parents=True)
    for number in range(1, 9):
        (folder / f"{number:04}_old.json").write_text(json.dumps({"benchmarks": [], "number": number}))
    (folder / "notes.json").write_text("not JSON, and not ours")
    return {path: path.read_text() for path in folder.iterdir()}


def kept(before: dict[Path, str]) -> bool:
    return all(path.read_text() == text for path, text in before.items())


@pytest.mark.parametrize("lock", ["a folder", pytest.param("closed", marks=pytest.mark.slow)])
def test_a_lock_that_cannot_be_opened_costs_no_stored_run(suite: Suite, lock: str) -> None:
    before = stored(suite)
    path = suite.folder / "runs" / ".lock"
    path.mkdir() if lock == "a folder" else path.touch(mode=0o000)
    done = suite(*ONE)
    assert done.status == 0, done.output
    assert kept(before)
    assert len(list((suite.folder / "runs").rglob("*_mine.json"))) == 1


def test_where_nothing_can_be_saved_nothing_is_lost(suite: Suite) -> None:
    before = stored(suite)
    suite.first = (
        "import suite.session.storage as s\n"
        "def refuse(*_): raise OSError(28, 'No space left on device')\n"
        "s._write = refuse"
    )
    done = suite(*ONE)
    assert done.status == 4, done.output
    assert "No space left on device; free some space; all launches are in" in done.output
    assert "Traceback" not in done.output
    assert kept(before)
    assert not list((suite.folder / "runs").rglob("*_mine.json"))


@pytest.mark.parametrize("option", [pytest.param("--junitxml", marks=pytest.mark.slow), "--benchmark-json"])
def test_a_file_of_another_kind_that_cannot_be_written_does_not_undo_a_run_that_was_saved(
    suite: Suite, option: str
) -> None:
    before = stored(suite)
    closed = suite.folder / "file" / "x.json"
    closed.parent.write_text("no folder")
    done = suite(*ONE, f"{option}={closed}")
    assert done.status != 0
    assert kept(before)
    (saved,) = (suite.folder / "runs").rglob("*_mine.json")
    assert json.loads(saved.read_text())["benchmarks"]


def run_of(launches: int) -> dict[str, Any]:
    """A run as pytest-benchmark hands it over, with what it needs to compare."""
    run = records.saved(records.launches(n=launches))
    for number, entry in enumerate(run["benchmarks"]):
        entry |= {"group": None, "fullname": entry["name"], "params": None, "param": None, "options": {}}
        keys = ("min", "max", "mean", "stddev", "median", "iqr", "q1", "q3", "ops", "total")
        entry["stats"] = dict.fromkeys(keys, 0.001 * (1 + number)) | {"rounds": 8, "iterations": 1, "outliers": "0;0"}
    return run | {"commit_info": {}}


def test_a_saved_run_holds_a_launch_per_line_and_no_space(tmp_path: Path) -> None:
    run = json.loads(json.dumps(run_of(launches=2)))
    lines = compact(run).splitlines()
    assert json.loads("".join(lines)) == pack(run)
    assert [json.loads(line.rstrip(",")) for line in lines if line.startswith('{"name"')] == pack(run)["benchmarks"]
    assert not any(": " in line or ", " in line for line in lines)


def test_a_saved_run_says_of_the_commit_what_is_known_to_be_public() -> None:
    known = {"id": "0123456789abcdef", "time": "2026-11-21T04:19:04+00:00", "author_time": None, "dirty": True}
    given = known | {"branch": "alice/secret", "project": "alice", "error": "CalledProcessError(128, '/home/alice')"}
    assert describe_commit(given) == known | {"project": PROJECT}
    failed = {"id": "unknown", "time": None, "dirty": False, "branch": "(detached head)"}
    assert describe_commit(failed | {"error": "/home/alice"}) == failed | {"project": PROJECT}


def test_pytest_benchmark_compares_saved_runs(tmp_path: Path) -> None:
    folder = tmp_path / "Linux-CPython-3.11-64bit"
    for number in (1, 2):
        save(folder, "mine", compact(run_of(launches=number)).encode())
    command = [sys.executable, "-m", "pytest_benchmark", "--storage", f"file://{tmp_path}", "compare", "0001", "0002"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test_training[cifar100_cnn-jax") == 3
    assert "0002_mine" in done.stdout


def test_runs_take_the_next_free_number_and_never_anothers(tmp_path: Path) -> None:
    (tmp_path / "0007_old.json").write_text("old")
    (tmp_path / "12345_large.json").write_text("large")
    (tmp_path / "notes.json").write_text("notes")
    first, second = save(tmp_path, "a", b"1"), save(tmp_path, "a", b"2")
    assert [first.name, second.name] == ["12346_a.json", "12347_a.json"]
    assert first.read_bytes() == b"1"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["0007_old.json", "12345_large.json", "notes.json", first.name, second.name]
    )


def test_a_number_that_was_taken_meanwhile_is_left_to_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0001_a.json").write_text("theirs")
    monkeypatch.setattr(saving, "_last", lambda _: 0)
    assert save(tmp_path, "a", b"ours").name == "0002_a.json"
    assert (tmp_path / "0001_a.json").read_text() == "theirs"


def test_a_file_system_without_links_takes_a_run_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    (tmp_path / "0001_a.json").write_text("theirs")
    monkeypatch.setattr(saving, "_last", lambda _: 0)
    assert save(tmp_path, "a", b"ours").read_bytes() == b"ours"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "0001_a.json": "theirs",
        "0002_a.json": "ours",
    }


@pytest.mark.parametrize("links", [True, False])
def test_a_disk_that_is_full_leaves_no_half_run(tmp_path: Path, links: bool) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path; from suite.session.storage import save\n"
        "def refuse(*_): raise PermissionError(1, 'Operation not permitted')\n"
        f"if not {links}: Path.hardlink_to = refuse\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "save(Path(sys.argv[1]), 'a', b'x' * 100_000)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, check=False)
    assert b"File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000


@pytest.mark.parametrize("links", [True, False])
def test_a_run_that_cannot_be_copied_leaves_nothing_and_is_copied_later(tmp_path: Path, links: bool) -> None:
    code = (
        "import resource, signal, sys; from pathlib import Path; from suite.session.storage import copy\n"
        "def refuse(*_): raise OSError(18, 'Invalid cross-device link')\n"
        f"if not {links}: Path.hardlink_to = refuse\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "if len(sys.argv) > 3: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "copy(*map(Path, sys.argv[1:3]))"
    )
    source, target = tmp_path / "a.json", tmp_path / "published" / "a.json.gz"
    source.write_bytes(content := random.Random(0).randbytes(100_000))
    os.utime(source, (1, 1))
    command = [sys.executable, "-c", code, str(source), str(target)]
    done = subprocess.run([*command, "full"], cwd=ROOT, capture_output=True, check=False)
    assert b"File too large" in done.stderr
    assert (source.stat().st_size, list(target.parent.iterdir())) == (100_000, [])
    subprocess.run(command, cwd=ROOT, check=True)
    assert (source.exists(), gzip.decompress(target.read_bytes())) == (True, content)
    assert target.stat().st_mtime == 1 or not links


def test_what_a_killed_run_left_half_saved_is_gone_after_the_next(tmp_path: Path) -> None:
    code = "import os, sys; from pathlib import Path; from suite.session import storage as saving\n"
    code += "with saving._write(Path(sys.argv[1]), b'half'): os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".partial-")
    save(tmp_path, "a", b"whole")
    assert [path.name for path in tmp_path.iterdir()] == ["0001_a.json"]


def test_a_name_that_is_too_long_for_a_file_is_refused_before_anything_runs(suite: Suite) -> None:
    assert name_fits("x" * 245)
    assert not name_fits("x" * 246)
    assert not name_fits("é" * 130)
    assert shorten_name("x" * 5000) == "x" * 245
    assert name_fits(shorten_name("é" * 300))
    assert shorten_name("short") == "short"
    done = suite(*ONE[:-1], f"--benchmark-save={'x' * 300}")
    assert done.status == 4
    assert "is too long for the name of a file" in done.output
    assert not done.launched
    assert not (suite.folder / "runs").exists()


def test_a_user_s_run_gets_no_number_of_a_published_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    published = OLDER[SAVED] / "another-machine"
    published.mkdir(parents=True)
    (published / "0033_busy.json").write_text("{}")
    assert save(SAVED / "m", "mine", b"{}").name == "0034_mine.json"
    assert save(tmp_path / "elsewhere", "mine", b"{}").name == "0001_mine.json"

"""Environments of releases: whole or not there, built once, and one line for whatever goes wrong."""

from __future__ import annotations

import fcntl
import hashlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from suite.plan.cell import Cell
from suite.record.parts.environment import LOCK_FILE, describe
from suite.releases import environments, uv
from suite.releases.__main__ import main
from suite.releases.environments import build, find, list_built, prepare
from suite.releases.uv import ReleaseError, UnresolvedError, read_lock
from suite.session.launches import settings
from suite.session.launches.launch import LaunchError, interpreter
from tests.releases.conftest import MINOR

pytestmark = pytest.mark.launches

ROOT = Path(__file__).parents[2]


def quiet(_: str) -> None:
    """Nothing."""


def left(folder: Path) -> set[str]:
    """What is in the folder besides locks."""
    return {path.name for path in folder.iterdir() if path.suffix != ".lock"}


def test_a_release_is_built_once_with_a_lock_of_its_files(tool: Path) -> None:
    told: list[str] = []
    made = build("jax", "0.9.2", told.append)
    assert told[0].startswith("jax 0.9.2: 8 packages (8 MB) for Python 3.")
    assert left(tool) == {"jax-0.9.2"}
    assert made.lock.splitlines()[0] == f"# CPython 3.{sys.version_info.minor}"
    assert f"flax==1.0 --hash=sha256:{'a' * 64}" in made.lock
    assert (tool / "jax-0.9.2" / LOCK_FILE).read_text() == made.lock
    asked = Path(os.environ["ASKED"])  # by the stand-in
    assert asked.read_text().split() == [
        "jax==0.9.2", "flax", "optax", "grain", "keras", "msgspec>=0.22,<0.23", "numpy>=2.0,<3", "psutil>=7.0", "--",
    ]  # fmt: skip
    assert build("jax", "0.9.2", told.append) == made
    assert asked.read_text().count("--") == 1
    assert list_built("jax") == [made]


def test_a_worker_gets_what_the_project_itself_needs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(environments.WORKER) == set(project["dependencies"])


def test_launches_find_it_by_its_variable_and_records_name_its_lock(
    tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(LaunchError, match=r"`training-suite releases jax --build 0\.9\.2` makes one"):
        interpreter("jax", "0.9.2")
    monkeypatch.setenv("SUITE_PYTHON_JAX_0_9_2", "")
    cells = [
        Cell("imdb_lstm", "jax", release="0.9.2"),
        Cell("imdb_lstm", "jax"),
        Cell("imdb_lstm", "jax", release="0.1"),
    ]
    locks = settings.build_releases(cells, quiet)
    assert list(locks) == ["jax 0.9.2"]
    assert interpreter("jax", "0.9.2") == str(tool / "jax-0.9.2" / "bin" / "python")
    assert settings.build_releases(cells, quiet) == locks, "a second run in the same process has the locks too"
    monkeypatch.setattr(sys, "prefix", str(tool / "jax-0.9.2"))
    assert describe(["jax"])["lock"] == hashlib.sha256(locks["jax 0.9.2"].encode()).hexdigest()


def test_an_interpreter_that_the_user_names_is_left_alone(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUITE_PYTHON_JAX_0_9_2", sys.executable)
    assert prepare([("jax", "0.9.2"), ("jax", "")], quiet) == {}
    assert not tool.exists()


def test_a_release_that_is_known_to_be_unsound_is_named_before_anything_is_built(
    tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setenv("SUITE_PYTHON_JAX_0_10_2", sys.executable)
    prepare([("jax", "0.10.2")], told.append)
    assert any("jax/issues/39103" in line for line in told), "also where the user names the interpreter"
    monkeypatch.delenv("SUITE_PYTHON_JAX_0_10_2")
    told.clear()
    prepare([("jax", "0.11.0")], told.append)
    assert "jax/issues/39257" in told[0]


def test_one_process_at_a_time_builds_an_environment(tool: Path) -> None:
    told: list[str] = []
    tool.mkdir(parents=True)
    with (tool / "jax-0.9.2.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=build, args=("jax", "0.9.2", told.append))
        second.start()
        while not told:
            time.sleep(0.01)
        assert told == ["waiting for another process that builds jax-0.9.2"]
        assert left(tool) == set()
    second.join()
    assert left(tool) == {"jax-0.9.2"}


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX's, where another test has imported it
@pytest.mark.parametrize("word", ["venv", "compile", "install"])
def test_a_kill_in_the_middle_leaves_nothing_half(word: str, tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAILS", json.dumps({word: "killed"}))
    killed = multiprocessing.get_context("fork").Process(target=build, args=("jax", "0.9.2", quiet))
    killed.start()
    killed.join()
    assert killed.exitcode == -9
    assert find("jax", "0.9.2") is None
    assert list_built("jax") == []
    monkeypatch.delenv("FAILS")
    build("jax", "0.9.2", quiet)
    assert left(tool) == {"jax-0.9.2"}, "the next one takes away what was left"


@pytest.mark.parametrize(("said", "words"), [
    ("error: Failed to fetch: https://x/simple/jax/", "the package index does not answer"),
    ("OSError: [Errno 28] No space left on device", "the disk is full; free some, or name another folder"),
    ("error: No solution found when resolving\n  cause: there is no version of jax==0.9.2",
     "no version of jax==0.9.2. `training-suite releases jax` lists what fits"),
    ("Traceback\nboom", "jax 0.9.2: boom"),
    ("", "it said nothing"),
])  # fmt: skip
def test_what_goes_wrong_is_one_line_and_leaves_nothing(
    said: str, words: str, tool: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FAILS", json.dumps({"compile": said or 3}))
    assert main(["jax", "--build", "0.9.2"]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1
    assert left(tool) == set()


def test_an_older_python_is_tried_where_the_newest_has_no_wheels(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uv, "pythons", lambda: (SimpleNamespace(minor=14, version="3.14"), OLD))
    original = environments._build

    def first_fails(place: object, python: object, *rest: object) -> object:
        if python is not OLD:
            raise UnresolvedError("no wheels")
        return original(place, python, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(environments, "_build", first_fails)
    assert build("jax", "0.9.2", quiet).python_version == OLD.version


OLD = SimpleNamespace(minor=sys.version_info.minor, version=f"3.{sys.version_info.minor}", path=sys.executable)


def test_too_little_room_is_said_before_anything_is_downloaded(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**6))
    monkeypatch.setenv("FAILS", json.dumps({"install": "must not be called"}))
    with pytest.raises(ReleaseError, match=r"needs about 0\.0 GB, and .* has 0\.0 GB free"):
        build("jax", "0.9.2", quiet)
    assert left(tool) == set()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SUITE_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(ReleaseError, match="cannot be written: Not a directory; name another folder"):
        build("jax", "0.9.2", quiet)


def test_a_release_that_is_too_old_is_not_built(tool: Path) -> None:
    with pytest.raises(ReleaseError, match=r"jax 0\.1 is older than"):
        build("jax", "0.1", quiet)
    assert not tool.exists()


def test_what_is_removed_is_an_environment_of_the_suite_alone(
    tool: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build("jax", "0.9.2", quiet)
    assert main(["jax", "--remove", "0.9.2"]) == 0
    assert capsys.readouterr().out.startswith("jax 0.9.2: removed")
    assert left(tool) == set()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / LOCK_FILE).touch()
    (mine / "pyvenv.cfg").touch()
    (tool / "jax-0.9.3").symlink_to(mine)
    (tool / "jax-0.9.4").mkdir()
    for release in ("0.9.3", "0.9.4", "0.9.5"):
        assert main(["jax", "--remove", release]) == 2
    assert "is not built here" in capsys.readouterr().err
    assert mine.is_dir()
    assert (tool / "jax-0.9.4").is_dir()


def test_an_environment_whose_python_is_gone_says_so(tool: Path) -> None:
    build("jax", "0.9.2", quiet)
    python = tool / "jax-0.9.2" / "bin" / "python"
    python.unlink()
    python.symlink_to(tool / "nowhere")
    with pytest.raises(ReleaseError, match="is gone from this machine"):
        find("jax", "0.9.2")
    assert main(["jax", "--remove", "0.9.2"]) == 0


def test_without_uv_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ReleaseError, match="pip install uv"):
        uv.program()
    (tmp_path / "uv").touch()
    assert uv.program() == str(tmp_path / "uv")


def test_pythons_are_those_that_uv_finds_one_of_each_minor_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listed = [
        {"version_parts": {"major": major, "minor": minor, "patch": 1}, "path": f"python{minor}{kind}{variant}",
         "implementation": kind, "variant": variant}
        for major, minor, kind, variant in [
            (3, 30, "cpython", "freethreaded"), (3, 30, "cpython", "default"), (3, 31, "pypy", "default"),
            (3, 10, "cpython", "default"), (3, MINOR, "cpython", "default"),
        ]
    ]  # fmt: skip
    program = tmp_path / "uv"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(listed)}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(uv, "program", lambda: str(program))
    uv.pythons.cache_clear()
    assert uv.pythons() == (uv.Python(30, "python30cpythondefault"), uv.Python(MINOR, sys.executable))
    uv.pythons.cache_clear()


@pytest.mark.parametrize(
    "text", ["", "jax==1", "# CPython 3.13\n", "# CPython 3.13\n-e /tmp/evil", None, ["x"], "x" * 10**6]
)
def test_a_stored_lock_that_is_none_is_refused(text: object) -> None:
    with pytest.raises(ReleaseError, match="lock"):
        read_lock(text)


def test_nothing_of_it_is_imported_unless_a_release_is_named() -> None:
    code = """
import sys, suite.plugin, suite.session.run, suite.worker.process, suite.tune.searching, suite.compare.comparing
from suite.plan.cell import Cell
from suite.session.launches import settings
assert settings.build_releases([Cell("imdb_lstm", "jax")], print) == {}
print(*(name for name in sys.modules if name.startswith("suite.releases")))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []

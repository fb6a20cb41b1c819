"""``training-suite bisect`` with a stand-in for the launcher: what it launches, saves, says, and goes on with."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from suite.analysis.records.load import load
from suite.bisect import measuring
from suite.bisect.__main__ import main
from suite.plan.cell import Cell
from suite.plan.settings.frameworks import interpreter_variable
from suite.record.job import Job
from suite.record.record import Outcome, Record
from suite.releases.index import Release
from suite.session import storage
from suite.session.launches import machine
from tests.profiles import profiled
from tests.tuning import Launcher

VERSIONS = ["0.8.0", "0.8.1", "0.9.0", "0.9.1", "0.10.0", "0.10.2"]
SLOW = ("0.9.1", "0.10.0", "0.10.2")


def rate(cell: Cell, _: int) -> float | Outcome:
    return 800.0 if cell.release in SLOW else 1000.0


@pytest.fixture(autouse=True)
def _light(monkeypatch: pytest.MonkeyPatch) -> None:
    """No data, no environments, no index, and no questions about the processor."""
    monkeypatch.setattr("workloads.data.prepare.prepare", lambda name, *_, **__: Path(name))
    monkeypatch.setattr(storage.benchmarks, "pytest_benchmark_generate_machine_info", lambda: {"node": "here"})
    monkeypatch.setattr(measuring, "releases", lambda _: [Release(version, (13,)) for version in VERSIONS])
    for version in VERSIONS:
        monkeypatch.setenv(interpreter_variable("jax", version), sys.executable)


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Launcher:
    made = Launcher(rate)
    monkeypatch.setattr(machine, "launch", made)
    return made


def arguments(folder: Path, *more: str) -> list[str]:
    places = [f"--{name}={folder / name}" for name in ("journals", "storage")]
    asked = ["imdb_lstm-jax", "--size", "small", "--good", "0.8.0", "--bad", "0.10.2"]
    return [*asked, "--data", "synthetic", "--device", "cpu", *places, *more]


def test_it_names_the_first_slow_release_and_keeps_every_launch(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tmp_path)) == 0
    told, lines = capsys.readouterr()
    assert told.startswith("JAX 0.9.1 is the first slow release: 0.8")
    assert "x the throughput of 0.9.0 (95 % interval" in told
    assert "6 releases from 0.8.0 to 0.10.2; each decision has a risk of 1.0%" in lines
    assert "0.10.2: slow after " in lines
    assert "x of the one before" in lines
    (saved,) = (tmp_path / "storage").rglob("*.json")
    (journal,) = (tmp_path / "journals").glob("*.jsonl")
    assert {len(load([path]).launches) for path in (saved, journal)} == {len(launcher.made)}
    assert {cell.release for cell, _ in launcher.made} < set(VERSIONS), "not all were needed"


def test_with_profiles_it_says_what_changed(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[bool] = []

    def launch(job: Job, *rest: object, **more: object) -> Record:
        asked.append(job.profile)
        return profiled(launcher(job, *rest, **more))

    monkeypatch.setattr(machine, "launch", launch)
    assert main(arguments(tmp_path, "--why")) == 0
    told = capsys.readouterr().out
    assert "Why: JAX with release 0.9.1 against release 0.9.0: 0.8" in told
    assert told.count("Why:") == 1
    assert all(asked)


def test_an_interrupted_search_goes_on_where_it_was(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher.stop_after = 11
    assert main(arguments(tmp_path)) == 130
    assert "continue with the same options and --resume" in capsys.readouterr().err
    launcher.stop_after = None
    assert main(arguments(tmp_path, "--resume")) == 0
    assert "JAX 0.9.1 is the first slow release" in capsys.readouterr().out
    assert len(set(launcher.made)) == len(launcher.made), "no launch was made twice"


def test_what_lacks_an_interface_is_passed_over(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher.behave = lambda cell, n: Outcome("unsupported", "lacks") if cell.release == "0.9.0" else rate(cell, n)
    assert main(arguments(tmp_path)) == 0
    told = capsys.readouterr().out
    assert "JAX 0.9.1 is the first slow release" in told
    assert "the throughput of 0.8.1" in told
    assert "0.9.0 could not be measured." in told


def test_nightlies_are_searched_where_they_are_named(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nightlies = [f"0.10.0.dev2026040{day}" for day in range(1, 8)]
    for version in nightlies:
        monkeypatch.setenv(interpreter_variable("jax", version), sys.executable)
    launcher.behave = lambda cell, _: 800.0 if cell.release >= nightlies[4] else 1000.0
    named = ["--good", nightlies[0], "--bad", nightlies[-1], "--releases", ",".join(nightlies[1:-1])]
    assert main(arguments(tmp_path, *named)) == 0
    assert f"JAX {nightlies[4]} is the first slow release" in capsys.readouterr().out


def test_without_a_slow_release_it_says_so(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher.behave = lambda *_: 1000.0
    assert main(arguments(tmp_path)) == 1
    assert capsys.readouterr().out.startswith("JAX 0.10.2 is not decidedly slower than 0.8.0 (")


@pytest.mark.parametrize(("more", "words"), [
    (["--good", "0.11.0"], "--good 0.11.0 is not older than --bad 0.10.2"),
    (["--good", "x"], "release is 'x'; write a version"),
    (["--releases", "0.9.0,y"], "release is 'y'; write a version"),
    (["--min-window", "0"], "--min-window is 0"),
])  # fmt: skip
def test_wrong_usage_is_one_line(
    more: list[str], words: str, launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments(tmp_path, *more)) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1
    assert not launcher.made


def test_a_bad_release_that_does_not_run_ends_the_search_in_one_line(
    launcher: Launcher, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launcher.behave = lambda cell, n: Outcome("crashed", "signal 11") if cell.release == "0.10.2" else rate(cell, n)
    assert main(arguments(tmp_path)) == 2
    assert (
        "training-suite bisect: a launch of release 0.10.2 did not end well; see the line above"
        in capsys.readouterr().err
    )

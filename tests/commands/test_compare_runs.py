"""Two runs on the command line of `suite.compare`: of one machine, and of two."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from suite.compare.__main__ import main
from suite.record.record import Record
from tests import records
from tests.records import replace


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return records.save(tmp_path / "results" / "runs" / "machine" / "0001_smoke.json", records.mixed())


def slowed(record: Record, times: float) -> Record:
    """The launch with windows that took so many times as long."""
    train = record.phases["train"]
    windows = tuple(each._replace(seconds=times * each.seconds) for each in train.windows)
    return replace(record, phases=record.phases | {"train": replace(train, windows=windows)})


@pytest.mark.usefixtures("undrawn")
def test_two_runs_of_one_machine_are_compared_cell_by_cell(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = [slowed(record, 1.5) for record in records.launches(["jax"], n=6, run="run-b")]
    records.save(run, records.launches(n=6))
    other = records.save(run.with_name("0002_jax.json"), held, "run-b")
    assert main(["1", str(other), "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["tables"]
    ratios = {(cell["framework"], cell["settings"]["run"]): cell["ratio"] for cell in found["cells"]}
    assert ratios["jax", "run-b"]["verdict"] == "slower"
    assert ratios["jax", "run-b"]["value"] == pytest.approx(1 / 1.5, rel=0.05)
    assert ratios["jax", "run-b"]["tests"] == 1, "the same cell alone is in both"
    assert Path("runs/0001_smoke-and-1-more/table.md").exists()
    assert main(["1", str(other)]) == 0
    shown = capsys.readouterr().out
    assert f"{ratios['jax', 'run-b']['value']:.2f} (" in shown
    assert "within blocks" not in shown
    assert main(["1", str(other), "--fail-if", "slower=5%"]) == 1
    assert f"{ratios['jax', 'run-b']['high']:.3f}" in capsys.readouterr().err, "the verdict of the table is that of CI"


@pytest.mark.usefixtures("undrawn")
def test_asked_for_the_frameworks_no_ratio_is_formed_between_runs(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = records.save(run.with_name("0002_jax.json"), records.launches(["jax"], run="run-b"), "run-b")
    assert main(["1", str(other), "--verbose", "--by", "framework"]) == 0
    said = capsys.readouterr().out
    assert "run-a" in said
    assert "run-b" in said
    assert "no ratio: no cell of pytorch" in said


def test_two_machines_are_refused_in_one_line(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    elsewhere = [replace(each, environment={"machine": {"cpu": "Another", "cores": 4}})
                 for each in records.launches(["jax"], run="run-b")]  # fmt: skip
    other = records.save(run.with_name("0002_jax.json"), elsewhere, "run-b")
    assert main(["1", str(other)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "--across-machines" in said.err
    assert len(said.err.splitlines()) == 1


def test_one_run_is_not_compared_with_itself(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(run), "--by", "run"]) == 2
    assert "run-a" in capsys.readouterr().err

"""A run in this process: what it says and does before its first launch, and what it notes of a launch."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from suite.monitor.gpu import Driver
from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.parts.history import Ranks
from suite.record.record import Outcome, Record
from suite.session.eta import LAUNCHES_LEAST, durations
from suite.session.launches import machine
from suite.session.launches.machine import LaunchCallbacks, Machine
from suite.session.launches.settings import Settings
from suite.session.run import Run
from tests import records
from workloads.data.dataset import DataError

TRAINED = Cell("imdb_lstm", "jax", recipe="modern")
SMALL = TRAINED.but(size="small")
TIMED = Cell("imdb_lstm", "jax")


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workloads.data.prepare.prepare", lambda name, *_, **__: Path(name))


def made(folder: Path, cells: list[Cell], **changed: Any) -> tuple[Run, list[str]]:
    """A run with one launch of each cell, and the list of what it says."""
    said: list[str] = []
    settings = Settings("smoke", 1, Plan(), device="cpu", journals=folder)
    return Run(replace(settings, **changed), [(cell, 0) for cell in cells], said.append, said.append), said


@pytest.mark.parametrize(
    ("cells", "done", "on_cpu", "line"),
    [
        ([TRAINED, SMALL], 0, True, "2 launches; those with a recipe train to the end: hours on a CPU"),
        ([TRAINED, SMALL], 1, True, "1 launch; those with a recipe train to the end: minutes each on a CPU"),
        ([TRAINED, SMALL], 0, False, "2 launches; those with a recipe train to the end"),
        ([TRAINED, TIMED], 1, True, "1 launch, about "),
    ],
)
def test_how_long_trainings_take_is_said_of_those_that_remain_and_of_a_cpu(
    tmp_path: Path, cells: list[Cell], done: int, on_cpu: bool, line: str
) -> None:
    run, said = made(tmp_path, cells)
    run._outlook.eta.cpu = on_cpu
    run.records += [Record(cell, Outcome("ok")) for cell in cells[:done]]
    run.prepare()
    run.close()
    assert said[-1].startswith(line)
    assert line.endswith("about ") or said[-1] == line


def test_the_scratch_folder_is_made_once_the_data_is_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_folders: list[str] = []

    def scratch_folder() -> Any:
        made_folders.append("made")
        raise AssertionError

    def no_data(*_: Any, **__: Any) -> Path:
        raise DataError("no data")

    monkeypatch.setattr(machine, "scratch_folder", scratch_folder)
    monkeypatch.setattr("workloads.data.prepare.prepare", no_data)
    run, _ = made(tmp_path, [TIMED])
    with pytest.raises(DataError):
        run.prepare()
    run.close()
    assert not made_folders


def test_a_launch_that_failed_alone_is_called_it(tmp_path: Path) -> None:
    crashed, good = Record(TIMED, Outcome("crashed", "why")), Record(SMALL, Outcome("unsupported", "no"))
    described = Settings("smoke", 1, Plan(), device="cpu").signature()
    for held, words in (
        ([crashed], ": 1 launch is in its journal; it failed and will run again"),
        ([crashed, good], ": 2 launches are in its journal; 1 of them failed and will run again"),
        ([good], ": 1 launch is in its journal"),
    ):
        path = tmp_path / f"{len(words)}.jsonl"
        lines = [{"run": described}, *(record.to_json() for record in held)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        run, said = made(tmp_path, [], resume=path.stem)
        run.close()
        assert [line for line in said if line.startswith("resuming")] == [f"resuming run {path.stem}{words}"]


def test_the_time_of_a_launch_is_in_its_record_and_a_resumed_run_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        machine, "launch", lambda job, *_, **__: Record(job.cell, Outcome("unsupported", "no"), job.launch)
    )
    cells = [TIMED.but(batch=size) for size in range(1, LAUNCHES_LEAST + 2)]
    run, _ = made(tmp_path, cells)
    run.prepare()
    for cell in cells[:LAUNCHES_LEAST]:
        assert run.launch(cell, 0).run["took_s"] >= 0
    run.close()
    path = run.journal.path
    path.write_text(re.sub(r'"took_s": [\d.]+', '"took_s": 50', path.read_text()))
    again, said = made(tmp_path, cells, resume=path.stem)
    again.prepare()
    again.close()
    assert again._outlook.eta.known
    assert said[-1].startswith("1 launch, about "), said
    assert 40 < again._outlook.estimate_s([(cells[0], 0)]) < 60


def test_the_search_for_the_largest_batch_is_noted_apart() -> None:
    assert durations(12.34567, searching_s=0.0) == {"took_s": 12.346}
    assert durations(12.0, searching_s=2.0) == {"took_s": 12.0, "searching_s": 2.0}


@pytest.mark.parametrize("profile", [True, False])
def test_a_launch_is_asked_for_a_profile_whose_files_lie_beside_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: bool
) -> None:
    jobs: list[Job] = []
    failed = Record(TIMED, Outcome("error", "no worker was started"))
    monkeypatch.setattr(machine, "launch", lambda job, *_, **__: jobs.append(job) or failed)
    run, _ = made(tmp_path / "journals", [TIMED], profile=profile, profile_memory=profile)
    run.launch(TIMED, 0)
    run.close()
    (job,) = jobs
    assert (job.profile, job.profile_memory, job.profile_code) == (profile, profile, False)
    traces = tmp_path / "journals" / str(run.info["id"]) / f"{TIMED.id}-launch0"
    assert job.traces == (str(traces) if profile else "")
    assert Job.loads(job.dumps()) == job


def test_a_launch_on_several_gpus_says_how_they_are_linked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpus: Any = [SimpleNamespace(name=name) for name in ("first", "second", "third")]
    monkeypatch.setattr(machine, "open_nvml", lambda: contextlib.nullcontext((Driver("580.1", "13.0"), gpus)))
    monkeypatch.setattr(machine, "idle", lambda _: None)
    monkeypatch.setattr(machine, "links", lambda used: [f"GPUs: {', '.join(each.name for each in used)}"])
    one = records.record("pytorch")
    ranks = Ranks(world=2, devices=2, strategy="ddp", backend="nccl", threads_per_rank=8)
    made = {cell: replace(one, cell=cell) for cell in (one.cell, one.cell.but(devices=2))}
    monkeypatch.setattr(machine, "launch", lambda job, *_, **__: made[job.cell])
    monkeypatch.setattr(Machine, "folder", lambda *_: tmp_path)
    made[one.cell.but(devices=2)] = replace(made[one.cell.but(devices=2)], ranks=ranks)
    with contextlib.ExitStack() as until:
        host = Machine("cuda", "auto", None, print, until)
        alone, several = (host.launch(Job(cell, ""), tmp_path, 1.0, LaunchCallbacks()) for cell in made)
    assert alone.environment["driver"] == {"version": "580.1", "cuda": "13.0"}
    assert alone.ranks is None
    assert several.ranks
    assert several.ranks.links == ("GPUs: first, second",), "only those in use"

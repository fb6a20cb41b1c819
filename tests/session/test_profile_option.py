"""A run with ``--profile`` asks each launch for a profile, whose files lie beside the journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.record import Outcome, Record
from suite.session import run as runs
from suite.session.hosts import local


def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cell: Cell, **options: bool) -> tuple[Job, str]:
    """The job of the only launch of a run, and the run's id."""
    asked: list[Job] = []

    def launch(job: Job, *_: Any, **__: Any) -> Record:
        asked.append(job)
        return Record(job.cell, Outcome("error", "no worker was started"), job.launch)

    monkeypatch.setattr(local, "launch", launch)
    monkeypatch.setattr(local, "prepare", lambda *_, **__: tmp_path)
    settings = runs.Settings("smoke", 1, Plan(), device="cpu", journals=tmp_path / "journals", **options)
    run = runs.Run(settings, [(cell, 0)], lambda _: None, lambda _: None)
    run.launch(cell, 0)
    run.close()
    (job,) = asked
    return job, str(run.info["id"])


def test_the_launch_is_asked_for_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell("imdb_lstm", "jax")
    job, run = jobs(tmp_path, monkeypatch, cell, profile=True, profile_memory=True)
    assert (job.profile, job.profile_memory, job.profile_code) == (True, True, False)
    assert Path(job.traces) == tmp_path / "journals" / run / f"{cell.id}-launch0"
    assert Job.loads(job.dumps()) == job


def test_without_the_option_it_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, _ = jobs(tmp_path, monkeypatch, Cell("imdb_lstm", "jax"))
    assert (job.profile, job.traces) == (False, "")

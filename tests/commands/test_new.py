"""``training-suite new`` and what it writes, measured by a real worker."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from suite.new.__main__ import main
from suite.plan.cell import WORKLOADS, Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.session.launches.launch import launch
from tests.prove.mistakes import forget
from workloads import registry
from workloads.data.own import prepare_own


def test_it_writes_the_files_asked_for_and_replaces_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workload", "mine", "--framework", "jax", "--into", str(tmp_path)]) == 0
    assert {path.name for path in (tmp_path / "mine").iterdir()} == {"spec.py", "data.py", "jax.py"}
    assert "training-suite prove" in capsys.readouterr().out
    before = (tmp_path / "mine" / "spec.py").read_bytes()
    assert main(["workload", "mine", "--into", str(tmp_path)]) == 1
    assert "stays as it is" in capsys.readouterr().err
    assert (tmp_path / "mine" / "spec.py").read_bytes() == before


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_text

    def full(path: Path, *arguments: Any, **named: Any) -> int:
        if path.name == "data.py":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, *arguments, **named)

    monkeypatch.setattr(Path, "write_text", full)
    assert main(["workload", "mine", "--into", str(tmp_path)]) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "words"), [
    *((name, "use small letters") for name in ("../mine", "Mine", "", "own mine")),
    *((name, f"NAME is '{name}', a workload of the suite; choose another") for name in WORKLOADS),
])  # fmt: skip
def test_a_name_that_is_none_or_taken_is_refused(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["workload", name, "--into", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.launches
@pytest.mark.parametrize(
    "framework", ["pytorch", *(pytest.param(name, marks=pytest.mark.slow) for name in ("tensorflow", "jax"))]
)
def test_the_template_runs_as_it_stands(framework: str, tmp_path: Path) -> None:
    assert main(["workload", "mine", "--into", str(tmp_path)]) == 0
    registry.register(tmp_path / "mine")
    try:
        data = prepare_own("own_mine", "auto", tmp_path / "cache", lambda _: None)
        cell = Cell("own_mine", framework, batch=16, size="small")
        job = Job(cell, str(data), device="cpu", plan=Plan(0.02, 2, 0.1), workload_folder=str(tmp_path / "mine"))
        record = launch(job, tmp_path / "log")
        assert record.outcome.ok, (record.outcome, record.log)
        assert record.workload["files"] == registry.files_digest("own_mine")
        assert record.identity
        assert record.identity.dropout
        if framework == "jax":
            lost = launch(Job(cell, str(data), device="cpu"), tmp_path / "log")
            assert "name its folder with --workloads" in lost.outcome.reason
    finally:
        forget("own_mine")

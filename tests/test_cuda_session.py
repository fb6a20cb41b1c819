"""The session of ``tests/cuda``, as a CPU rehearses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from suite.session.launches.launch import ROOT

pytestmark = pytest.mark.launches


@pytest.fixture
def rehearse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SUITE_CUDA_REHEARSE", "cpu")
    monkeypatch.setenv("SUITE_CUDA_BUDGET_S", "1")  # in which nothing is launched
    monkeypatch.setenv("SUITE_CUDA_REPORT", str(tmp_path / "report.json"))
    monkeypatch.delenv("SUITE_DATA_DIR", raising=False)  # real data would be parsed for nothing

    def rehearsed(*options: str) -> tuple[int, list[str]]:
        command = [sys.executable, "-m", "pytest", "tests/cuda", "-q", "-p", "no:cacheprovider", *options]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout.splitlines()

    return rehearsed


def test_a_session_that_ran_too_little_fails_and_says_how_much_and_why(rehearse: Any) -> None:
    status, lines = rehearse()
    assert status == pytest.ExitCode.TESTS_FAILED
    (said,) = [line for line in lines if "were not run" in line]
    assert "which is too many to pass: the budget of" in said
    assert "SUITE_CUDA_BUDGET_S" in said


def test_the_whole_run_comes_last_in_any_order(rehearse: Any) -> None:
    _, lines = rehearse("--collect-only")
    names = [line for line in lines if "::" in line]
    assert all("whole_run" in name for name in names[-2:])
    assert not any("whole_run" in name for name in names[:-2])

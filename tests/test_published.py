"""Tests and studies read what the project published, whatever else lies below results/."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.published import RESULTS, RUNS

TESTS = Path(__file__).parent
ROOT = TESTS.parent
#: Ways to all that lies there, a user's own runs too.
EVERYTHING = re.compile(
    r'(ROOT|parents\[\d\]\)?) / "results" / "runs"|Path\("results/runs"\)|load import .*\bSTORAGE\b'
)


def test_every_published_run_is_listed_and_has_its_folder() -> None:
    assert 10 <= len(RUNS) <= 16, "the newest answer of each question; older ones are in git's history"
    assert all(path.exists() and (RESULTS / name / "report.html").exists() for name, path in RUNS.items())


def test_no_test_reads_runs_that_are_not_listed() -> None:
    reading = [path.name for path in TESTS.rglob("*.py") if EVERYTHING.search(path.read_text(encoding="utf-8"))]
    assert set(reading) <= {"hero.py", "redraw.py"}, "read tests.published.RUNS instead"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a clone")
def test_git_keeps_published_runs_and_ignores_a_user_s_own() -> None:
    places = ("results/runs/machine/9999_new.json", "results/9999_new/table.md", "runs/saved/machine/9999_new.json")
    done = subprocess.run(["git", "check-ignore", *places], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["runs/saved/machine/9999_new.json"]

"""Tests and studies read what the project published, whatever else lies below results/."""

from __future__ import annotations

import re
from pathlib import Path

from tests.published import RESULTS, RUNS

TESTS = Path(__file__).parent
#: Ways to all that lies there, a user's own runs too.
EVERYTHING = re.compile(
    r'(ROOT|parents\[\d\]\)?) / "results" / "runs"|Path\("results/runs"\)|load import .*\bSTORAGE\b'
)


def test_every_published_run_is_listed_and_has_its_folder() -> None:
    assert 10 <= len(RUNS) <= 12, "the newest answer of each question; older ones are in git's history"
    assert all(path.exists() and (RESULTS / name / "report.html").exists() for name, path in RUNS.items())


def test_no_test_reads_runs_that_are_not_listed() -> None:
    reading = [path.name for path in TESTS.rglob("*.py") if EVERYTHING.search(path.read_text(encoding="utf-8"))]
    assert set(reading) <= {"hero.py", "redraw.py"}, "read tests.published.RUNS instead"

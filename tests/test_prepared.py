"""A session that is forked from a prepared process is what one is that Python starts."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.prepared import Session, can_fork
from tests.sessions import Suite


def ended(suite: Suite, *arguments: str) -> tuple[type, int, list[str]]:
    """How it was started, its status, and what it said but for the time that it took."""
    process = suite.start(*arguments)
    done = suite.end(process)
    return type(process), done.status, [line for line in done.output.splitlines() if " in " not in line]


@pytest.mark.parametrize("arguments", [("suite", "--collect-only"), ("suite", "--launches=0")], ids=["right", "wrong"])
def test_both_say_the_same(suite: Suite, arguments: tuple[str, ...]) -> None:
    way, *forked = ended(suite, *arguments)
    assert way is Session
    suite.environment["PYTHONHASHSEED"] = "1"
    way, *started = ended(suite, *arguments)
    assert way is subprocess.Popen
    assert forked == started


@pytest.mark.parametrize("name", ["PYTHONPATH", "PYTHONWARNINGS", "LC_ALL"])
def test_where_python_would_start_otherwise_it_is_started(name: str) -> None:
    assert can_fork({**os.environ, "SUITE_CACHE_DIR": "elsewhere"})
    assert not can_fork({**os.environ, name: "another"})
    kept = {other: value for other, value in os.environ.items() if other != name}
    assert can_fork(kept) == (name not in os.environ)

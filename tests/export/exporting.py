"""Runs `training-suite export` as it is typed, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.sessions import ROOT


def export(*arguments: object, status: int = 0) -> str:
    """Returns what was printed; asserts the exit status."""
    command = [sys.executable, "-m", "suite.export", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if not status else done.stderr


def files(folder: Path) -> list[str]:
    """All files below a folder, by their paths in it."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())

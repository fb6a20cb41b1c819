"""The Pythons of this machine that can run the suite, the newest first."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: The oldest minor version that the suite runs on, and how many later ones are looked for.
OLDEST, LATER = 11, 20

#: What a Python says of itself.
_ASK = "import sys, venv; print(*sys.version_info[:2], sys.implementation.name)"


@dataclass(frozen=True)
class Python:
    """A Python by its path; ``minor`` is the second number of its version, whose first is 3."""

    minor: int
    path: str

    @property
    def version(self) -> str:
        return f"3.{self.minor}"


@cache
def pythons() -> tuple[Python, ...]:
    """The newest of each minor version that is found, the newest first; the running one is always among them."""
    found: dict[int, Python] = {}
    for path in _candidates():
        if (python := _ask(path)) and python.minor >= OLDEST:
            found.setdefault(python.minor, python)
    return tuple(found[minor] for minor in sorted(found, reverse=True))


def _candidates() -> Iterator[str]:
    yield sys.executable
    for minor in range(OLDEST, OLDEST + LATER):
        if program := shutil.which(f"python3.{minor}"):
            yield program
    pyenv = os.environ.get("PYENV_ROOT", "~/.pyenv")
    for pattern in (f"{pyenv}/versions/*/bin/python3", "~/.local/share/uv/python/*/bin/python3"):
        folder, _, rest = pattern.partition("/*/")
        yield from map(str, sorted(Path(folder).expanduser().glob(f"*/{rest}"), reverse=True))


def _ask(path: str) -> Python | None:
    """The Python behind a path; None for what does not start, as a shim may, or cannot make environments."""
    try:
        done = subprocess.run([path, "-I", "-c", _ASK], capture_output=True, text=True, timeout=20, check=True)
        major, minor, name = done.stdout.split()
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return Python(int(minor), path) if (major, name) == ("3", "cpython") else None

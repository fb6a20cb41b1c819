"""What exists, each thing declared once: settings, frameworks, precisions, devices, phases. Everything else reads it.

Installed packages add to a list by an entry point in its group, such as ``framework_training_suite.settings``, whose
value is one more declaration.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import Any

#: What the names of all groups begin with.
GROUPS = "framework_training_suite."


def load_installed(kind: str) -> tuple[Any, ...]:
    """The declarations of this kind, such as ``settings``, that installed packages add."""
    return tuple(entry.load() for entry in _entries().select(group=f"{GROUPS}{kind}")) if _is_extended() else ()


@cache
def _entries() -> Any:  # EntryPoints, which type checkers know from Python 3.12 on
    from importlib.metadata import entry_points  # here, since importing it and reading them is most of a cell's import

    return entry_points()


@cache
def _is_extended() -> bool:
    """Whether any installed package adds a declaration, of which the files are looked at only."""
    return any(map(_may_extend, dict.fromkeys(sys.path)))


def _may_extend(place: str) -> bool:
    folder, group = Path(place), f"[{GROUPS}".encode()
    try:
        files = folder.glob("*-info/entry_points.txt")
        return folder.is_file() or any(group in path.read_bytes() for path in files)  # an archive is not looked into
    except OSError:
        return True

"""What exists, each thing declared once: settings, frameworks, precisions, devices, phases. Everything else reads it.

Installed packages add to a list by an entry point in its group, such as ``framework_training_suite.settings``, whose
value is one more declaration.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points
from typing import Any


def installed(kind: str) -> tuple[Any, ...]:
    """The declarations of this kind, such as ``settings``, that installed packages add."""
    return tuple(entry.load() for entry in _entries().select(group=f"framework_training_suite.{kind}"))


@cache
def _entries() -> Any:  # EntryPoints, which type checkers know from Python 3.12 on
    return entry_points()

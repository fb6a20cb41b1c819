"""The compile cache that a launch starts with, told by its files: a program that was compiled anew is kept there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def list_files(folder: str) -> frozenset[Path]:
    """The files of a compile cache, without those that only lock it; none where no folder is named."""
    return (
        frozenset(path for path in Path(folder).rglob("*") if path.is_file() and "lock" not in path.name)
        if folder
        else frozenset()
    )


def describe(folder: str, before: frozenset[Path]) -> dict[str, Any]:
    """What a record says of the files before the step was compiled, and of those that it added; empty without any."""
    added = len(list_files(folder) - before)
    return {"compile_cache": {"files": len(before), "added": added}} if folder else {}


def read(settings: Mapping[str, Any]) -> str:
    """How the cache was when the step was compiled; empty where none was asked for, in words where it is neither."""
    found = settings.get("compile_cache")
    if not found:
        return ""
    if found["added"]:
        return "cold"
    return "warm" if found["files"] else "none that keeps the step's program"

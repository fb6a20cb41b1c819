"""Checkpoints after an epoch of a long training: arrays and a description in one file, without pickles.

A checkpoint is written under another name, synced, then renamed, so that a kill at any moment leaves the last one.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from workloads.data.dataset import Array

DESCRIPTION = "description.json"


class CheckpointError(ValueError):
    """A file that is no checkpoint of this training; one line that says why."""


def write(path: Path, key: dict[str, Any], progress: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Save ``arrays`` and ``progress``; ``key`` identifies the training. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    text = json.dumps({"key": key, "told": progress}, sort_keys=True)
    try:
        with partial.open("wb") as file:
            entries: dict[str, Any] = {DESCRIPTION: np.frombuffer(text.encode(), np.uint8), **arrays}
            np.savez(file, **entries)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read(path: Path, key: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Array]] | None:
    """Returns the progress and the arrays, or None if there is no file.

    Raises `CheckpointError` if the file is broken or belongs to another training.
    """
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        description = json.loads(arrays.pop(DESCRIPTION).tobytes())
        saved_key, progress = description["key"], description["told"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path.name} cannot be read: {error}") from None
    own_key = json.loads(json.dumps(key))
    if saved_key != own_key:
        differing = sorted(name for name in {*saved_key, *own_key} if saved_key.get(name) != own_key.get(name))
        raise CheckpointError(f"{path.name} is of another training: {', '.join(differing)} differ")
    return progress, arrays

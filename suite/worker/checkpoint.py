"""Where a long training stands after an epoch, on disk: arrays and a description in one file, without pickles.

Written under another name, brought to the disk, then renamed, so that a kill at any moment leaves the last whole one.
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


def write(path: Path, key: dict[str, Any], told: dict[str, Any], arrays: dict[str, Array]) -> None:
    """Save ``arrays`` and what is ``told``; ``key`` says which training it is. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    text = json.dumps({"key": key, "told": told}, sort_keys=True)
    try:
        with beside.open("wb") as file:
            held: dict[str, Any] = {DESCRIPTION: np.frombuffer(text.encode(), np.uint8), **arrays}
            np.savez(file, **held)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def read(path: Path, key: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Array]] | None:
    """What was told and the arrays; None where there is no file.

    Raises `CheckpointError` for one that is broken or of another training.
    """
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            arrays = {name: held[name] for name in held.files}
        found = json.loads(arrays.pop(DESCRIPTION).tobytes())
        known, told = found["key"], found["told"]
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path.name} cannot be read: {error}") from None
    own = json.loads(json.dumps(key))
    if known != own:
        other = sorted(name for name in {*known, *own} if known.get(name) != own.get(name))
        raise CheckpointError(f"{path.name} is of another training: {', '.join(other)} differ")
    return told, arrays

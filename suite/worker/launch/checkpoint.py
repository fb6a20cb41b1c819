"""Checkpoints after an epoch of a long training: arrays and a description in one file, without pickles.

A checkpoint is written under another name, synced, then renamed, so that a kill at any moment leaves the last one.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from suite.worker.distributed.ranks import Ranks
from workloads.data.dataset import Array

DESCRIPTION = "description.json"

#: How the names of arrays begin that another rank than 0 has otherwise.
OF_RANK = "rank{}/"
_RANKED = re.compile(r"rank\d+/")


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


def of_all(arrays: dict[str, Array], ranks: Ranks) -> dict[str, Array]:
    """On rank 0 the arrays of all ranks: its own, and of each other rank those that differ from them.

    Elsewhere this rank's own. All ranks call it.
    """
    if ranks.world == 1:
        return arrays
    digests = ranks.gather({name: hashlib.sha256(_bytes(array)).hexdigest() for name, array in arrays.items()})
    differing = {name: arrays[name] for name in arrays if digests[ranks.rank].get(name) != digests[0].get(name)}
    text = io.BytesIO()
    np.savez(text, **differing)  # type: ignore[arg-type]
    for rank, other in enumerate(ranks.gather_bytes(text.getvalue())):
        with np.load(io.BytesIO(other), allow_pickle=False) as archive:
            arrays = arrays | {OF_RANK.format(rank) + name: archive[name] for name in archive.files}
    return arrays


def of_rank(arrays: dict[str, Array], rank: int) -> dict[str, Array]:
    """Undoes `of_all` for one rank."""
    prefix = OF_RANK.format(rank)
    shared = {name: array for name, array in arrays.items() if not _RANKED.match(name)}
    return shared | {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _bytes(array: Array) -> bytes:
    return f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()

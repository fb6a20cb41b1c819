"""The run's own memory: one record a line, on disk before the next launch starts.

A journal survives what kills the run. Its first line says which run it is; a line that a kill cut short is dropped on
reading and cut off before anything is appended.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

from suite.record import Record, RecordError


class JournalError(RuntimeError):
    """A journal that cannot be used; one line that names the way out."""


class Journal:
    """An open journal: this process alone appends to it."""

    def __init__(self, path: Path, run: dict[str, Any]) -> None:
        """Open or create. An existing journal must belong to the same run and must not be in use."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.records: list[Record] = []
        self._file: BinaryIO = path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise JournalError(f"{path.name} is in use by another run; wait for it or start without --resume") from None
        if path.stat().st_size:
            found, self.records, whole = read(path)
            self._file.truncate(whole)
            self.run = found
        else:
            self.run = run
            self._write({"run": run})

    def append(self, record: Record) -> None:
        """Write one record through to the disk. Raises `JournalError`, with the way out, when the disk is full."""
        self._write(record.to_json())
        self.records.append(record)

    def close(self) -> None:
        self._file.close()

    def _write(self, data: dict[str, Any]) -> None:
        end = self._file.seek(0, os.SEEK_END)
        try:
            self._file.write(json.dumps(data, allow_nan=False).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            os.ftruncate(self._file.fileno(), end)
            raise JournalError(
                f"cannot write {self.path.name}: {error.strerror}; what was there is kept: "
                "make room, then go on with --resume"
            ) from None


def read(path: Path) -> tuple[dict[str, Any], list[Record], int]:
    """The run's description, its records, and the length in bytes of what is whole.

    Raises `JournalError` for a file that is no journal. A last line without its end is left out.
    """
    whole = path.read_bytes()
    whole = whole[: whole.rfind(b"\n") + 1]
    lines = whole.splitlines()
    try:
        run = json.loads(lines[0])["run"]
        records = [Record.from_json(json.loads(line)) for line in lines[1:]]
    except (IndexError, KeyError, TypeError, ValueError, RecordError) as error:
        raise JournalError(f"{path.name} is no journal of this suite: {error}") from None
    return run, records, len(whole)

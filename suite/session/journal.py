"""The journal of a run: one record per line, on disk before the next launch starts.

A journal survives what kills the run. Its first line says which run it is; a line that a kill cut short is dropped on
reading and cut off before anything is appended. Each record has a digest of the line before it (`suite.record.chain`);
those of older versions have none.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from framework_training_suite import CommandError
from suite.record.chain import BEFORE, digest
from suite.record.record import Record, RecordError
from workloads.data.files import regular


class JournalError(CommandError, RuntimeError):
    """A journal that cannot be used; one line that names the way out."""


class Journal:
    """An open journal: this process alone appends to it."""

    def __init__(self, path: Path, run: dict[str, Any]) -> None:
        """Open or create. An existing journal must belong to the same run and must not be in use."""
        self.path = path
        self.run = run
        self.records: list[Record] = []
        self._last = ""  # the digest of the last line
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered: a write that a full disk refused must not be repeated on closing.
            self._file = path.open("a+b", buffering=0)
        except OSError as error:
            raise JournalError(f"cannot open {path.name}: {error.strerror}; name another folder") from None
        try:
            self._begin()
        except BaseException:
            self._file.close()
            raise

    def append(self, record: Record) -> Record:
        """Write one record through to the disk; returns it as it stands there, with the digest of the line before.

        Raises `JournalError`, with the way out, when the disk is full.
        """
        record = replace(record, run=record.run | {BEFORE: self._last})
        self._write(record.to_json())
        self.records.append(record)
        return record

    def close(self) -> None:
        self._file.close()

    def _begin(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise JournalError(
                f"{self.path.name} is in use by another run; wait for it, or start without --resume"
            ) from None
        except OSError:  # a file system without locks
            pass
        if self.path.stat().st_size:
            self.run, self.records, complete_bytes = read(self.path)
            self._file.truncate(complete_bytes)
            self._last = self._digest_of_line(complete_bytes)
        else:
            self._write({"run": self.run})

    def _write(self, data: dict[str, Any]) -> None:
        end = self._file.seek(0, os.SEEK_END)
        remaining = memoryview(json.dumps(data, allow_nan=False).encode() + b"\n")
        try:
            while remaining:
                remaining = remaining[self._file.write(remaining) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with contextlib.suppress(OSError):  # a line that stays half written is dropped on reading
                self._file.truncate(end)
            raise JournalError(
                f"cannot write {self.path.name}: {error.strerror}; what was there is kept. "
                f"Free some space, then continue with --resume={self.path.stem}"
            ) from None
        self._last = digest(data)

    def _digest_of_line(self, end: int) -> str:
        size = 1 << 16
        while True:
            begin = max(0, end - size)
            self._file.seek(begin)
            _, newline, line = self._file.read(end - begin)[:-1].rpartition(b"\n")
            if newline or not begin:
                return digest(json.loads(line))
            size *= 4


def description(path: Path) -> dict[str, Any]:
    """The run's description alone, from the first line. Raises `JournalError` for a file that is no journal."""
    try:
        with open(str(path), "rb", opener=regular) as file:
            return _description(file.readline())
    except (OSError, ValueError, RecursionError) as error:
        raise _no_journal(path, error) from None


def read(path: Path) -> tuple[dict[str, Any], list[Record], int]:
    """The run's description, its records, and the length in bytes of its complete lines.

    Raises `JournalError` for a file that is no journal. A last line without its end is left out.
    """
    records: list[Record] = []
    complete_bytes = 0
    try:
        with open(
            str(path), "rb", opener=regular
        ) as file:  # line by line: a journal can be larger than the memory that is free
            lines = itertools.takewhile(lambda line: line.endswith(b"\n"), file)
            first_line = next(lines, b"")
            run = _description(first_line)
            complete_bytes = len(first_line)
            for line in lines:
                records.append(Record.from_json(json.loads(line[:-1])))
                complete_bytes += len(line)
    except (OSError, ValueError, RecursionError) as error:  # a RecordError is a ValueError
        raise _no_journal(path, error) from None
    return run, records, complete_bytes


def _description(line: bytes) -> dict[str, Any]:
    """The run that a journal's first line describes. Raises ValueError for any other or incomplete line."""
    data = json.loads(line) if line.endswith(b"\n") else None
    run = data.get("run") if isinstance(data, dict) else None
    if not isinstance(run, dict):
        raise RecordError("its first line describes no run")
    return run


def _no_journal(path: Path, error: Exception) -> JournalError:
    return JournalError(f"{path.name} is not a journal of this suite: {error}")

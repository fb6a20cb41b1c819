"""A worker's log: a file of bounded size, whose last lines go into the record of a failed launch."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from suite.record.text import make_printable

MOST_BYTES = 1 << 23  # a log may grow to this before its middle is left out
HEAD_BYTES, TAIL_BYTES = 1 << 16, 1 << 20  # what is kept of one that was longer

#: Of a failed launch's record.
LINES, LINE_LETTERS, READ_BYTES = 40, 1000, 1 << 16


def cut(log: Path, most: int = MOST_BYTES) -> None:
    """Leave out the middle of a log that is longer than ``most`` bytes.

    Its writer must append; it may go on. What it writes meanwhile is moved up too, but for the moment of truncating.
    """
    with contextlib.suppress(OSError), log.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if size <= most:
            return
        file.seek(0)
        head = file.read(HEAD_BYTES)
        file.seek(size - TAIL_BYTES)
        kept = head + f"\n... {size - HEAD_BYTES - TAIL_BYTES} bytes are left out here ...\n".encode()
        kept += file.read(TAIL_BYTES)
        file.seek(0)
        file.write(kept)
        file.seek(size)
        late = file.read()
        file.seek(len(kept))
        file.write(late)
        file.truncate()


def tail(log: Path) -> list[str]:
    """The last lines of a log, as a terminal may show them."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - READ_BYTES))
        lines = file.read().decode(errors="replace").splitlines()[-LINES:]
        return [make_printable(line[:LINE_LETTERS].expandtabs()).rstrip() for line in lines]
    return []

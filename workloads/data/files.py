"""Opens regular files only, in folders where others may have put anything.

A FIFO without a writer would block `open` for ever, and opening a device can have effects of its own.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def regular(path: str, flags: int) -> int:
    """An ``opener`` for `open`; raises OSError for all that is no regular file, and never waits."""
    try:
        _refuse(path, Path(path).stat())  # before it is opened, since opening alone may do something
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | os.O_NONBLOCK, 0o666)
    try:
        _refuse(path, os.fstat(descriptor))  # another file may have taken its place
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: Path, limit_bytes: int) -> bytes:
    """The bytes of a regular file; OSError if it is none, cannot be read, or has more than ``limit_bytes``."""
    with open(str(path), "rb", opener=regular) as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit_bytes:
            raise OSError(errno.EFBIG, f"it has more than {limit_bytes} bytes", str(path))
        content = file.read(size + 1)
        if len(content) > size:
            raise OSError(errno.EFBIG, "it grew while it was read", str(path))
        return content


def _refuse(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, and a regular file is expected", path)

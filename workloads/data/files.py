"""Opens regular files only, in folders where others may have put anything, and says where others can.

A FIFO without a writer would block `open` for ever, and opening a device can have effects of its own. What others can
change is no cache: its files are run, or taken for what they were when they were checked.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from contextlib import nullcontext, suppress
from functools import cache
from pathlib import Path

from framework_training_suite import CommandError

KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class DataError(CommandError, RuntimeError):
    """Data that is missing, broken or not what it claims to be; one line that names the way out."""


def regular(path: str, flags: int) -> int:
    """An ``opener`` for `open`; raises OSError for all that is no regular file, and never waits.

    What is written must not be a link either, which could lead to any file of this user.
    """
    writes = bool(flags & os.O_CREAT)
    with suppress(FileNotFoundError) if writes else nullcontext():
        _refuse(path, Path(path).stat())  # before it is opened, since opening alone may do something
    if writes and Path(path).is_symlink():
        raise OSError(errno.ELOOP, "it is a link, and a regular file is expected", path)
    descriptor = os.open(path, flags | os.O_NONBLOCK | (os.O_NOFOLLOW if writes else 0), 0o666)
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


def refuse_shared(*places: Path) -> None:
    """Raise PermissionError for a file or folder that somebody besides this user and root can change."""
    for place in places:
        status = place.stat()
        others = stat.S_IWOTH | (0 if _is_private(status.st_gid) else stat.S_IWGRP)
        if status.st_uid not in (0, os.geteuid()):
            raise PermissionError(errno.EPERM, f"it belongs to user {status.st_uid}", str(place))
        if status.st_mode & others:
            raise PermissionError(errno.EPERM, "others can change it (chmod go-w)", str(place))


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, such that no others can change them."""
    for place in (*reversed([each for each in folder.parents if not each.exists()]), folder):
        place.mkdir(mode=0o755, exist_ok=True)


@cache
def _is_private(group: int) -> bool:
    """Whether a group is root's or this user's own, as many systems make one for each user."""
    try:
        found = grp.getgrgid(group)
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # an id without a name, as containers have it
        return group in (0, os.getegid())
    return group == 0 or (found.gr_name == user and set(found.gr_mem) <= {user})


def _refuse(path: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, and a regular file is expected", path)

"""Copies of a folder, one for each launch that writes into it."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from suite.record.text import clean
from suite.session.launches.launch import LaunchError

#: Bytes and files that a folder has at most of which each launch gets a copy.
COPY_MOST, COPY_FILES = 1 << 30, 100_000


def copy_folder(folder: Path, scratch: Path) -> Path:
    """A copy in ``scratch`` of the files, folders and links of a folder, without ``scratch``. Raises `LaunchError`."""

    def leave_out(place: str, names: list[str]) -> list[str]:
        return [name for name in names if (path := Path(place, name)) == scratch or not _is_copied(path)]

    left, files = COPY_MOST, COPY_FILES
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if Path(place, name) != scratch]
        found = [path.lstat().st_size for name in names if _is_copied(path := Path(place, name))]
        left, files = left - sum(found), files - len(found) - len(folders)
        if left < 0 or files < 0:
            most = f"{COPY_MOST >> 30} GiB or {COPY_FILES} files"
            raise LaunchError(
                f"--in-copy: this folder has more than {most}; start in one with the script, without data"
            )
    try:
        return shutil.copytree(folder, scratch / "copy", symlinks=True, ignore=leave_out)
    except OSError as error:
        raise LaunchError(f"--in-copy: this folder cannot be copied: {clean(error)}") from None


def _is_copied(path: Path) -> bool:
    """Whether it is a file, a folder or a link, and no pipe, socket or device."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)

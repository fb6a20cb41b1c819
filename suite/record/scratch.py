"""Scratch folders: removed after use, or by the next process if their owner was killed. Standard library only.

Each holds a file that its owner keeps locked. A folder without such a file is not a scratch folder and stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

#: The file that shows that a folder is a scratch folder of the suite, and what it holds.
OWNED, OWNED_TEXT = ".suite-scratch", b"a scratch folder of framework-training-suite\n"


@contextlib.contextmanager
def scratch(
    parent: Path | None = None, prefix: str = "suite-", before_removal: Callable[[Path], None] = lambda _: None
) -> Iterator[Path]:
    """A temporary folder in ``parent``, or where temporary files go. Raises OSError.

    Scratch folders of dead processes are removed first, each after a call of ``before_removal``.
    """
    parent = parent or Path(tempfile.gettempdir())
    sweep(parent, prefix, before_removal)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        with (folder / OWNED).open("xb", buffering=0) as owned:
            with contextlib.suppress(OSError):  # a file system without locks: nobody sweeps there either
                fcntl.flock(owned, fcntl.LOCK_EX)
                owned.write(OWNED_TEXT)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(parent: Path, prefix: str, before_removal: Callable[[Path], None] = lambda _: None) -> None:
    """Remove the scratch folders of this user in ``parent`` whose owner is dead."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(parent)):
            if (
                entry.name.startswith(prefix)
                and entry.is_dir(follow_symlinks=False)
                and _is_abandoned(Path(entry.path))
            ):
                before_removal(Path(entry.path))
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    try:
        if folder.lstat().st_uid != os.geteuid():
            return False
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(folder / OWNED, "rb", opener=lambda path, _: os.open(path, flags)) as owned:
            fcntl.flock(owned, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return owned.read(len(OWNED_TEXT) + 1) == OWNED_TEXT
    except OSError:  # it has an owner, or is not ours
        return False

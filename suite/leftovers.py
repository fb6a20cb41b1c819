"""What a launch can leave behind, and its end: processes, shared memory, scratch folders. Standard library only.

Every process of a launch inherits a mark in its environment, whatever parent, group or session it gets later, and the
names of its shared memory begin with that mark. `end` ends what bears a mark. So that this also happens when the
process that launches is killed, it has a guardian: a small process in a session of its own that waits for its death.

A scratch folder holds a file that its owner keeps locked. The next process that makes one removes those whose owner is
dead; a folder without such a file is not ours and stays.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

#: The environment variable that holds a launch's mark, and the one with the process id of its worker.
MARK, WORKER = "SUITE_LAUNCH", "SUITE_WORKER"

#: The file that shows that a folder is a scratch folder of the suite, and what it holds.
OWNED, OWNED_TEXT = ".suite-scratch", b"a scratch folder of framework-training-suite\n"

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux shows POSIX shared memory
END_WITHIN_S = 5.0  # that a killed process may take to be gone, as the kernel frees its memory

_numbers = count()
_starting = threading.Lock()  # the doctor asks several frameworks at once
_guarded: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}  # by process id, since a fork has its own launches


def mark() -> str:
    """A mark for one launch of this process, whose first one starts the guardian. Raises OSError."""
    with _starting:
        if os.getpid() not in _guarded:
            own = secrets.token_hex(4)
            command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), own]
            nothing = subprocess.DEVNULL
            guardian = subprocess.Popen(
                command, cwd="/", stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
            )
            _guarded[os.getpid()] = own, guardian
            atexit.register(_dismiss, os.getpid())
    return f"{_guarded[os.getpid()][0]}-{next(_numbers)}-"


def end(mark: str, pids: Iterable[int] = ()) -> None:
    """Kill every process that bears the mark or one that begins with it, and clear their shared memory.

    ``pids`` are further processes of the launch that have ended. Returns when all are gone, or after `END_WITHIN_S`.
    """
    killed = set(pids)
    deadline = time.monotonic() + END_WITHIN_S
    while (alive := _marked(mark)) and time.monotonic() < deadline:
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed.update(alive)
        time.sleep(0.01)
    _clear_shared_memory(mark, killed)


def adopt() -> None:
    """Let the shared memory that this process makes bear the mark. Called in a worker and in what it spawns."""
    from multiprocessing import shared_memory

    if (own := os.environ.get(MARK)) and hasattr(shared_memory, "_SHM_NAME_PREFIX"):
        # No public way sets how names begin, and without one nobody can tell whose a name is.
        shared_memory._SHM_NAME_PREFIX = f"/{own}"
        shared_memory._SHM_SAFE_NAME_LENGTH = len(own) + 18  # type: ignore[attr-defined]


def end_with_worker() -> None:
    """End this process, which a worker spawned, when the worker ends, however that ends."""
    try:
        worker = os.pidfd_open(os.getppid())
    except OSError:
        os._exit(1)
    if os.environ.get(WORKER) != str(os.getppid()):
        os._exit(1)  # it has ended already

    def wait() -> None:
        select.select([worker], [], [])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="end with worker", daemon=True).start()


@contextlib.contextmanager
def scratch(parent: Path | None = None, prefix: str = "suite-") -> Iterator[Path]:
    """A folder that is gone afterwards, in ``parent`` or where temporary files go. Raises OSError.

    What dead processes left under such names is removed first.
    """
    place = parent or Path(tempfile.gettempdir())
    sweep(place, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    try:
        with (folder / OWNED).open("xb", buffering=0) as owned:
            with contextlib.suppress(OSError):  # a file system without locks: nobody sweeps there either
                fcntl.flock(owned, fcntl.LOCK_EX)
                owned.write(OWNED_TEXT)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(place: Path, prefix: str) -> None:
    """Remove the scratch folders of this user in ``place`` whose owner is dead."""
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(place)):
            if entry.name.startswith(prefix) and entry.is_dir(follow_symlinks=False) and _abandoned(Path(entry.path)):
                shutil.rmtree(entry.path, ignore_errors=True)


def _abandoned(folder: Path) -> bool:
    try:
        if folder.lstat().st_uid != os.geteuid():
            return False
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(folder / OWNED, "rb", opener=lambda path, _: os.open(path, flags)) as owned:
            fcntl.flock(owned, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return owned.read(len(OWNED_TEXT) + 1) == OWNED_TEXT
    except OSError:  # it has an owner, or is not ours
        return False


def _marked(mark: str) -> list[int]:
    """The living processes whose environment held the mark, or one that begins with it, when they started."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            with contextlib.suppress(OSError):
                environment = (process / "environ").read_bytes()  # empty where it has ended
                if environment.startswith(wanted) or b"\0" + wanted in environment:
                    found.append(int(process.name))
    return found


def _clear_shared_memory(mark: str, pids: Iterable[int]) -> None:
    """Remove the names that bear the mark, and PyTorch's, which bear the number of the process that made them."""
    beginnings = (mark, *(f"torch_{pid}_" for pid in pids))
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(SHARED_MEMORY)):
            if entry.name.startswith(beginnings) and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                Path(entry.path).unlink(missing_ok=True)


def _dismiss(pid: int) -> None:
    """Let go of the guardian, which ends by itself when this process has ended."""
    if pid == os.getpid():
        _, guardian = _guarded.pop(pid)
        guardian.returncode = 0  # else Python warns that it still runs


def guard(parent: int, own: str) -> None:
    """Wait for the parent's death, then end all of its launches and remove its scratch folders."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # it is dead already
        watched = os.pidfd_open(parent)
        if os.getppid() == parent:
            select.select([watched], [], [])
    end(f"{own}-")
    sweep(Path(tempfile.gettempdir()), "suite-")


if __name__ == "__main__":
    guard(int(sys.argv[1]), sys.argv[2])

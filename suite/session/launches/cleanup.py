"""Ends the processes and removes the shared memory that a launch leaves behind. Standard library only.

Every process of a launch inherits a tag in its environment, whatever parent, group or session it gets later, and the
names of its shared memory begin with that tag. `end_processes` ends what bears a tag. In case the launching process is
killed, it has a guardian: a small process in a session of its own that waits for its death. If the guardian is killed
too, the next launch finds the tag in the abandoned scratch folder.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import re
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from itertools import count
from pathlib import Path

from suite.record.scratch import sweep
from suite.record.variables import PROCESS_TAG

ROOT = Path(__file__).resolve().parents[3]
CALL = "import sys; sys.path.insert(0, sys.argv[1]); from suite.session.launches import cleanup; cleanup."
GUARD, END = CALL + "guard(*sys.argv[2:])", CALL + "end_here(sys.argv[2], sys.argv[3:])"

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux shows POSIX shared memory
END_WITHIN_S = 5.0  # a killed process may take this long to disappear, as the kernel frees its memory
EMPTY_SCANS = 2  # so often none is found, as a process that starts a program shows no environment for a moment

NO_FILE = (errno.EMFILE, errno.ENFILE)

TAG_FILE = "process-tag"  # in a launch's scratch folder

_numbers = count()
_starting = threading.Lock()  # the doctor asks several frameworks at once
_guarded: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}  # by process id, since a fork has its own launches


def new_tag() -> str:
    """A tag for one launch of this process; the first call starts the guardian. Raises OSError."""
    with _starting:
        if os.getpid() not in _guarded:
            token = secrets.token_hex(4)
            command = [sys.executable, "-I", "-S", "-c", GUARD, str(ROOT), str(os.getpid()), token]
            null = subprocess.DEVNULL
            guardian = subprocess.Popen(command, cwd="/", stdin=null, stdout=null, stderr=null, start_new_session=True)
            _guarded[os.getpid()] = token, guardian
            atexit.register(_dismiss, os.getpid())
    return f"{_guarded[os.getpid()][0]}-{next(_numbers)}-"


def end_processes(tag: str, pids: Iterable[int] = ()) -> None:
    """Kill every process that bears the tag or one that begins with it, and clear their shared memory.

    ``pids`` are further processes of the launch that have ended. Returns when all are gone, or after `END_WITHIN_S`.
    """
    try:
        end_here(tag, pids)
    except OSError as error:
        if error.errno not in NO_FILE:
            raise
        command = [sys.executable, "-I", "-S", "-c", END, str(ROOT), tag, *map(str, pids)]
        os.waitpid(os.posix_spawn(sys.executable, command, os.environ), 0)  # takes no file, and has files of its own


def end_here(tag: str, pids: Iterable[int] = ()) -> None:
    """Do the work of `end_processes` in this process. Raises OSError if it can open no file."""
    killed = {int(pid) for pid in pids}
    deadline, clean = time.monotonic() + END_WITHIN_S, 0
    while clean < EMPTY_SCANS and time.monotonic() < deadline:
        alive = _find_tagged(tag)
        for pid in alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        killed.update(alive)
        clean = 0 if alive else clean + 1
        if clean < EMPTY_SCANS:
            time.sleep(0.01)
    _clear_shared_memory(tag, killed)
    with contextlib.suppress(OSError):  # where the scratch folder's name is too long for sockets
        for entry in list(os.scandir(tempfile.gettempdir())):
            if entry.name.startswith(f"pymp-{tag}") and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                shutil.rmtree(entry.path, ignore_errors=True)


def write_tag(tag: str, folder: Path) -> None:
    """Leave the tag in a launch's scratch folder. Raises OSError."""
    (folder / TAG_FILE).write_text(tag, encoding="ascii")


def end_abandoned(folder: Path) -> None:
    """End the launch whose tag is in an abandoned scratch folder."""
    with contextlib.suppress(OSError, ValueError):
        with (folder / TAG_FILE).open(encoding="ascii") as file:
            tag = file.read(40)
        if re.fullmatch(r"[0-9a-f]{8}-\d+-", tag):
            end_processes(tag)


def _find_tagged(tag: str) -> list[int]:
    """Ids of the running processes that started with the tag, or one that begins with it, in their environment.

    Raises OSError if no file can be opened.
    """
    variable, pids = f"{PROCESS_TAG}={tag}".encode(), []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            try:
                environment = (process / "environ").read_bytes()  # empty where it has ended
            except OSError as error:
                if error.errno in NO_FILE:
                    raise
                continue
            if environment.startswith(variable) or b"\0" + variable in environment:
                pids.append(int(process.name))
    return pids


def _clear_shared_memory(tag: str, pids: Iterable[int]) -> None:
    """Remove the names that begin with the tag, and PyTorch's, which contain the id of the process that made them."""
    prefixes = (tag, f"sem.{tag}", *(f"torch_{pid}_" for pid in pids))
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(SHARED_MEMORY)):
            if entry.name.startswith(prefixes) and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                Path(entry.path).unlink(missing_ok=True)


def _dismiss(pid: int) -> None:
    """Let go of the guardian, which ends by itself when this process has ended."""
    if pid == os.getpid():
        _, guardian = _guarded.pop(pid)
        guardian.returncode = 0  # or Python warns that it still runs


def guard(pid: str, token: str) -> None:
    """Wait for the parent's death, then end all of its launches and remove its scratch folders."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):  # it is dead already
        descriptor = os.pidfd_open(int(pid))
        if os.getppid() == int(pid):
            select.select([descriptor], [], [])
    end_processes(f"{token}-")
    sweep(Path(tempfile.gettempdir()), "suite-", end_abandoned)

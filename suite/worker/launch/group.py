"""The processes of one launch: they share a mark, and none outlives the worker."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

from suite.record.variables import CORES, PROCESS_TAG, WORKER


def adopt() -> None:
    """Let the shared memory and semaphores of this process bear the mark. Called in a worker and in what it spawns."""
    from multiprocessing import process, shared_memory

    mark = os.environ.get(PROCESS_TAG)
    # No public way sets how names begin, and without one nobody can tell whose a name is.
    if mark and hasattr(shared_memory, "_SHM_NAME_PREFIX"):
        shared_memory._SHM_NAME_PREFIX = f"/{mark}"
        shared_memory._SHM_SAFE_NAME_LENGTH = len(mark) + 18  # type: ignore[attr-defined]
    if mark and hasattr(process.current_process(), "_config"):
        config = process.current_process()._config  # type: ignore[attr-defined]
        config["semprefix"] = f"/{mark}"
        if not Path(tempfile.gettempdir()).name.startswith("suite-"):  # its name is too long for sockets in it
            config["tempdir"] = tempfile.mkdtemp(prefix=f"pymp-{mark}")


def take_cores() -> None:
    """Run on the cores that a rank may use, so that every library starts as many threads as there are of them."""
    cores = os.environ.get(CORES)
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})


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


def end_on_hidden_errors(tell: Callable[[BaseException], None]) -> None:
    """Let an error of a helper thread, for which nobody waits, end its process, after ``tell`` has told of it.

    Also of the thread by which a process of a loader hands over a batch: Python would drop the batch, and who waits for
    it would wait for ever. Processes that are forked inherit this.
    """
    from multiprocessing import queues

    def end(error: BaseException | None, _: object = None) -> None:
        if error is None or isinstance(error, SystemExit):  # by which a thread just ends
            return
        traceback.print_exception(error)
        tell(error)
        sys.stderr.flush()
        os._exit(1)

    threading.excepthook = lambda failed: end(failed.exc_value)
    queues.Queue._on_queue_feeder_error = staticmethod(end)  # type: ignore[attr-defined]  # made for overriding


def die_with_parent() -> None:
    """Let the kernel end this process when its parent dies for any reason (Linux: prctl, PR_SET_PDEATHSIG)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def peak_rss() -> int:
    """The peak resident memory of this process in bytes, including mapped pages of the data.

    Not `resource.getrusage`: on Linux its peak is at least what the process that started this one held then.
    """
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="ascii", errors="replace").splitlines() if status.exists() else []
    unit = 1 if sys.platform == "darwin" else 1024
    peaks = (int(line.split()[1]) for line in lines if line.startswith("VmHWM"))  # which some sandboxes do not say
    return unit * next(peaks, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

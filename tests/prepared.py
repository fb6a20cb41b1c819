"""Starts sessions of pytest as forks of one process that has imported what each of them imports.

Imports are most of a short session's time. A session is otherwise a process like any other: it has arguments,
environment, output and signals of its own, runs what follows from pytest's ``main`` on, and ends as Python ends.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import warnings
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: What every session imports.
LIGHT = (
    "pytest", "suite.plugin", "suite.test_training", "pytest_benchmark.plugin", "tests.records", "numpy", "cpuinfo",
    "execnet", "pdb", "http.server", "xml.etree.ElementTree", "workloads.data.prepare", "workloads.data.own",
    "suite.analysis.records.ledger", "suite.analysis.records.machines", "suite.analysis.rows.blocks",
    "suite.export.contents", "suite.export.live", "suite.session.engines.ray", "suite.session.engines.slurm",
    "suite.session.tracker",
)  # fmt: skip
#: pytest rewrites the assertions in these, which it can only where it imports them itself.
REWRITTEN = ("suite.plugin", "suite.test_training", "pytest_benchmark")
#: A library that has threads already cannot be forked safely: none is to be started at import.
THREADS = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
#: Passed on when they are ignored, as a new program inherits it.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LARGEST = 1 << 20
#: With this, Python and its locale start; a session for which it differs must be a process that starts.
STARTED = dict(os.environ)
AT_START = ("PYTHON", "LC_", "LANG")


def can_fork(environment: dict[str, str]) -> bool:
    """Whether Python would start in this environment as the process did that is forked."""
    either = {name for name in environment | STARTED if name.startswith(AT_START)}
    return all(environment.get(name) == STARTED.get(name) for name in either)


class Session:
    """A session that runs, with what the tests need of ``subprocess.Popen``."""

    def __init__(self, command: list[str], environment: dict[str, str], also: tuple[str, ...], output: int) -> None:
        self.returncode: int | None = None
        self.pid = 0
        self._output, theirs = os.pipe() if output == subprocess.PIPE else (None, os.dup(output))
        self._status, status = os.pipe()
        ignored = [int(number) for number in SIGNALS if signal.getsignal(number) == signal.SIG_IGN]
        request = {"command": command, "environment": environment, "also": also, "ignored": ignored}
        socket.send_fds(_server(), [json.dumps(request).encode()], [theirs, status])
        for descriptor in (theirs, status):
            os.close(descriptor)
        self.pid = int(self._line(300.0))  # the server may have to import first

    def send_signal(self, number: int) -> None:
        """Nothing happens where it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def communicate(self, timeout: float) -> tuple[str, None]:
        """All that the session writes, and its status in ``returncode``."""
        assert self._output is not None
        deadline, received = time.monotonic() + timeout, bytearray()
        while more := self._read(self._output, deadline):
            received += more
        os.close(self._output)
        self.wait(max(deadline - time.monotonic(), 0.0))
        return received.decode().replace("\r\n", "\n"), None

    def wait(self, timeout: float) -> int:
        if self.returncode is None:
            self.returncode = int(self._line(timeout))
            os.close(self._status)
        return self.returncode

    def _line(self, timeout: float) -> bytes:
        """What the session's keeper says next: first the session's process id, then how it ended."""
        deadline, line = time.monotonic() + timeout, b""
        while not line.endswith(b"\n"):
            more = self._read(self._status, deadline, most=1)
            assert more, "the process that sessions are forked from has ended"
            line += more
        return line

    def _read(self, descriptor: int, deadline: float, most: int = 1 << 16) -> bytes:
        if not select.select([descriptor], [], [], max(deadline - time.monotonic(), 0.0))[0]:
            if self.pid:
                self.send_signal(signal.SIGKILL)
            raise TimeoutError
        return os.read(descriptor, most)


@cache
def _server() -> socket.socket:
    """The connection to this test process' server, which ends with it."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LARGEST)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.prepared", str(theirs.fileno())], cwd=ROOT, env=STARTED | THREADS,
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def end() -> None:
        ours.close()
        server.wait(60)

    atexit.register(end)
    return ours


def prepare(names: tuple[str, ...]) -> None:
    """Import these, so that forks have them."""
    for name in names:
        importlib.import_module(name)
    for name in [name for name in sys.modules if name.startswith(REWRITTEN)]:
        del sys.modules[name]
    gc.collect()
    gc.freeze()


def serve(connection: socket.socket) -> list[str]:
    """Fork a session for each request; returns in a session, with its command.

    Between this process and a session stands a keeper, which waits for that one session and says how it ended.
    """
    connection.set_inheritable(False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all; the sessions decide what it means
    prepare(LIGHT)
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, LARGEST, 2)
        if not message:
            os._exit(0)
        request = json.loads(message)
        prepare(tuple(name for name in request["also"] if name not in sys.modules))
        if not fork():
            connection.close()
            if (pid := os.fork()) == 0:
                return begin(request, *descriptors)
            keep(pid, descriptors[1])
        for descriptor in descriptors:
            os.close(descriptor)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def fork() -> int:
    """As ``os.fork``; from Python 3.12 on it warns where there are threads, which is an error here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return os.fork()


def keep(pid: int, status: int) -> None:
    """Say which process it is, and how it ended as soon as it has."""
    os.closerange(0, 3)
    os.write(status, f"{pid}\n".encode())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(OSError):
        os.write(status, f"{code}\n".encode())
    os._exit(0)


def begin(request: dict, output: int, status: int) -> list[str]:
    """Make this process what a new one would be."""
    os.close(status)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    for name in ("stdout", "stderr"):  # whether it is a terminal is looked at when they are opened
        old = getattr(sys, name)
        setattr(sys, name, os.fdopen(old.fileno(), "w", encoding=old.encoding, errors=old.errors, closefd=False))
    for number in SIGNALS:
        own = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN if number in request["ignored"] else own)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["-c", *request["command"]]
    return sys.argv[1:]


if __name__ == "__main__":
    from tests.sessions import session

    sys.exit(session(*serve(socket.socket(fileno=int(sys.argv[1])))))

"""Takes part in a run from a host that nobody can start a process on, such as a pod: it calls the controller itself.

``python -m suite.session.engines.dial`` connects to ``SUITE_CONTROLLER`` (``host:port``), shows that it knows
``SUITE_TOKEN``, and gives the connection to `suite.session.engines.host` as its standard streams. When the run ends,
so does this; a controller that went away may come back for a while. The number of the host is that of its pod in an
indexed job of Kubernetes, or of its task in SLURM.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection

from suite.record.rank_variables import ADDRESS, TOKEN
from suite.session.network import towards

#: Where the controller waits, as ``host:port``.
CONTROLLER = "SUITE_CONTROLLER"

#: Who says which of the hosts this is: the suite's own variable, an indexed job of Kubernetes, or ``srun``.
NUMBERS = ("SUITE_HOST_NUMBER", "JOB_COMPLETION_INDEX", "SLURM_PROCID")

#: How long the controller may take to come, or to come back, and how often it is called.
CALL_WITHIN_S, AGAIN_S = 300.0, 1.0

#: What the controller says first: that this host is wanted, or that the run is over.
WELCOME, OVER = b"welcome", b"over"


class DialError(RuntimeError):
    """There is no controller; one line that names the way out."""


def main() -> int:
    """Serve the run until it is over."""
    try:
        number = host_number()
        while serve(called(os.environ), number):
            pass
    except DialError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def serve(connection: Connection, number: int) -> bool:
    """Let the host's process serve one connection; False if the controller says that the run is over."""
    with connection:
        try:
            with socket.socket(fileno=os.dup(connection.fileno())) as line:
                keep_alive(line)
            connection.send_bytes(str(number).encode())
            if connection.recv_bytes(16) == OVER:
                return False
        except (EOFError, OSError):  # it is gone: call again
            return True
        with socket.socket(fileno=os.dup(connection.fileno())) as line:
            own = os.environ | {ADDRESS: os.environ.get(ADDRESS) or towards(line.getpeername()[0])}
            subprocess.run(
                [sys.executable, "-m", "suite.session.engines.host"],
                stdin=line.fileno(),
                stdout=line.fileno(),
                env=own,
                check=False,
            )
    return True


def host_number(variables: Mapping[str, str] = os.environ) -> int:
    """Which of the run's hosts this is. Raises `DialError`."""
    found = [variables[name] for name in NUMBERS if variables.get(name, "").isdecimal()]
    if not found:
        raise DialError(f"nothing says which host this is: run it in an indexed job, by srun, or set {NUMBERS[0]}")
    return int(found[0])


def called(variables: Mapping[str, str]) -> Connection:
    """A connection to the controller, which shares the token. Raises `DialError`."""
    host, _, port = variables.get(CONTROLLER, "").rpartition(":")
    if not (host and port.isdecimal() and variables.get(TOKEN)):
        raise DialError(f"{CONTROLLER} must be host:port of the controller, and {TOKEN} the run's secret")
    deadline = time.monotonic() + CALL_WITHIN_S
    while True:
        try:
            connection: Connection = Client((host, int(port)), authkey=variables[TOKEN].encode())
        except AuthenticationError:
            raise DialError(f"the controller at {host}:{port} has another {TOKEN}") from None
        except (OSError, EOFError) as error:
            if time.monotonic() > deadline:
                raise DialError(f"no controller at {host}:{port}: {error}") from None
            time.sleep(AGAIN_S)
        else:
            return connection


def keep_alive(line: socket.socket) -> None:
    """Let the kernel notice within about ten seconds that the other host is gone."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


if __name__ == "__main__":
    sys.exit(main())

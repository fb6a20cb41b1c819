"""Hosts that call: pods of Kubernetes, or whatever runs `suite.session.engines.dial`.

The manifests in ``clusters/kubernetes`` start a controller, which runs pytest with ``--on kubernetes``, and as many
pods as ``SUITE_HOSTS`` says, each of which calls it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from typing import Any

from suite.record.handshake import met
from suite.record.rank_variables import TOKEN
from suite.session.engines import HostLostError
from suite.session.engines.dial import CONTROLLER, OVER, WELCOME, keep_alive
from suite.session.engines.remote import Remote, begun
from suite.session.launch import LaunchError

#: How many hosts a run waits for.
HOSTS = "SUITE_HOSTS"

NOT_ASKED = (
    f"--on kubernetes waits for hosts that call: set {HOSTS} to how many, {CONTROLLER} to where they call "
    f"(host:port) and {TOKEN} to a secret, as clusters/kubernetes/cell.yaml does"
)

#: How long all hosts may take to call, and how long a caller may take to show that it knows the token.
CALLED_WITHIN_S, HANDSHAKE_S = 600.0, 5

#: How long the end of a run waits for its hosts to call once more.
BACK_WITHIN_S = 5.0


class SocketWire:
    """Lines over a connection that a host has opened."""

    def __init__(self, name: str, line: socket.socket) -> None:
        self.name, self.line = name, line
        self.lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, name=f"lines of {name}", daemon=True).start()

    def send(self, line: str) -> None:
        """Send one line."""
        try:
            self.line.sendall(line.encode() + b"\n")
        except OSError:
            raise self._lost() from None

    def receive(self, within_s: float) -> Sequence[str]:
        """The lines that came, as soon as there are any; none after ``within_s``."""
        found: list[str] = []
        with contextlib.suppress(queue.Empty):
            line = self.lines.get(timeout=within_s)
            while line is not None:
                found.append(line)
                line = self.lines.get_nowait()
            self.lines.put(None)
            if not found:
                raise self._lost()
        return found

    def close(self) -> None:
        """End the connection, and with it the host's process."""
        with contextlib.suppress(OSError):
            self.line.shutdown(socket.SHUT_RDWR)
        self.line.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError), self.line.makefile(encoding="utf-8") as lines:
            for line in lines:
                self.lines.put(line)
        self.lines.put(None)

    def _lost(self) -> HostLostError:
        return HostLostError(f"host {self.name} is lost: its connection was closed")


class Callers:
    """The hosts that have called; they are sent home when ``until`` closes. Raises `LaunchError`."""

    def __init__(
        self, settings: dict[str, Any], say: Callable[[str], None], until: ExitStack,
        variables: Mapping[str, str] = os.environ,
    ) -> None:  # fmt: skip
        port = variables.get(CONTROLLER, "").rpartition(":")[2]
        count, token = variables.get(HOSTS, ""), variables.get(TOKEN, "")
        if not (port.isdecimal() and count.isdecimal() and int(count) and token):
            raise LaunchError(NOT_ASKED)
        self.settings, self.say, self.until, self._key = settings, say, until, token.encode()
        self._called: dict[str, Connection] = {}
        self._changed = threading.Condition()
        self._served: set[str] = set()
        self._over = threading.Event()
        try:
            self._door = socket.create_server(("", int(port)), backlog=128)
        except OSError as error:
            raise LaunchError(f"cannot listen on port {port}, which {CONTROLLER} names: {error.strerror}") from None
        self.port = int(self._door.getsockname()[1])
        until.callback(self._close)
        threading.Thread(target=self._answer, name="callers", daemon=True).start()
        self._wait(int(count))

    def nodes(self) -> dict[str, str]:
        """The hosts that have called and wait, by name."""
        with self._changed:
            return {name: name for name in sorted(self._called)}

    def host(self, node: str) -> Remote:
        """Begin with a host. Raises `LaunchError` and `HostLostError`."""
        with self._changed:
            connection = self._called.pop(node, None)
        if connection is None:
            raise HostLostError(f"host {node} has not called again")
        line = socket.socket(fileno=os.dup(connection.fileno()))
        try:
            with connection:
                connection.send_bytes(WELCOME)
        except OSError:
            line.close()
            raise HostLostError(f"host {node} is lost: its connection was closed") from None
        self._served.add(node)
        wire = SocketWire(node, line)
        self.until.callback(wire.close)
        remote = Remote(node, "", wire, self.say, self.settings)
        return begun(remote)

    def _wait(self, count: int) -> None:
        deadline = time.monotonic() + CALLED_WITHIN_S
        with self._changed:
            while len(self._called) < count:
                if not self._changed.wait(max(0.0, deadline - time.monotonic())):
                    raise LaunchError(
                        f"{len(self._called)} of {count} hosts called within {CALLED_WITHIN_S:g} s: see what the "
                        "others print, and whether they reach this port"
                    )

    def _answer(self) -> None:
        """Let those in who know the token, until the run is over."""
        while not self._over.is_set():
            with contextlib.suppress(OSError, EOFError, ValueError, AuthenticationError):
                connection, number = self._met()
                with self._changed:
                    name = f"host{number:04}"
                    if former := self._called.pop(name, None):  # it began anew
                        former.close()
                    if self._over.is_set():
                        _sent_home(connection)
                        return
                    self._called[name] = connection
                    self._changed.notify_all()

    def _met(self) -> tuple[Connection, int]:
        line, _ = self._door.accept()
        keep_alive(line)
        number, connection = met(line, self._key, HANDSHAKE_S)
        return connection, number

    def _close(self) -> None:
        with self._changed:
            # Those whose launches have ended call once more, and hear that the run is over.
            self._changed.wait_for(lambda: self._served <= self._called.keys(), BACK_WITHIN_S)
            self._over.set()
            for connection in self._called.values():
                _sent_home(connection)
            self._called.clear()
        with contextlib.suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()


def _sent_home(connection: Connection) -> None:
    with contextlib.suppress(OSError), connection:
        connection.send_bytes(OVER)

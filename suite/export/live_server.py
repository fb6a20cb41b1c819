"""The HTTP server of live metrics: few connections, each for a few seconds, whatever its client does.

It is in the controller, so that a client who opens many or never ends must not cost the run its files.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

#: How many connections are open at a time; the oldest gives way, so that slow clients keep no scrape out.
CONNECTIONS_MOST = 16

#: How long one connection may last, from its first byte to its last.
LASTS_S = 5.0

#: How long to wait where no connection can be accepted, as where the process has no file left.
AGAIN_S = 0.2


class Server(ThreadingMixIn, WSGIServer):
    """Answers each connection in a thread of its own."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # clients beyond the five of `socketserver` try again after a second

    def __init__(self, host: str, port: int, application: Any) -> None:
        self._open: dict[Any, float] = {}  # until when each may last, the oldest first
        self._changing = threading.Lock()
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        self.address_family = family
        super().__init__((str(address[0]), int(address[1])), _Handler)
        self.set_app(application)

    def get_request(self) -> Any:
        """Accept a connection."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(AGAIN_S)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a connection, which may take the place of the oldest."""
        with self._changing:
            for oldest in list(self._open)[: len(self._open) - CONNECTIONS_MOST + 1]:
                self._cut(oldest)
            self._open[request] = time.monotonic() + LASTS_S
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._changing:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Cut the connections that have lasted too long; called at least twice a second."""
        with self._changing:
            for request in [each for each, until_s in self._open.items() if time.monotonic() > until_s]:
                self._cut(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away or was cut."""

    def _cut(self, request: Any) -> None:
        """Let the thread of a connection come to its end; it closes it."""
        del self._open[request]
        with contextlib.suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the library gives
        """Say nothing."""

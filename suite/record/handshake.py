"""How a process that calls another shows that it knows their secret, and says which one it is."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a worker alone needs none of it
    from multiprocessing.connection import Connection


def met(line: socket.socket, secret: bytes, within_s: float) -> tuple[int, Connection]:
    """The number that a caller who knows the secret says, and the connection to it.

    Raises `multiprocessing.AuthenticationError`, EOFError, OSError or ValueError for anyone else, and for whoever takes
    longer than so many seconds for all of it; the line is then closed.
    """
    from multiprocessing.connection import answer_challenge, deliver_challenge

    with _limited(line, within_s) as connection:
        deliver_challenge(connection, secret)
        answer_challenge(connection, secret)
        return int(connection.recv_bytes(16)), connection


def call(address: tuple[str, int], secret: bytes, number: int, within_s: float) -> Connection:
    """A connection to whoever listens there and knows the secret, who is told the number. Raises as `met` does."""
    from multiprocessing.connection import answer_challenge, deliver_challenge

    line = socket.create_connection(address, within_s)
    line.setblocking(True)
    with _limited(line, within_s) as connection:
        answer_challenge(connection, secret)
        deliver_challenge(connection, secret)
        connection.send_bytes(str(number).encode())
        return connection


@contextlib.contextmanager
def _limited(line: socket.socket, within_s: float) -> Iterator[Connection]:
    """The line as a connection, which is shut after so many seconds, and closed after an error."""
    from multiprocessing.connection import Connection

    connection = Connection(line.detach())
    with socket.socket(fileno=os.dup(connection.fileno())) as same:

        def shut() -> None:
            with contextlib.suppress(OSError):
                same.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(within_s, shut)
        timer.daemon = True
        timer.start()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        finally:
            timer.cancel()
            timer.join()

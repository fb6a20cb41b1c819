"""How a process that calls another shows that it knows their secret, and says which one it is."""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a worker alone needs none of it
    from multiprocessing.connection import Connection


def met(line: socket.socket, secret: bytes, within_s: int) -> tuple[int, Connection]:
    """The number that a caller who knows the secret says, and the connection to it.

    Raises `multiprocessing.AuthenticationError`, EOFError, OSError or ValueError for anyone else, and for whoever stays
    silent for so many seconds; the line is then closed.
    """
    from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

    _receive_within(line, within_s)
    connection = Connection(line.detach())
    try:
        deliver_challenge(connection, secret)
        answer_challenge(connection, secret)
        number = int(connection.recv_bytes(16))
    except BaseException:
        connection.close()
        raise
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        _receive_within(same, 0)
    return number, connection


def _receive_within(line: socket.socket, seconds: int) -> None:
    """Let reading fail after so long, or never for 0; the socket stays one that blocks."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, 0))

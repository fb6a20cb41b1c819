"""The processes of a launch with several: who this one is, and how they agree on numbers between timed windows.

Whatever starts the ranks gives each of them a few neutral variables (`suite.record.variables`), from which the
framework's file makes its own. Besides the framework's collectives the ranks have a channel of their own, over which
they gather small values: it works before a framework is imported, and never runs inside a window.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from suite.record.variables import ADDRESS, COORDINATOR, INTERFACE, LOCAL_RANK, RANK, TOKEN, WORLD_SIZE

if TYPE_CHECKING:  # a worker alone needs none of it
    from multiprocessing.connection import Connection

#: How long ranks wait for rank 0's channel, which may be open later than theirs.
CONNECT_WITHIN_S = 60.0
#: How long a caller may take in all to show that it knows the launch's token, each in a thread of its own.
HANDSHAKE_S = 5
#: How often rank 0 looks whether all have called.
LOOK_S = 0.05


class RankLostError(RuntimeError):
    """Another rank has ended, or cannot be reached."""


@dataclass
class Ranks:
    """One process among all of its launch; alone where nothing else is said.

    ``host`` is the address of rank 0's host, ``address`` that of this rank's own, and ``interface`` the network
    interface over which ranks of several hosts exchange gradients; empty where the framework may choose.
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    host: str = "127.0.0.1"
    address: str = "127.0.0.1"
    interface: str = ""
    _peers: list[Connection] = field(default_factory=list)  # on rank 0 all others in their order, elsewhere rank 0

    def gather(self, value: Any) -> list[Any]:
        """The values of all ranks, in their order; all of them call it, and none returns before all have.

        Values are what JSON holds; numbers come back to the last bit. Raises `RankLostError`.
        """
        if self.world == 1:
            return [value]
        try:
            if self.rank:
                self._peers[0].send_bytes(json.dumps(value).encode())
                return list(json.loads(self._peers[0].recv_bytes()))
            values = [value, *(json.loads(peer.recv_bytes()) for peer in self._peers)]
            text = json.dumps(values).encode()
            for peer in self._peers:
                peer.send_bytes(text)
        except (EOFError, OSError) as error:
            raise RankLostError(f"another rank is gone ({type(error).__name__})") from None
        return list(json.loads(text))

    def gather_bytes(self, data: bytes) -> list[bytes]:
        """On rank 0 the bytes of all ranks, in their order; elsewhere nothing. Raises `RankLostError`."""
        try:
            if self.rank:
                self._peers[0].send_bytes(data)
                return []
            return [data, *(peer.recv_bytes() for peer in self._peers)]
        except (EOFError, OSError) as error:
            raise RankLostError(f"another rank is gone ({type(error).__name__})") from None

    def barrier(self) -> None:
        if self.world > 1:
            self.gather(None)

    def mean(self, values: list[float]) -> list[float]:
        """The mean over all ranks, element by element."""
        return values if self.world == 1 else [fmean(each) for each in zip(*self.gather(values), strict=True)]

    def leave(self) -> None:
        """Wait until all ranks are done; one that is gone is done too."""
        with contextlib.suppress(RankLostError):
            self.barrier()

    def slowest(self, seconds: float) -> float:
        return seconds if self.world == 1 else float(max(self.gather(seconds)))

    def agreed_port(self) -> int:
        """A port on rank 0's host that was free a moment ago, the same on all ranks."""
        return int(self.gather(free_port() if not self.rank else 0)[0])


#: The process of a launch that has one.
ALONE = Ranks()


def join_ranks(variables: Mapping[str, str] = os.environ) -> Ranks:
    """The rank that these variables make of this process, connected to the others. Raises `RankLostError`."""
    world = int(variables.get(WORLD_SIZE, "1"))
    if world == 1:
        return ALONE
    rank, (host, _, port) = int(variables[RANK]), variables[COORDINATOR].rpartition(":")
    token, address = variables.get(TOKEN, "suite").encode(), (host, int(port))
    peers = _others(address, token, world) if not rank else [_first(address, token, rank)]
    own, interface = variables.get(ADDRESS) or host, variables.get(INTERFACE, "")
    return Ranks(rank, world, int(variables.get(LOCAL_RANK, rank)), host, own, interface, peers)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _others(address: tuple[str, int], token: bytes, world: int) -> list[Connection]:
    from multiprocessing import AuthenticationError

    peers: dict[int, Connection] = {}

    def meet(line: socket.socket) -> None:
        with contextlib.suppress(AuthenticationError, EOFError, OSError, ValueError):  # a stranger
            rank, peer = accept_caller(line, token, HANDSHAKE_S)
            peers[rank] = peer

    with socket.create_server(address, backlog=world) as door:
        door.settimeout(LOOK_S)
        while len(peers) < world - 1:
            with contextlib.suppress(TimeoutError):
                line, _ = door.accept()
                line.setblocking(True)
                threading.Thread(target=meet, args=(line,), name="handshake", daemon=True).start()
    return [peers[rank] for rank in range(1, world)]


def _first(address: tuple[str, int], token: bytes, rank: int) -> Connection:
    deadline = time.monotonic() + CONNECT_WITHIN_S
    while True:
        try:
            return call_rank(address, token, rank, HANDSHAKE_S)
        except (OSError, EOFError) as error:
            if time.monotonic() > deadline:
                reason = getattr(error, "strerror", None) or error
                raise RankLostError(f"rank 0 cannot be reached at {address[0]}: {reason}") from None
            time.sleep(0.05)


def accept_caller(line: socket.socket, secret: bytes, within_s: float) -> tuple[int, Connection]:
    """The number that a caller who knows the secret says, and the connection to it.

    Raises `multiprocessing.AuthenticationError`, EOFError, OSError or ValueError for anyone else, and for whoever takes
    longer than so many seconds for all of it; the line is then closed.
    """
    from multiprocessing.connection import answer_challenge, deliver_challenge

    with _connect_within(line, within_s) as connection:
        deliver_challenge(connection, secret)
        answer_challenge(connection, secret)
        return int(connection.recv_bytes(16)), connection


def call_rank(address: tuple[str, int], secret: bytes, number: int, within_s: float) -> Connection:
    """A connection to whoever listens there and knows the secret, who is told the number.

    Raises as `accept_caller` does.
    """
    from multiprocessing.connection import answer_challenge, deliver_challenge

    line = socket.create_connection(address, within_s)
    line.setblocking(True)
    with _connect_within(line, within_s) as connection:
        answer_challenge(connection, secret)
        deliver_challenge(connection, secret)
        connection.send_bytes(str(number).encode())
        return connection


@contextlib.contextmanager
def _connect_within(line: socket.socket, within_s: float) -> Iterator[Connection]:
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

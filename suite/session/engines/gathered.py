"""Ranks on several hosts: their agents connect to this process, which gives each its job and listens to all of them.

Who starts the agents is the engine's affair (`slurm`, `kubernetes`). See `rank_agent` for the far end. A launch then is
what it is on one host: the same worker, the same variables, the same `Team` that finds out which rank failed and ends
the others.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import selectors
import socket
import struct
import time
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener
from typing import Any

from suite.plan.cell import Cell
from suite.record.rank_variables import (
    ADDRESS,
    COORDINATOR,
    CORES,
    HOST_CORES,
    INTERFACE,
    LOCAL_RANK,
    RANK,
    TOKEN,
    WORLD_SIZE,
)  # fmt: skip
from suite.record.record import Outcome
from suite.session import listener as parts_of
from suite.session.engines import rank_agent as agent
from suite.session.launch import LaunchError, exit_outcome
from suite.session.ranks import Member

#: How long somebody who connects may take to show that it knows the token, and how long agents may take to come.
HANDSHAKE_S, GATHER_WITHIN_S = 5.0, 120.0


@dataclass
class Agent:
    """One agent, as it said ``hello``, and the connection to it."""

    connection: Connection
    hello: dict[str, Any]

    @property
    def rank(self) -> int:
        """Its number among the ranks."""
        return int(self.hello["rank"])

    @property
    def loopback(self) -> bool:
        """Whether other hosts cannot reach it at the address that it gave."""
        return str(self.hello["address"]).startswith("127.")


class Gathering:
    """Where agents connect. ``port`` is free if it is 0; ``token`` is a new secret unless it is given."""

    def __init__(self, port: int = 0, token: str = "") -> None:
        self.token = token or secrets.token_hex(16)
        self._listener = Listener(("", port), backlog=64)
        self.port = int(self._listener.address[1])
        self._waiting: dict[int, Agent] = {}

    def agents(self, count: int, alive: Callable[[], str], within_s: float = GATHER_WITHIN_S) -> list[Agent]:
        """The first ``count`` ranks, in their order. ``alive`` says why none will come any more; empty if they may.

        Raises `LaunchError` if some do not come.
        """
        deadline = time.monotonic() + within_s
        while missing := [rank for rank in range(count) if rank not in self._waiting]:
            reason = alive() or ("" if time.monotonic() < deadline else f"waited {within_s:g} s")
            if reason:
                words = ", ".join(map(str, missing))
                raise LaunchError(f"no agent came for rank {words} of {count}: {reason}")
            self._take_one()
        return [self._waiting.pop(rank) for rank in range(count)]

    def close(self) -> None:
        """Send those home who wait for a launch, and take no more."""
        for waiting in self._waiting.values():
            with contextlib.suppress(OSError), waiting.connection:
                waiting.connection.send_bytes(b"{}")
        self._waiting.clear()
        self._listener.close()

    def _take_one(self) -> None:
        """Wait for about a second for somebody, who may be a stranger; drop those who went away while they waited."""
        for rank, waiting in list(self._waiting.items()):
            if waiting.connection.poll():  # an agent says nothing while it waits
                waiting.connection.close()
                del self._waiting[rank]
        accepting: socket.socket = self._listener._listener._socket  # type: ignore[attr-defined]  # no public name
        accepting.settimeout(1.0)
        with contextlib.suppress(TimeoutError, AuthenticationError, EOFError, OSError, ValueError, KeyError):
            found = Agent(*self._met(accepting))
            if former := self._waiting.pop(found.rank, None):  # it began anew
                former.connection.close()
            self._waiting[found.rank] = found

    def _met(self, accepting: socket.socket) -> tuple[Connection, dict[str, Any]]:
        """Somebody who knows the token, and what it said. Raises OSError, EOFError or `AuthenticationError`."""
        from multiprocessing.connection import answer_challenge, deliver_challenge

        stream, _ = accepting.accept()
        stream.setblocking(True)
        agent.keep_alive(stream)
        _receive_within(stream, HANDSHAKE_S)
        connection = Connection(stream.detach())
        try:
            key = self.token.encode()
            deliver_challenge(connection, key)
            answer_challenge(connection, key)
            hello = json.loads(connection.recv_bytes(1 << 16))
            int(hello["rank"]), str(hello["address"])
        except BaseException:
            connection.close()
            raise
        with socket.socket(fileno=connection.fileno()) as same:
            _receive_within(same, 0)
            same.detach()
        return connection, hello


def _receive_within(stream: socket.socket, seconds: float) -> None:
    """Let reading fail after so long, or never for 0; the socket stays one that blocks."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(seconds), 0))


@dataclass
class Remote(Member):
    """A rank that an agent started."""

    agent: Agent
    spawned: dict[str, Any] = field(default_factory=dict)
    _exit: Outcome | None = None
    _stopped: bool = False

    @contextlib.contextmanager
    def watched(self, selector: selectors.BaseSelector) -> Iterator[None]:
        """A context in which the selector tells when the agent sends something or is gone."""
        if not self.ended:
            selector.register(self.agent.connection, selectors.EVENT_READ)
        yield

    def take(self, ready: Container[int], selector: selectors.BaseSelector) -> None:
        """Take in one message of the agent."""
        if self.ended or self.agent.connection.fileno() not in ready:
            return
        try:
            message = self.agent.connection.recv_bytes(parts_of.LINE_MOST)
        except (EOFError, OSError):
            message = agent.ENDED + json.dumps({"lost": True}).encode()
        kind, content = message[:1], message[1:]
        if kind == agent.SAID:
            self.listener.receive(content)
        elif kind == agent.PRINTED:
            with self.log.open("ab") as log:
                log.write(content)
        elif kind == agent.STOPPED:
            self._stopped = bool(json.loads(content))
        elif kind == agent.SPAWNED:
            self.spawned = json.loads(content)
        elif kind == agent.ENDED:
            self.ended = True
            selector.unregister(self.agent.connection)
            self._exit = _exit(json.loads(content))

    def exit_outcome(self) -> Outcome:
        """How its process ended, or that its host is gone."""
        return self._exit or Outcome("crashed", "its agent said no more")

    @property
    def stopped(self) -> bool:
        """Whether its process is stopped."""
        return self._stopped


def _exit(said: dict[str, Any]) -> Outcome:
    if said.get("lost"):
        return Outcome("crashed", "its host or the agent there is lost (the connection was closed)")
    if reason := said.get("reason"):
        return Outcome("error", f"its host could not start it: {reason}")
    return exit_outcome(int(said["code"]))


def assignments(cell: Cell, agents: Sequence[Agent], device: str, each: int | None, token: str) -> list[dict[str, str]]:
    """The variables of each rank: what ranks of one host see alike, cores or GPUs, is divided among them.

    ``each`` rank of a CPU has so many cores, or all of its share. Raises `LaunchError` if the hosts cannot reach one
    another, or a host has too little.
    """
    hosts = [each.hello["host"] for each in agents]
    if len(set(hosts)) > 1 and any(each.loopback for each in agents):
        raise LaunchError(
            f"a host gave a loopback address ({agents[0].hello['address']}), at which others cannot reach it: set "
            f"{INTERFACE} to the network interface that the hosts share, such as eth0"
        )
    first = agents[0].hello
    shared = {WORLD_SIZE: str(cell.processes), COORDINATOR: f"{first['address']}:{first['port']}", TOKEN: token}
    made = []
    for rank, own in enumerate(agents):
        neighbours = [other for other, host in enumerate(hosts) if host == hosts[rank]]
        place = neighbours.index(rank)
        hellos = [agents[other].hello for other in neighbours]
        variables = {RANK: str(rank), LOCAL_RANK: str(place), ADDRESS: str(own.hello["address"])}
        variables |= {INTERFACE: own.hello["interface"]} if own.hello["interface"] else {}
        cores = {core for hello in hellos for core in hello["cores"]}
        variables |= {HOST_CORES: str(len(cores))}
        if device == "cpu" or not own.hello["gpu"]:
            chosen = _share(hellos, place, each)
            variables |= {CORES: ",".join(map(str, chosen))}
        elif all(hello["devices"] == own.hello["devices"] for hello in hellos):  # else each sees its own already
            variables["CUDA_VISIBLE_DEVICES"] = _device(own.hello["devices"], place)
        made.append(shared | variables)
    return made


def _share(hellos: Sequence[dict[str, Any]], place: int, each: int | None) -> list[int]:
    """The cores of one of the ranks of a host."""
    cores = list(hellos[place]["cores"])
    if any(hello["cores"] != cores for hello in hellos):  # each was bound to its own
        return cores[:each]
    count = each or min(len(cores), int(hellos[place]["usable_cores"])) // len(hellos)
    if count * len(hellos) > len(cores) or not count:
        raise LaunchError(f"{len(hellos)} ranks of one host need {each or 1} cores each, and it has {len(cores)}")
    return cores[place * count : (place + 1) * count]


def _device(listed: list[str] | None, place: int) -> str:
    if listed is None:
        return str(place)
    if place >= len(listed):
        raise LaunchError(f"a host has more ranks than GPUs: CUDA_VISIBLE_DEVICES shows {len(listed)}")
    return listed[place]

"""A launch of several processes on this host: the variables of each rank, and how the parent listens to all of them.

Rank 0 has the record's pipe; the others have pipes of their own, from which only their outcome and their progress are
taken. The first rank that fails ends the launch, and the outcome names it.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import selectors
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from suite.plan.cell import Cell
from suite.plan.device import has_gpu
from suite.plan.strategies import SERVER, has_server, not_measured
from suite.record.environment import own_cores, usable_cores
from suite.record.job import Job
from suite.record.order import Part
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
from suite.record.record import Outcome, Record
from suite.session.launches import logs
from suite.session.launches.listener import GRACE_S, LOOK_S, Listener
from suite.session.launches.namespace import NamespaceError, own_network
from suite.session.launches.network import interface_of

HOST = "127.0.0.1"

#: How long the others may take to say why, once one has failed.
FAILED_GRACE_S = 2.0

#: How often a launch begins anew because somebody else took the port that was free a moment before.
PORT_TRIES = 3
_TAKEN = re.compile(r"already in use|EADDRINUSE", re.IGNORECASE)

#: Errors that say that another rank is gone, so that this one is not the cause.
_CONSEQUENCE = re.compile(
    r"another rank is gone|connection (was )?(closed|reset|refused)|broken pipe|heartbeat|UNAVAILABLE|coordination|"
    r"peer|socket closed|EOF",
    re.IGNORECASE,
)


def impossible(cell: Cell, device: str, each: int | None = None, part: Part | None = None) -> str:
    """Why a cell's devices cannot be measured on this host; empty where they can, as far as the parent knows.

    With a ``part``, this host needs devices for its own ranks alone.
    """
    if reason := not_measured(cell):
        return reason
    count = part.count if part else cell.devices
    if device == "cpu" or not has_gpu():
        cores = usable_cores()
        if count * (each or 1) > cores:
            need = f"{each} cores" if each and each > 1 else "a core"
            return f"{count} devices on a CPU need {need} each, and {cores} can be used here{_over_hosts(cell)}"
        return ""
    listed = _listed()
    if listed is not None and count > len(listed):
        shown = f"CUDA_VISIBLE_DEVICES shows {len(listed)}"
        return f"{count} devices are asked for, and {shown}{_over_hosts(cell)}"
    return ""


def _over_hosts(cell: Cell) -> str:
    """What TensorFlow needs to use the devices of several hosts, since its usual strategy has one process."""
    return "; over several hosts, use --strategy multiworker --trusted-network" if cell.strategy == "mirrored" else ""


def environments(cell: Cell, device: str, each: int | None = None, part: Part | None = None) -> list[dict[str, str]]:
    """The variables of each rank besides those that every worker gets; ``each`` device of a CPU has so many cores.

    With a ``part``, only its ranks are started here.
    """
    world, cores = cell.processes, own_cores()
    first, here = (part.first, part.count) if part else (0, world)
    on_cpu = device == "cpu" or not has_gpu()
    if world == 1:
        chosen = cores[: each * cell.devices] if each and on_cpu else []
        return [{HOST_CORES: str(len(cores)), CORES: ",".join(map(str, chosen))} if chosen else {}]
    each = each if each and on_cpu else min(len(cores), usable_cores()) // here
    shared = {HOST_CORES: str(len(cores)), WORLD_SIZE: str(world)}
    if part:
        shared |= {COORDINATOR: part.coordinator, TOKEN: part.token, ADDRESS: part.address}
    else:
        shared |= {COORDINATOR: f"{HOST}:{free_port(HOST)}", TOKEN: secrets.token_hex(16), ADDRESS: HOST}
    shared |= {INTERFACE: interface} if (interface := interface_of(shared[ADDRESS])) else {}
    made = []
    for rank in range(here):
        own = {RANK: str(first + rank), LOCAL_RANK: str(rank)}
        if each:
            own[CORES] = ",".join(map(str, cores[rank * each : (rank + 1) * each]))
        if not on_cpu:  # each sees its own device alone, as its first
            listed = _listed()
            own["CUDA_VISIBLE_DEVICES"] = listed[rank] if listed else str(rank)
        made.append(shared | own)
    return made


def network(job: Job, part: Part | None, until: contextlib.ExitStack) -> list[str]:
    """The words before a command that run it in a network of its own, if its cell has a server; else none.

    Raises `NamespaceError` where the server is not to be started.
    """
    if not has_server(job.cell):
        return []
    why_not = "which ranks on several hosts cannot have"
    if not part:
        try:
            return until.enter_context(own_network())
        except NamespaceError as error:
            why_not = f"which this machine refuses: {error}"
    if job.trusted_network:
        return []
    raise NamespaceError(
        f"{SERVER.format(strategy=job.cell.strategy)}. So it needs a network of its own, {why_not}. Use --strategy "
        "mirrored, or give --trusted-network if nobody else reaches this machine"
    )


def free_port(address: str = "") -> int:
    """A port of this host, or of one of its addresses, that nobody has at the moment."""
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


def log_of(log: Path, rank: int) -> Path:
    """The log of a rank; rank 0 has the launch's own."""
    return log.with_suffix(f".rank{rank}{log.suffix}") if rank else log


def port_taken(record: Record) -> bool:
    """Whether a launch failed because its port was taken, so that another one may do."""
    failed = record.outcome.status in ("error", "crashed")
    return failed and any(_TAKEN.search(line) for line in (record.outcome.reason, *record.log))


@dataclass
class Member:
    """One rank as its parent sees it: ``where`` it is, by its last progress, and how it failed, if it did."""

    rank: int
    worker: subprocess.Popen[bytes]
    pipe: int
    log: Path
    listener: Listener
    where: str = "starting"
    ended: bool = False
    failure: Outcome | None = None

    @property
    def outcome(self) -> Any:
        """What it said about its end; None until then."""
        return self.listener.parts.get("outcome")


@dataclass
class Team:
    """All ranks of a launch. ``parts`` and ``progress`` are rank 0's, ``tick`` is called about once a second."""

    parts: dict[str, Any]
    progress: Callable[[dict[str, Any]], None]
    tick: Callable[[], None]
    exit_outcome: Callable[[subprocess.Popen[bytes]], Outcome]
    part: Part | None = None  # where other hosts have ranks too
    members: list[Member] = field(default_factory=list)
    failed: list[Member] = field(default_factory=list)  # in the order in which it was seen

    def add(self, worker: subprocess.Popen[bytes], pipe: int, log: Path) -> None:
        """Listen to one more rank."""
        at = len(self.members)
        rank = at + (self.part.first if self.part else 0)

        def progress(message: dict[str, Any]) -> None:
            self.members[at].where = str(message["progress"])
            if not at:
                self.progress(message)

        listener = Listener({} if at else self.parts, progress, log)
        self.members.append(Member(rank, worker, pipe, log, listener))

    def listen(self, deadline_s: float) -> Member:
        """Listen until all ranks have ended, one has failed, or the deadline comes; ``parts`` then have the outcome.

        Returns the rank whose log tells most: the one that failed first, or rank 0.
        """
        deadline = time.monotonic() + deadline_s
        processes = {os.pidfd_open(member.worker.pid): member for member in self.members}
        try:
            with selectors.DefaultSelector() as selector:
                for descriptor, member in processes.items():
                    selector.register(descriptor, selectors.EVENT_READ)
                    selector.register(member.pipe, selectors.EVENT_READ)
                late = self._until_end(selector, processes, deadline)
        finally:
            for descriptor in processes:
                os.close(descriptor)
        return self._judged(late, deadline_s)

    def _until_end(self, selector: selectors.BaseSelector, processes: dict[int, Member], deadline: float) -> bool:
        """Take messages in until all is said; whether the deadline came first."""
        grace = deadline
        while (remaining_s := min(deadline, grace) - time.monotonic()) > 0:
            ready = {key.fd for key, _ in selector.select(min(remaining_s, LOOK_S))}
            for descriptor, member in processes.items():
                if member.pipe in ready:
                    received = os.read(member.pipe, 1 << 16)
                    if not received:
                        selector.unregister(member.pipe)
                    member.listener.receive(received)
                elif descriptor in ready and not member.ended:
                    member.ended = True
                    selector.unregister(descriptor)
                self._look_at(member)
            if all(member.ended for member in self.members):
                return False
            if self.failed:
                grace = min(grace, time.monotonic() + FAILED_GRACE_S)
            elif all(member.outcome for member in self.members):
                grace = min(grace, time.monotonic() + GRACE_S)
            if not ready:
                for member in self.members:
                    logs.cut(member.log)
                self.tick()
        return time.monotonic() >= deadline

    def _look_at(self, member: Member) -> None:
        """Note that a rank has failed, when it has."""
        said = member.outcome
        if member.failure:
            return
        if isinstance(said, dict) and said.get("status") != "ok":
            member.failure = Outcome(said.get("status", "error"), str(said.get("reason", "")))
        elif member.ended and said is None:
            member.failure = self.exit_outcome(member.worker)
        if member.failure:
            self.failed.append(member)

    def _judged(self, late: bool, deadline_s: float) -> Member:
        """Name the cause in the outcome; returns the rank that it lies with."""
        world = self.part.world if self.part else len(self.members)
        if self.failed:
            causes = [member for member in self.failed if not is_consequence(member.failure)] or self.failed
            cause, outcome = causes[0], causes[0].failure
            assert outcome
            reason = outcome.reason
            if outcome.status != "unsupported":  # which all ranks say alike
                reason = f"rank {cause.rank} of {world} failed in {cause.where}: {reason}"
            self.parts["outcome"] = {"status": outcome.status, "reason": reason}
            return cause
        if late and not all(member.outcome for member in self.members):
            stopped = [member for member in self.members if _stopped(member.worker.pid)]
            places = ", ".join(f"rank {each.rank} in {each.where}" for each in self.members if not each.outcome)
            which = f"; stopped: {', '.join(f'rank {each.rank}' for each in stopped)}" if stopped else ""
            self.parts["outcome"] = {"status": "timeout", "reason": f"no end after {deadline_s:g} s ({places}{which})"}
            return (stopped or self.members)[0]
        return self.members[0]


def is_consequence(failure: Outcome | None) -> bool:
    """Whether a rank failed because another one was gone."""
    return bool(failure and failure.status == "error" and _CONSEQUENCE.search(failure.reason))


def _stopped(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


def _listed() -> list[str] | None:
    """The devices that CUDA_VISIBLE_DEVICES shows; None where it is not set."""
    variable = os.environ.get("CUDA_VISIBLE_DEVICES")
    return None if variable is None else [name for name in variable.split(",") if name]

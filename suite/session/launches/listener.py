"""The parent's end of the workers' pipes: messages become parts of a record, and progress, until all have ended.

A launch has one worker, or one for each rank. Rank 0 has the record's pipe; the others have pipes of their own, from
which only their outcome and their progress are taken. The first rank that fails ends the launch, and the outcome names
it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from suite.record.job import HostRanks
from suite.record.record import PARENTS, Outcome
from suite.record.text import clean
from suite.session.launches import logs

GRACE_S = 10.0  # how long a worker may take to end after its outcome
FAILED_GRACE_S = 2.0  # how long the other ranks may take to say why, once one has failed
LOOK_S = 1.0  # how often the log's size is checked, and the caller told that the worker still runs
LINE_MOST = 1 << 26  # bytes of one message; the parts of a real one take some megabytes at most

#: Errors that say that another rank is gone, so that this one is not the cause.
_CONSEQUENCE = re.compile(
    r"another rank is gone|connection (was )?(closed|reset|refused)|broken pipe|heartbeat|UNAVAILABLE|coordination|"
    r"peer|socket closed|EOF",
    re.IGNORECASE,
)

Progress = Callable[[dict[str, Any]], None]


def read_waited_s() -> float:
    """The seconds for which threads of this process were ready to run and had no core; 0 if the kernel does not say."""
    waited_ns = 0
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # of a thread that has ended, say
            waited_ns += int(path.read_text().split()[1])
    return waited_ns / 1e9


@dataclass
class Listener:
    """Receives a worker's messages: ``parts`` of its record, and progress, which is passed on.

    ``seen_s`` is how long what was timed took by the ``clock`` of this process: from the message that it ``begin``s, or
    from ``spawned_s`` on, to that which says it ``took`` so long, and a burst of windows to its last window's.
    ``late_s`` is for how long this process ``waited`` for a core before it read these two messages.
    """

    parts: dict[str, Any]
    progress: Progress
    clock: Callable[[], float] = time.perf_counter
    spawned_s: float | None = None
    seen_s: dict[str, list[float]] = field(default_factory=dict)
    waited: Callable[[], float] = read_waited_s
    late_s: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._waited_s, self._late_s, self._began_late_s = self.waited(), 0.0, 0.0
        self._pieces: list[bytes] = []  # of the line that has no end yet
        self._length = 0
        self._began_s = self.clock() if self.spawned_s is None else self.spawned_s
        self._burst: str | None = None  # what has begun, and how many times of it there were before
        self._bursts = 0

    def receive(self, received: bytes) -> None:
        """Take in what was read from a pipe: whole lines, and the beginning of the next."""
        before_s, self._waited_s = self._waited_s, self.waited()
        self._late_s = max(self._waited_s - before_s, 0.0)
        *ended, rest = received.split(b"\n")
        for piece in ended:
            self._keep(piece)
            if self._length <= LINE_MOST:
                self._take(b"".join(self._pieces))
            self._pieces, self._length = [], 0
        self._keep(rest)

    def _keep(self, piece: bytes) -> None:
        """Add a piece to the current line; a line that is too long to be a message is dropped."""
        self._length += len(piece)
        self._pieces.append(piece)
        if self._length > LINE_MOST:
            self._pieces = []

    def _take(self, line: bytes) -> None:
        """Take in one line. Ignores what is not a message, since libraries may write to any open descriptor.

        Also ignores the parts that the parent fills in, such as the cell and the launch.
        """
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return
        if not isinstance(message, dict):
            return
        self._stamp(message)
        if isinstance(part := message.get("part"), dict):
            # A helper's error is said first, and the worker's own outcome is then what follows from it.
            ignored = (*PARENTS, *(["outcome"] if "outcome" in self.parts else []))
            self.parts.update({name: value for name, value in part.items() if name not in ignored})
        elif isinstance(message.get("progress"), str):
            rate = message.pop("samples_per_s", None)
            throughput = {"samples_per_s": rate} if isinstance(rate, (int, float)) and math.isfinite(rate) else {}
            self.progress(message | {"progress": clean(message["progress"])} | throughput)

    def _stamp(self, message: dict[str, Any]) -> None:
        """Note when something begins, and how long it has taken; a burst of windows has, after each of them."""
        now_s = self.clock()
        if isinstance(name := message.get("begin"), str):
            self._burst, self._began_s, self._began_late_s = name, now_s, self._late_s
            self._bursts = len(self.seen_s.setdefault(name, []))
        if isinstance(name := message.get("took"), str):
            self._note(name, len(self.seen_s.get(name, ())), now_s)
        if "part" in message:
            self._burst = None
        elif self._burst is not None and "samples_per_s" in message:
            self._note(self._burst, self._bursts, now_s)

    def _note(self, name: str, at: int, now_s: float) -> None:
        self.seen_s.setdefault(name, [])[at:] = [round(now_s - self._began_s, 6)]
        self.late_s.setdefault(name, [])[at:] = [round(self._began_late_s + self._late_s, 6)]


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
class Workers:
    """All workers of a launch. ``parts`` and ``progress`` are rank 0's, ``tick`` is called about once a second."""

    parts: dict[str, Any]
    progress: Callable[[dict[str, Any]], None]
    tick: Callable[[], None]
    part: HostRanks | None = None  # where other hosts have ranks too
    spawned_s: float | None = None  # by the clock of `Listener`
    members: list[Member] = field(default_factory=list)
    failed: list[Member] = field(default_factory=list)  # in the order in which it was seen

    @property
    def world(self) -> int:
        """How many ranks the launch has, on all hosts."""
        return self.part.world if self.part else len(self.members)

    def add(self, worker: subprocess.Popen[bytes], pipe: int, log: Path) -> None:
        """Listen to one more worker."""
        at = len(self.members)
        rank = at + (self.part.first if self.part else 0)

        def progress(message: dict[str, Any]) -> None:
            self.members[at].where = str(message["progress"])
            if not at:
                self.progress(message)

        listener = Listener({} if at else self.parts, progress, spawned_s=self.spawned_s)
        self.members.append(Member(rank, worker, pipe, log, listener))

    def listen(self, deadline_s: float) -> Member:
        """Listen until all workers have ended, one has failed, or the deadline comes; ``parts`` then have the outcome.

        Waits on pipes and processes at once: children of a worker may hold its pipe open after its death. Returns the
        rank whose log tells most: the one that failed first, or rank 0.
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
        return self._judge(late, deadline_s)

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
            if self.failed and self.world > 1:
                grace = min(grace, time.monotonic() + FAILED_GRACE_S)
            elif all("outcome" in member.listener.parts for member in self.members):
                grace = min(grace, time.monotonic() + GRACE_S)
            if not ready:
                for member in self.members:
                    logs.cut(member.log)
                self.tick()
        return time.monotonic() >= deadline

    def _look_at(self, member: Member) -> None:
        said = member.outcome
        if member.failure:
            return
        if isinstance(said, dict) and said.get("status") != "ok":
            member.failure = Outcome(said.get("status", "error"), str(said.get("reason", "")))
        elif member.ended and said is None:
            member.failure = exit_outcome(member.worker)
        if member.failure:
            self.failed.append(member)

    def _judge(self, late: bool, deadline_s: float) -> Member:
        """Name the cause in the outcome; returns the rank that it lies with."""
        if self.world == 1:
            timeout = Outcome("timeout", f"no end after {deadline_s:g} s")
            self.parts.setdefault("outcome", vars(self.members[0].failure or timeout))
        elif self.failed:
            causes = [member for member in self.failed if not is_consequence(member.failure)] or self.failed
            cause, outcome = causes[0], causes[0].failure
            assert outcome
            reason = outcome.reason
            if outcome.status != "unsupported":  # which all ranks say alike
                reason = f"rank {cause.rank} of {self.world} failed in {cause.where}: {reason}"
            self.parts["outcome"] = {"status": outcome.status, "reason": reason}
            return cause
        elif late and not all(member.outcome for member in self.members):
            stopped = [member for member in self.members if _is_stopped(member.worker.pid)]
            places = ", ".join(f"rank {each.rank} in {each.where}" for each in self.members if not each.outcome)
            which = f"; stopped: {', '.join(f'rank {each.rank}' for each in stopped)}" if stopped else ""
            self.parts["outcome"] = {"status": "timeout", "reason": f"no end after {deadline_s:g} s ({places}{which})"}
            return (stopped or self.members)[0]
        return self.members[0]


def is_consequence(failure: Outcome | None) -> bool:
    """Whether a rank failed because another one was gone."""
    return bool(failure and failure.status == "error" and _CONSEQUENCE.search(failure.reason))


def _is_stopped(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


def exit_outcome(worker: subprocess.Popen[bytes]) -> Outcome:
    """The outcome of a worker that has ended without one."""
    code = worker.wait()
    if code >= 0:
        return Outcome("crashed", f"ended with exit status {code} and no result")
    names = {number.value: number.name for number in signal.Signals}
    return Outcome("crashed", f"ended by signal {names.get(-code, -code)}")

"""Observers of a run, and the options that ask for them.

A tracker such as MLflow is followed by a process of its own, which reads the journal and sends what is new. It works
between launches only: the controller waits for its answer, so that nothing of it runs while a worker is timed. A
tracker that does not answer in time is ended, so it can cost a run `LONGEST_S` in all, and never a launch.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from framework_training_suite import typed
from suite.catalog.suggest import unknown
from suite.export.target import HOST, ExportError, abouts, target
from suite.plan.command.common import Option, option
from suite.record.record import Record
from suite.record.text import clean
from suite.session.hosts.remote import HostLostError, Pipe
from suite.session.terminal import count_launches

#: Seconds that an answer may take: the first one, with the library's import, then each, then the last one.
BEGIN_S, LAUNCH_S, END_S = 40.0, 20.0, 20.0
#: Seconds without an answer, or until one that says what is wrong, after which a tracker is given up.
LONGEST_S = 40.0

FOLLOWER = "suite.export.follow"
PORTS = 65_535
Say = Callable[[str], None]


@dataclass
class Observers:
    """Tells each member what happens in a run; what one of them raises ends its part, and nothing else.

    A member has some of these methods, each of which must return soon: ``begin(journal, run, planned, done)``, where
    ``done`` are launches that the journal held already; of each launch ``start(cell, launch)``, ``watch(monitor)`` of
    one on this machine, ``progress(message)`` and ``end(record, left_s)``, with an estimate for the rest of the run;
    and ``close()``, which returns lines for the end of the run.
    """

    members: Sequence[Any] = ()
    _begun: bool = False
    _failed: dict[int, str] = field(default_factory=dict)

    def tell(self, event: str, *given: Any) -> list[str]:
        """Call the method of this name of each member that has it; returns the lines that they return."""
        self._begun |= event == "begin"
        lines: list[str] = []
        for number, member in enumerate(self.members):
            if number not in self._failed:
                try:
                    lines += getattr(member, event, lambda *_: None)(*given) or ()
                except Exception as error:  # whatever it is, the run is worth more
                    reason = clean(f"{type(error).__name__}: {error}")
                    self._failed[number] = f"{type(member).__name__} failed, and the run went on without: {reason}"
        return lines

    def close(self) -> list[str]:
        """The lines of all, once; those that failed have something to close too."""
        failed, self._failed = self._failed, {}
        lines = self.tell("close") if self._begun else []
        self._begun = False
        return list(dict.fromkeys([*failed.values(), *lines, *self._failed.values()]))


@dataclass
class Tracker:
    """A target's name, its place, and how the place is named to people.

    ``say`` prints a line, and ``show`` a passing state.
    """

    target: str
    place: str
    shown_place: str
    say: Say = lambda _: None
    show: Say = lambda _: None
    command: Sequence[str] = (sys.executable, "-P", "-m", FOLLOWER)  # -P: not what lies in the current folder
    problem: str = ""
    sent: int = 0
    _journal: Path = Path()
    _known: int = 0  # launches in the journal
    _lost_s: float = 0.0
    _where: str = ""
    _pipe: Pipe | None = None

    def begin(self, journal: Path, _run: Mapping[str, Any], _planned: int, done: Sequence[Record]) -> None:
        """Start the process, and wait until it has found its place, before the first worker starts."""
        self._journal, self._known = journal, len(done)
        log = journal.with_suffix("") / f"track-{self.target}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        self._pipe = Pipe(self.target, None, [*self.command, self.target, self.place, str(journal)], log)
        self._ask("begin", BEGIN_S)
        if self.problem:
            self.say(f"--track {self.target}: {clean(self.problem, 500)}. The run goes on, and tries again")

    def end(self, *_: Any) -> None:
        self._known += 1
        self._ask("launch", LAUNCH_S)

    def close(self) -> Sequence[str]:
        """Have the rest sent, and end the process; say where the launches are, or how to send what is missing."""
        self._ask("end", END_S)
        self._end()
        if self._where:
            return [f"tracked by {self.target}: {clean(self._where, 1000)}"]
        why = clean(self.problem, 500) or "it was ended"
        missing = f"{self.target} has {self.sent} of {count_launches(self._known)}: {why}"
        again = typed(f"python -m suite.export {self.target} {self._journal} --to {self.shown_place}")
        return [f"{missing}. The run lost nothing; send the rest with: {again}"]

    def _ask(self, line: str, limit_s: float) -> None:
        if not self._pipe:
            return
        begin_s = time.monotonic()
        self.show(f"{self.target}: sending")
        answer = self._answer(line, max(0.0, min(limit_s, LONGEST_S - self._lost_s)))
        if answer is None:
            self.problem = self.problem or f"no answer within {time.monotonic() - begin_s:.0f} s"
            self._end()
            return
        self.sent, self.problem = answer.get("sent", self.sent), answer.get("problem", "")
        self._where = answer.get("where", "")
        if self.problem:
            self._lost_s += time.monotonic() - begin_s
            if self._lost_s >= LONGEST_S:
                self._end()

    def _answer(self, line: str, limit_s: float) -> dict[str, Any] | None:
        """The process' answer; None if it has ended or takes too long."""
        assert self._pipe
        self._pipe.send(line)
        try:
            answer = next(iter(self._pipe.receive(limit_s)), None)
        except HostLostError:
            self.problem = f"its process ended; see {self._journal.stem}/track-{self.target}.log beside the journal"
            return None
        if answer is None:
            return None
        with contextlib.suppress(ValueError):
            if isinstance(said := json.loads(answer), dict):
                return said
        self.problem = "its process answered what is no answer"
        return None

    def _end(self) -> None:
        """End the process and whatever it started."""
        pipe, self._pipe = self._pipe, None
        if pipe:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pipe.process.pid, signal.SIGKILL)
            pipe.close()


def options() -> list[Option]:
    return [
        option(
            "--track", metavar="TARGET", action="append", default=[],
            help=f"send each launch, as it ends, to one of: {', '.join(_followers())}; TARGET=PLACE names a server's "
            "address or a folder, as --to of python -m suite.export does",
        ),
        option(
            "--metrics-port", type=int, metavar="PORT",
            help="serve Prometheus metrics of the run on this port while it goes on, such as 9464",
        ),
        option(
            "--metrics-host", default=HOST, metavar="ADDRESS",
            help=f"with --metrics-port, the address to serve on; 0.0.0.0 shows them to the network (default: {HOST})",
        ),
    ]  # fmt: skip


def check(config: pytest.Config) -> None:
    """Raise `ExportError` for an observer that cannot be: an unknown tracker, no library, no port."""
    for _ in _trackers(config):
        pass
    port = config.getoption("metrics_port")
    if port is not None:
        if not 0 <= port <= PORTS:
            raise ExportError(f"--metrics-port is {port}; it is a port, 0 (any that is free) to {PORTS}")
        target("prometheus")


def make_observers(config: pytest.Config, say: Callable[[str], None], show: Callable[[str], None]) -> Observers:
    """The observers of a run; metrics are served from here on. Raises `ExportError`."""
    from suite.export.live import Live  # SciPy, which what is mistyped does not wait for

    made: list[Any] = [
        Tracker(name, place, _without_password(place), say, show) for name, place in dict.fromkeys(_trackers(config))
    ]
    port = config.getoption("metrics_port")
    if port is not None:
        live = Live(port, config.getoption("metrics_host"))
        say(f"metrics: http://{clean(live.host)}:{live.open()}/metrics")
        made.append(live)
    return Observers(made)


def _trackers(config: pytest.Config) -> Iterator[tuple[str, str]]:
    for text in config.getoption("track") or ():
        name, _, given = text.partition("=")
        if name not in _followers():
            raise ExportError(f"--track: {unknown('tracker', name, _followers())}")
        try:
            target(name)
            yield name, abouts()[name].place(given or None)
        except ExportError as error:
            raise ExportError(f"--track {name}: {error}") from None


def _without_password(place: str) -> str:
    """The place as it may be shown: an address without a user's name and password."""
    scheme, _, rest = place.rpartition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}" if scheme else place


def _followers() -> list[str]:
    return [name for name, about in abouts().items() if about.follows]

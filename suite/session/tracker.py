"""A tracker, such as MLflow, is followed by a process of its own, which reads the journal and sends what is new.

It works between launches only: the controller waits for its answer, so that nothing of it runs while a worker is timed.
A tracker that does not answer in time is ended, so it can cost a run `LONGEST_S` in all, and never a launch.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework_training_suite import typed
from suite.record.record import Record
from suite.record.text import clean
from suite.session.hosts.remote import HostLostError, Pipe
from suite.session.terminal import count_launches

#: Seconds that an answer may take: the first one, with the library's import, then each, then the last one.
BEGIN_S, LAUNCH_S, END_S = 40.0, 20.0, 20.0
#: Seconds without an answer, or until one that says what is wrong, after which a tracker is given up.
LONGEST_S = 40.0
FOLLOWER = "suite.export.follow"
Say = Callable[[str], None]


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
        again = typed(f"training-suite export {self.target} {self._journal} --to {self.shown_place}")
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
        pipe, self._pipe = self._pipe, None
        if pipe:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pipe.process.pid, signal.SIGKILL)
            pipe.close()

"""Follows a run with a tracker, such as MLflow: a process of its own reads the journal and sends what is new.

It works between launches only: the controller waits for its answer, so that nothing of it runs while a worker is timed.
A tracker that does not answer in time is ended, so it can cost a run `LONGEST_S` in all, and never a launch.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from framework_training_suite import typed
from suite.record.record import Record
from suite.record.text import clean
from suite.session.formatting import count_launches
from suite.session.launches.launch import ROOT
from suite.session.observers import Observer

#: Seconds that an answer may take: the first one, with the library's import, then each, then the last one.
BEGIN_S, LAUNCH_S, END_S = 40.0, 20.0, 20.0
#: Seconds without an answer, or until one that says what is wrong, after which a tracker is given up.
LONGEST_S = 40.0

FOLLOWER = "suite.export.follow"
Say = Callable[[str], None]


@dataclass
class Tracker(Observer):
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
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _unread: bytes = b""

    def begin(self, journal: Path, run: Mapping[str, Any], planned: int, done: Sequence[Record]) -> None:
        """Start the process, and wait until it has found its place, before the first worker starts."""
        self._journal, self._known = journal, len(done)
        log = journal.with_suffix("") / f"track-{self.target}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self.command, self.target, self.place, str(journal)], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=output, env=os.environ | {"PYTHONPATH": path}, start_new_session=True,
            )  # fmt: skip
        self._ask("begin", BEGIN_S)
        if self.problem:
            self.say(f"--track {self.target}: {clean(self.problem, 500)}. The run goes on, and tries again")

    def end(self, record: Record, left_s: float | None) -> None:
        """Have the launch sent, and wait for that."""
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
        """Send a line and take in the answer. A tracker that fails for too long altogether is given up."""
        if not self._process:
            return
        begin_s = time.monotonic()
        self.show(f"{self.target}: sending")
        answer = self._answer(f"{line}\n".encode(), min(limit_s, LONGEST_S - self._lost_s))
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

    def _answer(self, line: bytes, limit_s: float) -> dict[str, Any] | None:
        """The process' answer; None if it has ended or takes too long."""
        assert self._process
        assert self._process.stdin
        assert self._process.stdout
        deadline = time.monotonic() + limit_s
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError:
            return self._note_end()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                received = os.read(self._process.stdout.fileno(), 1 << 16)
                if not received:
                    return self._note_end()
                self._unread += received
        answer, _, self._unread = self._unread.partition(b"\n")
        try:
            said = json.loads(answer)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            self.problem = "its process answered what is no answer"
            return None
        return said

    def _note_end(self) -> dict[str, Any] | None:
        """Note that the process has ended by itself; there is no answer."""
        self.problem = f"its process ended; see {self._journal.stem}/track-{self.target}.log beside the journal"
        return None

    def _end(self) -> None:
        """End the process and whatever it started."""
        process, self._process = self._process, None
        if process:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    with contextlib.suppress(OSError):
                        pipe.close()

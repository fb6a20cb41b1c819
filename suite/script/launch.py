"""One launch of a script: the user's command in its own folder and interpreter, watched until enough is measured.

`suite.watch`, which the environment brings into the process, tells of steps on a socket in the launch's scratch folder.
Where it sees none, lines that match a pattern are the steps, and where there are none either, the whole run is one.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from suite import watch
from suite.catalog.phases import TRAIN
from suite.monitor.sampler import Monitor
from suite.record.job import Job
from suite.record.record import REASON_MOST, Outcome, Record
from suite.record.text import clean, make_printable, parse_json
from suite.record.variables import PROCESS_TAG
from suite.script.profiling import add_profile
from suite.script.seen import Seen
from suite.script.variants import Variant
from suite.session.launches import cleanup, logs
from suite.session.launches.copies import copy_folder
from suite.session.launches.launch import LaunchError, end_tree, scratch_folder
from suite.session.launches.machine import LaunchCallbacks

OBSERVER = Path(__file__).resolve().parent / "observer"
#: How long a script may take to end after SIGTERM, in seconds.
ENDING_S = 5.0
#: A whole run that is shorter says nothing of a training.
WHOLE_LEAST_S = 1.0
#: Characters of an unfinished line that are kept.
LINE_MOST = 1 << 16
#: Losses that are kept, the first that are printed.
LOSSES_MOST = 100


@dataclass(frozen=True)
class Watching:
    """How a script is watched: patterns for the lines it prints, whether it runs to its end, where its output goes."""

    pattern: re.Pattern[str] | None = None
    loss: re.Pattern[str] | None = None
    to_the_end: bool = False
    echo: IO[str] | None = None
    in_copy: bool = False

    def folder(self, scratch: Path) -> Path:
        """Where a launch runs: the current folder, or a copy of it. Raises `LaunchError`."""
        return copy_folder(Path.cwd(), scratch) if self.in_copy else Path.cwd()


@dataclass(frozen=True)
class ScriptLaunch:
    """One launch of a variant, which prints into ``log`` and may take ``deadline_s`` seconds."""

    variant: Variant
    watching: Watching
    job: Job
    log: Path
    deadline_s: float

    def run(self, callbacks: LaunchCallbacks, monitor_of: Callable[[int, float], Monitor]) -> Record:
        """Run the command until enough is measured or it ends; its record, however it ended. Raises `LaunchError`."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        with contextlib.ExitStack() as until:
            folder = Path(until.enter_context(scratch_folder()))
            variables = _environment(self.variant, self.job, folder)
            listening = until.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            listening.bind(variables[watch.SOCKET])
            listening.listen()
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self.log.write_bytes(b"")
            output = until.enter_context(self.log.open("ab"))
            seen = Seen(self.job.plan, time.perf_counter(), callbacks.progress, self.job.profile)
            process = self._start(variables, folder, until)
            monitor = until.enter_context(monitor_of(process.pid, seen.spawned_s))
            ears = Ears(seen, process, listening, output, self.log, self.watching, callbacks.tick)
            late = ears.listen(self.deadline_s)
            took_s = time.perf_counter() - seen.spawned_s
            code = _end(process) if seen.is_enough or late else process.wait()
            if self.job.profile and seen.is_measured:
                add_profile(seen, self.job, Path(f"{variables[watch.SOCKET]}.json"))
        outcome = self._outcome(seen, code, late, took_s)
        record = replace(seen.record(self.variant, self.job, variables, outcome), started=started)
        return (
            monitor.annotate(record)
            if outcome.ok
            else replace(record, log=(*map(self.variant.redact, logs.tail(self.log)),))
        )

    def _start(self, variables: dict[str, str], folder: Path, until: contextlib.ExitStack) -> subprocess.Popen[bytes]:
        tag = cleanup.new_tag()
        cleanup.write_tag(tag, folder)
        place = self.watching.folder(folder)
        try:
            process = subprocess.Popen(
                self.variant.line(self.job.launch), cwd=place,
                env=variables | {PROCESS_TAG: tag}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise LaunchError(f"cannot start {self.variant.command[0]}: {error.strerror}") from None
        until.enter_context(process)
        until.callback(end_tree, process, tag)
        return process

    def _outcome(self, seen: Seen, code: int | None, late: bool, took_s: float) -> Outcome:
        if seen.is_measured or (seen.series.get(TRAIN) and not late and code == 0):
            return Outcome("ok")
        last = clean(self.variant.redact((logs.tail(self.log) or ["it printed nothing"])[-1]), REASON_MOST // 2)
        if late:
            return Outcome("timeout", f"no end and too few steps after {self.deadline_s:g} s; the last line: {last}")
        if code == 0 and took_s < WHOLE_LEAST_S:
            return Outcome("error", f"the script ended after {took_s:.2f} s, and no step was seen; it said: {last}")
        if code == 0:
            seen.take_whole_run(took_s)
            return Outcome("ok")
        ended = f"by {signal.Signals(-code).name}" if code and code < 0 else f"with exit status {code}"
        return Outcome("crashed", f"the script ended {ended}: {last}")


def _environment(variant: Variant, job: Job, folder: Path) -> dict[str, str]:
    own = {**os.environ, **variant.environment}
    return own | {
        watch.SOCKET: str(folder / "w"), watch.WINDOW: f"{job.plan.min_window_s:g}", "SUITE_LAUNCH": str(job.launch),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(OBSERVER), own.get("PYTHONPATH", "")])),
        "PYTHONUNBUFFERED": "1",
    }  # fmt: skip


@dataclass
class Ears:
    """Listens to a script: its processes' sockets, what it prints, and whether it has ended."""

    seen: Seen
    process: subprocess.Popen[bytes]
    listening: socket.socket
    output: IO[bytes]
    log: Path
    watching: Watching
    tick: Callable[[], None]
    _rest: bytes = b""  # of a line that has no end yet
    _ranks: dict[Any, int] = field(default_factory=dict)  # by socket
    _main: Any = None  # the socket of the process whose steps count: the first one of rank 0
    _matched: tuple[int, float] | None = None  # the step that a line named last, and when

    def listen(self, deadline_s: float) -> bool:
        """Listen until enough was seen or the script has ended; whether the deadline came first."""
        assert self.process.stdout
        deadline, ended = time.monotonic() + deadline_s, False
        with (
            contextlib.ExitStack() as until,
            selectors.DefaultSelector() as selector,
            _pidfd(self.process.pid) as process,
        ):
            selector.register(self.listening, selectors.EVENT_READ, "new")
            selector.register(self.process.stdout, selectors.EVENT_READ, "line")
            selector.register(process, selectors.EVENT_READ, "end")
            while time.monotonic() < deadline and not ended:
                ready = selector.select(1.0)
                for key, _ in ready:
                    place: Any = key.fileobj
                    if key.data == "new":
                        pipe = until.enter_context(self.listening.accept()[0])
                        selector.register(pipe, selectors.EVENT_READ, "told")
                    elif key.data != "end" and not self._receive(key):
                        selector.unregister(place)
                        place.close()  # of a script that imports a framework in many processes
                ended = any(key.data == "end" for key, _ in ready) and all(key.data == "end" for key, _ in ready)
                if self.seen.is_enough and not self.watching.to_the_end:
                    return False
                self.tick()
        return not ended

    def _receive(self, key: selectors.SelectorKey) -> bool:
        try:
            received = os.read(key.fd, 1 << 16)
        except ConnectionError:
            return False
        if key.data == "told":  # one message
            self._take(key.fileobj, received)
        else:
            self._keep(received)
        return bool(received)

    def _keep(self, printed: bytes) -> None:
        """Keep what the script has printed, show it if it is asked for, and read its lines."""
        self.output.write(printed)
        self.output.flush()
        if os.fstat(self.output.fileno()).st_size > logs.MOST_BYTES:
            logs.cut(self.log)
        if self.watching.echo:
            lines_of = printed.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
            self.watching.echo.write("\n".join(map(make_printable, lines_of)))
        *lines, rest = (self._rest + printed).split(b"\n")
        self._rest = rest[-LINE_MOST:]
        for line in lines:
            self._match(line.decode(errors="replace"))
            self._take_loss(line.decode(errors="replace"))

    def _take(self, pipe: Any, line: bytes) -> None:
        with contextlib.suppress(ValueError, TypeError, LookupError, ArithmeticError, RecursionError, OSError):
            message = parse_json(line)
            if not isinstance(message, dict):
                return
            if "hello" in message:
                self._ranks[pipe] = int(message.get("rank", 0))
                self._main = self._main or (None if message.get("rank") else pipe)
            if "window" in message and pipe in self._ranks:
                self.seen.take_rank(self._ranks[pipe], message)
            if pipe is self._main or ("packages" in message and not self._main):
                self.seen.take(message, lambda phase: pipe.send(f"{phase}\n".encode(), socket.MSG_DONTWAIT))

    def _take_loss(self, line: str) -> None:
        match = self.watching.loss.search(line) if self.watching.loss else None
        if match and len(self.seen.losses) < LOSSES_MOST:
            with contextlib.suppress(ValueError, TypeError):
                value = float(match[1])
                self.seen.losses.append(value if math.isfinite(value) else None)

    def _match(self, line: str) -> None:
        """A line with the number of a step: together with the one before, a window."""
        match = self.watching.pattern.search(line) if self.watching.pattern else None
        if not match:
            return
        now_s = time.perf_counter()
        numbered = (match.groups() or ("",))[0] or ""
        step = self._matched[0] + 1 if self._matched else 0
        if numbered.isdecimal() and len(numbered) < 16:
            step = int(numbered)
        if self._matched is None or step <= self._matched[0]:
            self._matched = (step, now_s)
        elif now_s - self._matched[1] >= self.seen.plan.min_window_s:
            steps, begin_s = step - self._matched[0], self._matched[1]
            self._matched = (step, now_s)
            self.seen.hello.setdefault("source", "pattern")
            self.seen.add(steps, begin_s, now_s, 0, lambda _: None)


@contextlib.contextmanager
def _pidfd(pid: int) -> Iterator[int]:
    descriptor = os.pidfd_open(pid)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _end(process: subprocess.Popen[bytes]) -> int | None:
    """Ask a script to end, as a cluster would; None if it does not, so that it is killed."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(ENDING_S)
    return None

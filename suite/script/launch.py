"""One launch of a script: the user's command in its own folder and interpreter, watched until enough is measured.

`suite.watch`, which the environment brings into the process, tells of steps on a socket in the launch's scratch folder.
Where it sees none, lines that match a pattern are the steps, and where there are none either, the whole run is one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from suite import watch
from suite.catalog.phases import TRAIN
from suite.monitor.sampler import Monitor
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.parts.environment import machine, redact, select_variables
from suite.record.record import REASON_MOST, Outcome, Phase, Record, Window
from suite.record.text import clean
from suite.record.variables import PROCESS_TAG
from suite.script.variants import Variant
from suite.session.launches import cleanup, logs
from suite.session.launches.launch import LaunchError, end_tree, scratch_folder
from suite.session.launches.machine import LaunchCallbacks

OBSERVER = Path(__file__).resolve().parent / "observer"
#: How long a script may take to end after SIGTERM, in seconds.
ENDING_S = 5.0
#: Two windows agree within this share, as those of the suite's own workloads.
AGREE = 0.05
#: A window begins a new burst if it does not follow the one before within so many seconds.
GAP_S = 0.1
#: A whole run that is shorter says nothing of a training.
WHOLE_LEAST_S = 1.0
#: Characters of an unfinished line that are kept.
LINE_MOST = 1 << 16

#: The phases in their order, and what the observer is asked for.
NEXT = {watch.TRAIN: watch.COMPUTE, watch.COMPUTE: watch.INPUT}


@dataclass(frozen=True)
class Watching:
    """How a script is watched: a pattern for the lines it prints, whether it runs to its end, where its output goes."""

    pattern: re.Pattern[str] | None = None
    to_the_end: bool = False
    echo: IO[str] | None = None
    in_copy: bool = False

    def folder(self, scratch: Path) -> Path:
        """Where a launch runs: the current folder, or a copy of it."""
        return shutil.copytree(Path.cwd(), scratch / "copy", symlinks=True) if self.in_copy else Path.cwd()


@dataclass
class Series:
    """The windows of one phase so far; the first ones warm up until two agree."""

    plan: Plan
    warmup: list[Window] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    spans: list[tuple[float, float]] = field(default_factory=list)
    steady: bool = False

    def add(self, window: Window, begin_s: float, end_s: float) -> None:
        spent_s = sum(each.seconds for each in self.warmup)
        if not self.windows and not self.steady and spent_s < self.plan.max_warmup_s:
            before = self.warmup[-1:]
            self.warmup.append(window)
            self.steady = bool(before) and _agree(before[0], window)
            return
        self.windows.append(window)
        if self.spans and begin_s - self.spans[-1][1] < GAP_S:
            self.spans[-1] = (self.spans[-1][0], end_s)
        else:
            self.spans.append((begin_s, end_s))

    def is_done(self) -> bool:
        return len(self.windows) >= self.plan.windows

    def phase(self) -> Phase | None:
        """The phase; of a script that ended early, its warm-up counts."""
        if self.windows:
            return Phase(tuple(self.windows), tuple(self.warmup), self.steady, tuple(self.spans))
        return Phase(tuple(self.warmup), (), False) if self.warmup else None


def _agree(one: Window, other: Window) -> bool:
    first, second = (each.seconds / each.steps for each in (one, other))
    return abs(first - second) <= AGREE * min(first, second)


@dataclass
class Seen:
    """What was seen of a launch: who trained, and its windows by phase. ``spawned_s`` is when it was started."""

    plan: Plan
    spawned_s: float
    progress: Callable[[dict[str, Any]], None]
    hello: dict[str, Any] = field(default_factory=dict)
    series: dict[str, Series] = field(default_factory=dict)
    phase: str = TRAIN
    samples: int = 0
    steps: int = 0
    rss: int = 0
    pauses: tuple[int, float] = (0, 0.0)
    is_enough: bool = False

    def take(self, message: Mapping[str, Any], ask: Callable[[str], None]) -> None:
        """Take one message of the observer in; ``ask`` sends it to the next phase."""
        if "hello" in message:
            self.hello = self.hello or dict(message)
        elif isinstance(window := message.get("window"), list):
            self.rss = max(self.rss, int(message.get("rss", 0)))
            self.hello["device"] = message.get("device", "cpu")
            steps, begin_s, end_s, samples = window
            if message.get("phase") == self.phase:
                if self.phase == TRAIN:
                    self.pauses = tuple(message.get("pauses", self.pauses))
                self.add(int(steps), float(begin_s), float(end_s), int(samples), ask)

    def add(self, steps: int, begin_s: float, end_s: float, samples: int, ask: Callable[[str], None]) -> None:
        series = self.series.setdefault(self.phase, Series(self.plan))
        series.add(Window(steps, end_s - begin_s), begin_s - self.spawned_s, end_s - self.spawned_s)
        if self.phase == TRAIN:
            self.samples, self.steps = self.samples + samples, self.steps + steps
        rate = (samples or steps) / (end_s - begin_s)
        self.progress({"progress": self.phase, "samples_per_s": rate})
        if series.is_done():
            following = NEXT.get(self.phase)
            if following in self.plan.phases and self.hello.get("loader"):
                self.phase = following
                ask(following)
            else:
                self.is_enough = True

    @property
    def batch(self) -> int:
        """Samples of a step, on the average; 0 where none were seen."""
        ranks = int(self.hello.get("world", 1))
        return ranks * round(self.samples / self.steps) if self.steps else 0


def launch_script(
    variant: Variant, watching: Watching, job: Job, log: Path, deadline_s: float, callbacks: LaunchCallbacks,
    monitor_of: Callable[[int, float], Monitor],
) -> Record:  # fmt: skip
    """Run the command once, until enough is measured or it ends; its record, however it ended. Raises `LaunchError`."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with contextlib.ExitStack() as until:
        folder = Path(until.enter_context(scratch_folder()))
        listening = until.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listening.bind(str(folder / "w"))
        listening.listen()
        own = _environment(variant, job, folder)
        log.parent.mkdir(parents=True, exist_ok=True)
        output = until.enter_context(log.open("wb"))
        seen = Seen(job.plan, time.perf_counter(), callbacks.progress)
        tag = cleanup.new_tag()
        cleanup.write_tag(tag, folder)
        try:
            process = subprocess.Popen(
                variant.line(job.launch), cwd=watching.folder(folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env=own | {PROCESS_TAG: tag}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise LaunchError(f"cannot start {variant.command[0]}: {error.strerror}") from None
        until.callback(end_tree, process, tag)
        monitor = until.enter_context(monitor_of(process.pid, seen.spawned_s))
        ears = Ears(seen, process, listening, output, watching, callbacks.tick)
        late = ears.listen(deadline_s)
        took_s = time.perf_counter() - seen.spawned_s
        code = _end(process) if seen.is_enough or late else process.wait()
    return _record(variant, job, started, seen, own, monitor, _outcome(seen, code, late, deadline_s, took_s, log), log)


def _environment(variant: Variant, job: Job, folder: Path) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(OBSERVER), os.environ.get("PYTHONPATH", "")]))
    observing = {
        watch.SOCKET: str(folder / "w"), watch.WINDOW: f"{job.plan.min_window_s:g}", "PYTHONPATH": path,
        "PYTHONUNBUFFERED": "1", "SUITE_LAUNCH": str(job.launch),
    }  # fmt: skip
    return {**os.environ, **variant.environment, **observing}


@dataclass
class Ears:
    """Listens to a script: its processes' sockets, what it prints, and whether it has ended."""

    seen: Seen
    process: subprocess.Popen[bytes]
    listening: socket.socket
    output: IO[bytes]
    watching: Watching
    tick: Callable[[], None]
    _rests: dict[int, bytes] = field(default_factory=dict)
    _main: int = -1  # the socket of the process whose steps count: the first one of rank 0
    _matched: tuple[int, float] | None = None  # the step that a line named last, and when

    def listen(self, deadline_s: float) -> bool:
        """Listen until enough was seen or the script has ended; whether the deadline came first."""
        assert self.process.stdout
        deadline, ended = time.monotonic() + deadline_s, False
        with selectors.DefaultSelector() as selector, _pidfd(self.process.pid) as process:
            selector.register(self.listening, selectors.EVENT_READ, "new")
            selector.register(self.process.stdout, selectors.EVENT_READ, "line")
            selector.register(process, selectors.EVENT_READ, "end")
            while time.monotonic() < deadline and not ended:
                ready = selector.select(1.0)
                for key, _ in ready:
                    if key.data == "new":
                        selector.register(self.listening.accept()[0], selectors.EVENT_READ, "told")
                    elif key.data != "end" and not self._receive(key):
                        selector.unregister(key.fileobj)
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
        if key.data == "line":
            self.output.write(received)
            self.output.flush()
            if self.watching.echo:
                self.watching.echo.write(received.decode(errors="replace"))
        *lines, rest = (self._rests.get(key.fd, b"") + received).split(b"\n")
        self._rests[key.fd] = rest[-LINE_MOST:]
        for line in lines:
            if key.data == "line":
                self._match(line.decode(errors="replace"))
            else:
                self._take(key.fileobj, line)
        return bool(received)

    def _take(self, pipe: Any, line: bytes) -> None:
        with contextlib.suppress(ValueError, TypeError, OSError):
            message = json.loads(line)
            if "hello" in message and self._main < 0 and not message.get("rank"):
                self._main = pipe.fileno()
            if pipe.fileno() == self._main:
                self.seen.take(message, lambda phase: pipe.send(f"{phase}\n".encode()))

    def _match(self, line: str) -> None:
        """A line with the number of a step: together with the one before, a window."""
        match = self.watching.pattern.search(line) if self.watching.pattern else None
        if not match:
            return
        now_s = time.perf_counter()
        numbered = (match.groups() or ("",))[0] or ""
        step = int(numbered) if numbered.isdecimal() else (self._matched[0] + 1 if self._matched else 0)
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


def _outcome(seen: Seen, code: int | None, late: bool, deadline_s: float, took_s: float, log: Path) -> Outcome:
    measured = bool(seen.series.get(TRAIN))
    if seen.is_enough or (measured and not late and code == 0):
        return Outcome("ok")
    last = clean(redact((logs.tail(log) or ["it printed nothing"])[-1]), REASON_MOST // 2)
    if late:
        return Outcome("timeout", f"no end and too few steps after {deadline_s:g} s; the last line: {last}")
    if code == 0 and took_s < WHOLE_LEAST_S:
        return Outcome("error", f"the script ended after {took_s:.2f} s, and no step was seen; it said: {last}")
    if code == 0:
        seen.hello.setdefault("source", "whole run")
        seen.series[TRAIN] = Series(seen.plan, windows=[Window(1, took_s)], spans=[(0.0, took_s)], steady=True)
        return Outcome("ok")
    signalled = f"by {signal.Signals(-code).name}" if code and code < 0 else f"with exit status {code}"
    return Outcome("crashed", f"the script ended {signalled}: {last}")


def _record(
    variant: Variant, job: Job, started: str, seen: Seen, own: Mapping[str, str], monitor: Monitor, outcome: Outcome,
    log: Path,
) -> Record:  # fmt: skip
    phases = {name: phase for name, each in seen.series.items() if (phase := each.phase())}
    device, hello = seen.hello.get("device", "cpu"), seen.hello
    source = str(hello.get("source", ""))
    first_s = float(hello["at"]) - seen.spawned_s if "at" in hello else None
    settings = {
        "device": device, "effective_batch": seen.batch or 1, "unit": "samples" if seen.batch else "steps",
        "seen_by": source, "ranks": int(hello.get("world", 1)), "pauses": seen.pauses[0], "paused_s": seen.pauses[1],
        "command": redact(" ".join([variant.prefix, *variant.line()]).strip()),
    }  # fmt: skip
    environment = {
        "machine": machine(), "python": str(hello.get("python", "")) or sys.version.split()[0],
        "packages": {clean(n): clean(v) for n, v in dict(hello.get("packages", {})).items()},
        "variables": select_variables(own),
    }  # fmt: skip
    record = Record(
        job.cell, outcome, job.launch, started, data={"name": "own", "kind": "own", "digest": job.cell.workload},
        workload={"digest": job.cell.workload}, settings=settings, first_step_s=first_s, phases=phases,
        memory={"rss_peak_bytes": seen.rss} if seen.rss else {}, environment=environment,
        flags=() if outcome.ok and phases[TRAIN].steady else ("unsteady",) if outcome.ok else (),
        log=() if outcome.ok else tuple(map(redact, logs.tail(log))),
    )  # fmt: skip
    return monitor.annotate(record) if outcome.ok else record

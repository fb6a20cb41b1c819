"""Launches and probes of a session: each once, several at a time where nothing is timed, and within the budget.

What runs together shares the device, so that its times and peaks mean nothing; what runs alone begins only when all of
that is over.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from suite.plan.cell import WORKLOADS, Cell
from suite.record.job import Job
from suite.record.parts.environment import machine, redact
from suite.record.record import Outcome, Record
from suite.session.launches import devices
from suite.session.launches.launch import ROOT, interpreter, launch, variables
from tests.cuda.cells import DEVICE, PLAN
from tests.cuda.report import Report
from workloads.spec import specification

#: The longest that one launch may take, and the least time in which one is still begun.
LONGEST_S, LEAST_S = 180.0, 10.0
RESERVED = 1 / 3  # of the budget, for what runs alone
STARTING_S = 60.0  # the longest until a probe that runs on gives its first answer
#: How many run together: a framework needs about two cores to import and compile.
TOGETHER = int(os.environ.get("SUITE_CUDA_TOGETHER") or max(1, min(8, machine()["cores"] // 2)))
LOG_LINES = 40

#: What must be importable for a framework's cells; without it they are skipped.
NEEDS = {"pytorch": ("torch",), "tensorflow": ("tensorflow", "keras"), "jax": ("jax", "flax", "optax", "grain")}

Answers = dict[str, dict[str, Any]]
Found = TypeVar("Found")

# What the fixtures of these names give.
Launched = Callable[[Cell], Record]
Alike = Callable[[Sequence[Cell]], dict[str, Record]]
Probed = Callable[[str, str], dict[str, Any]]


class NotRunError(pytest.skip.Exception):
    """What there was no time or no framework for; other skips say what a device or a framework lacks."""


@dataclass(frozen=True)
class Probing:
    """A probe's process, the file of its answers, and its log."""

    process: subprocess.Popen[bytes]
    path: Path
    log: Path

    @property
    def answers(self) -> Answers:
        """What it answered so far: one line of JSON per check, of which the last may be half written."""
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True) if self.path.exists() else []
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return {answer.pop("check"): answer for answer in found}

    @property
    def said(self) -> list[str]:
        """The end of what it printed."""
        return [redact(line) for line in self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]]

    def wait_for_answer(self, within_s: float = STARTING_S) -> Answers:
        """Its first answer. Fails where none comes."""
        deadline_s = time.monotonic() + within_s
        while not (found := self.answers):
            assert self.process.poll() is None, "\n".join(self.said)
            assert time.monotonic() < deadline_s, f"no answer within {within_s:g} s"
            time.sleep(0.1)
        return found


class Launches:
    """Every cell and every probe is run at most once, and its result kept."""

    def __init__(self, report: Report, folder: Path, data: Mapping[str, Path], budget_s: float) -> None:
        self.report, self.folder, self.data, self.budget_s = report, folder, data, budget_s
        self._pool = ThreadPoolExecutor(TOGETHER, thread_name_prefix="launch")
        self._together: dict[Hashable, Future[Any]] = {}
        self._alone: dict[Hashable, Answers] = {}

    def begin(self, cells: Iterable[Cell]) -> None:
        """Launch these in the background."""
        for cell in cells:
            self.together(cell, partial(self._launch, cell))

    def together(self, key: Hashable, run: Callable[[], Found]) -> Future[Found]:
        """Have it run in the background, once."""
        if key not in self._together:
            self._together[key] = self._pool.submit(run)
        return self._together[key]

    def of(self, cell: Cell) -> Record:
        """The record of a cell that shares the device; skips without its framework or without time."""
        return self.together(cell, partial(self._launch, cell)).result()

    def alone(self, job: Job, name: str) -> Record:
        """A launch that has the device to itself."""
        self.wait()
        return self._launched(job, name, alone=True)

    def asked_alone(self, framework: str, probe: str, **asked: Any) -> Answers:
        """What a probe answered that had the device to itself."""
        if (framework, probe) not in self._alone:
            self.wait()
            self._alone[framework, probe] = self.ask(framework, probe, alone=True, **asked)
        return self._alone[framework, probe]

    def ask(self, framework: str, probe: str, alone: bool, **asked: Any) -> Answers:
        """Run a module of this folder with a framework's interpreter; its answers by the name of the check.

        Each has ``found``, ``unsupported`` or ``error``.
        """
        deadline_s, began = self.left_s(alone), time.monotonic()
        with self.probing(framework, probe, **asked) as probing:
            try:
                ended = f"ended with status {probing.process.wait(deadline_s)}"
            except subprocess.TimeoutExpired:
                ended = f"no end after {deadline_s:.0f} s"
        found, said = probing.answers, probing.said
        for check in asked["checks"]:
            found.setdefault(check, {"error": " | ".join([ended, *said[-5:]])})
        more: dict[str, Any] = {"log": said} if any("error" in answer for answer in found.values()) else {}
        self.report.note_launch(f"{probe} {framework}", time.monotonic() - began, alone, answers=found, **more)
        return found

    @contextlib.contextmanager
    def probing(self, framework: str, probe: str, **asked: Any) -> Iterator[Probing]:
        """A probe while it runs; in the end it is ended."""
        self.need(framework)
        scratch = self.folder / f"{probe}-{framework}"
        scratch.mkdir(exist_ok=True)
        path, log = scratch / "answers", scratch / "log"
        told = {"framework": framework, "device": DEVICE, "answers": str(path), **asked}
        told["data"] = {name: str(folder) for name, folder in self.data.items()}
        job = Job(Cell(WORKLOADS[0], framework), "", device=DEVICE)
        with log.open("wb") as output:
            running = subprocess.Popen(
                [interpreter(framework), "-m", f"tests.cuda.{probe}", json.dumps(told)],
                env=variables(job, str(scratch)), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        try:
            yield Probing(running, path, log)
        finally:
            end(running)

    def wait(self) -> None:
        """Until nothing of ours uses the device."""
        wait(self._together.values())

    def left_s(self, alone: bool, longest_s: float = LONGEST_S) -> float:
        """How long the next launch may take; skips where that is too little."""
        budget_s = self.budget_s if alone else (1 - RESERVED) * self.budget_s
        left = budget_s - self.report.seconds
        if left < LEAST_S:
            raise NotRunError(f"the budget of {budget_s:g} s is used up; raise it by SUITE_CUDA_BUDGET_S")
        return min(left, longest_s)

    def need(self, framework: str) -> None:
        """Skip without the framework."""
        if reason := lacks(framework):
            raise NotRunError(reason)

    def close(self) -> None:
        """Wait for what runs; begin nothing more."""
        self._pool.shutdown(cancel_futures=True)

    def _launch(self, cell: Cell) -> Record:
        job = Job(cell, str(self.data[specification(cell.workload).data]), device=DEVICE, plan=PLAN)
        return self._launched(job, cell.id, alone=False)

    def _launched(self, job: Job, name: str, alone: bool) -> Record:
        self.need(job.cell.framework)
        deadline_s, began = self.left_s(alone), time.monotonic()
        try:
            record = launch(job, self.folder / f"{name}.log", deadline_s)
        except Exception as error:  # whatever the parent's side has, the other launches go on
            record = Record(job.cell, Outcome("error", f"not launched: {redact(repr(error))}"))
        self.report.note_launch(name, time.monotonic() - began, alone, record)
        return record


def end(running: subprocess.Popen[Any]) -> None:
    """End a process that leads a session, and all that it started there."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()


@cache
def lacks(framework: str) -> str:
    """What is missing for the framework's cells, in words; empty where nothing is."""
    code = "import sys; from importlib.util import find_spec; print(*[n for n in sys.argv[1:] if not find_spec(n)])"
    command = [interpreter(framework), "-c", code, *NEEDS[framework]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        return f"{framework}'s interpreter failed: {redact(done.stderr.strip().splitlines()[-1])}"
    if missing := ", ".join(done.stdout.split()):
        return f"{framework} is not all there; not installed: {missing}"
    return devices.cuda_problem({framework: interpreter(framework)}) if DEVICE == "cuda" else ""

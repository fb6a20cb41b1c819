"""The parent's side of a launch: choose the interpreter, spawn the worker, listen, and leave nothing behind.

Imports no framework. The worker gets a process group of its own, a private pipe for its results, a log for
all that it prints, a scratch folder for compiler caches (so that every launch compiles from cold), and a deadline.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from suite.cell import WORKLOADS, Cell
from suite.environment import redact
from suite.frameworks import ALLOCATOR, VARIABLES
from suite.job import Job
from suite.monitor.sampler import Monitor
from suite.record import SCHEMA, Outcome, Record, RecordError

ROOT = Path(__file__).resolve().parent.parent
GRACE_S = 10.0  # how long a worker may take to end after its last word
LOG_LINES = 40
LOG_BYTES = 1 << 14

Progress = Callable[[dict[str, Any]], None]
Watch = Callable[[int, float], Monitor | None]


class LaunchError(RuntimeError):
    """Nothing could be launched; one line that names the way out."""


class LateError(LaunchError):
    """What was launched gave no answer in the time that it had."""


def interpreter(framework: str) -> str:
    """The Python that has this framework: ``SUITE_PYTHON_<FRAMEWORK>``, else the running one."""
    name = f"SUITE_PYTHON_{framework.upper()}"
    chosen = os.environ.get(name)
    if not chosen:
        return sys.executable
    found = shutil.which(chosen)
    if not found:
        raise LaunchError(f"{name} is {chosen!r}, which is no program; set it to a Python that has {framework}")
    return str(Path(found).absolute())  # the worker starts in another folder


def launch(
    job: Job, log: Path, deadline_s: float = 900.0, progress: Progress = lambda _: None, watch: Watch | None = None
) -> Record:
    """Run one job in a fresh process and return what it found, however it ended.

    ``progress`` is called with each of the worker's progress messages; ``watch`` may make the `Monitor` of a
    worker from its process id and the moment it was spawned, in seconds of the monotonic clock. Raises `LaunchError`
    where the process cannot be spawned, and passes on KeyboardInterrupt after ending the whole process tree.
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    parts: dict[str, Any] = {"cell": job.cell.to_json(), "launch": job.launch, "started": started}
    with (
        tempfile.TemporaryDirectory(prefix="suite-") as scratch,
        _spawned(job, log, scratch) as (worker, pipe, spawned_s),
    ):
        monitor = watch(worker.pid, spawned_s) if watch else None
        with monitor or contextlib.nullcontext():
            ended = _listen(worker, pipe, parts, time.monotonic() + deadline_s, progress)
    if "outcome" not in parts:
        outcome = _exit_outcome(worker) if ended else Outcome("timeout", f"no end after {deadline_s:g} s")
        parts["outcome"] = vars(outcome)
    try:
        record = Record.from_json({"schema": SCHEMA, **parts})
    except RecordError as error:
        record = Record(job.cell, Outcome("error", f"bad record: {error}"), job.launch, started)
    if record.outcome.ok:
        record = replace(record, flags=() if record.phases["train"].steady else ("unsteady",))
        return monitor.noted(record) if monitor else record
    return replace(record, log=tuple(redact(line) for line in _tail(log)))


def variables(job: Job, scratch: str) -> dict[str, str]:
    """The worker's environment: the caller's, what its framework needs, and nothing that a launch could inherit."""
    found = ALLOCATOR | dict(os.environ)
    found.pop("PYTHONHOME", None)
    found.pop("JAX_COMPILATION_CACHE_DIR", None)
    found["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    found |= VARIABLES[job.cell.framework]
    found |= {"TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor", "TRITON_CACHE_DIR": f"{scratch}/triton"}
    if job.device == "cpu":
        found |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    # CUDA then counts devices as NVML does, so that what is watched is what is used.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} | found


def ask(framework: str, module: str, arguments: list[str], timeout_s: float | None = None) -> Any:
    """Run a module of the suite with the framework's interpreter and return what it answered.

    The module gets ``--answer FILE`` besides its arguments and writes JSON there. Raises `LaunchError`, with the last
    line of what the module said, where it failed, and `LateError` after ``timeout_s``.
    """
    job = Job(Cell(WORKLOADS[0], framework), "")
    with tempfile.TemporaryDirectory(prefix="suite-") as scratch:
        answer = Path(scratch, "answer.json")
        command = [interpreter(framework), "-m", module, *arguments, "--answer", str(answer)]
        streams: dict[str, Any] = {"capture_output": True, "text": True, "errors": "replace"}
        try:
            done = subprocess.run(
                command, env=variables(job, scratch), cwd=ROOT, check=False, timeout=timeout_s, **streams
            )
        except subprocess.TimeoutExpired:
            raise LateError(f"{module} gave no answer for {framework} in {timeout_s:g} s") from None
        if done.returncode or not answer.exists():
            last = (done.stderr.strip().splitlines() or ["nothing was said"])[-1]
            raise LaunchError(f"{module} failed for {framework}: {redact(last)}")
        return json.loads(answer.read_text())


@contextlib.contextmanager
def _spawned(job: Job, log: Path, scratch: str) -> Iterator[tuple[subprocess.Popen[bytes], int, float]]:
    python = interpreter(job.cell.framework)
    log.parent.mkdir(parents=True, exist_ok=True)
    read_end, write_end = os.pipe()
    try:
        with log.open("wb") as output:
            spawned_ns = time.perf_counter_ns()
            text = replace(job, spawned_ns=spawned_ns).dumps()
            worker = subprocess.Popen(
                [python, "-m", "suite.worker", str(write_end), text],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=[write_end],
                env=variables(job, scratch), cwd=ROOT, start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        os.close(read_end)
        raise LaunchError(f"cannot start {python}: {error.strerror}") from None
    finally:
        os.close(write_end)
    try:
        yield worker, read_end, spawned_ns / 1e9
    finally:
        os.close(read_end)
        end_tree(worker)


def _listen(
    worker: subprocess.Popen[bytes], pipe: int, parts: dict[str, Any], deadline: float, progress: Progress
) -> bool:
    """Collect parts until the worker has ended; False when the deadline came first.

    Waits on the pipe and on the process at once: children of the worker may hold the pipe open after its death.
    """
    process = os.pidfd_open(worker.pid)
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        selector.register(process, selectors.EVENT_READ)
        try:
            while (left := deadline - time.monotonic()) > 0:
                ready = {key.fd for key, _ in selector.select(left)}
                if pipe in ready:
                    received = os.read(pipe, 1 << 16)
                    if not received:
                        selector.unregister(pipe)
                    *lines, pending = (pending + received).split(b"\n")
                    for line in lines:
                        _take(line, parts, progress)
                    if "outcome" in parts:
                        deadline = min(deadline, time.monotonic() + GRACE_S)
                elif process in ready:
                    return True
            return False
        finally:
            os.close(process)


def _take(line: bytes, parts: dict[str, Any], progress: Progress) -> None:
    """Take in one line; what is not the worker's own, as libraries write it to descriptors they find, is left out."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return
    if not isinstance(message, dict):
        return
    if isinstance(message.get("part"), dict):
        parts.update(message["part"])
    elif isinstance(message.get("progress"), str):
        progress(message)


def end_tree(worker: subprocess.Popen[bytes]) -> None:
    """End the worker, its process group, and descendants that left the group."""
    descendants: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess):
        descendants = psutil.Process(worker.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker.pid, signal.SIGKILL)
    for process in descendants:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    worker.wait()


def _exit_outcome(worker: subprocess.Popen[bytes]) -> Outcome:
    code = worker.wait()
    if code >= 0:
        return Outcome("crashed", f"ended with exit status {code} and no result")
    known = {number.value: number.name for number in signal.Signals}
    return Outcome("crashed", f"ended by signal {known.get(-code, -code)}")


def _tail(log: Path) -> list[str]:
    """The last lines, of a log that may be of any length."""
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_BYTES))
        return file.read().decode(errors="replace").splitlines()[-LOG_LINES:]
    return []

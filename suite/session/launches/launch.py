"""The parent's side of a launch: choose the interpreter, spawn the worker, listen, and leave nothing behind.

Imports no framework. The worker gets its own process group, a tag that identifies all its processes, a private pipe
for its results, a log for everything it prints, a scratch folder for temporary files and compiler caches (so that every
launch compiles from cold), and a deadline.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from framework_training_suite import CommandError, has
from suite.catalog.devices import has_gpu
from suite.catalog.frameworks import FRAMEWORKS
from suite.monitor.sampler import Monitor
from suite.plan.cell import WORKLOADS, Cell
from suite.plan.settings import allocators
from suite.plan.settings.frameworks import cache_variables, interpreter_variable, too_old, variables_of
from suite.plan.settings.strategies import why_not_cached, why_not_saved, why_not_served
from suite.plan.settings.tunings import host_memory
from suite.record.job import HostRanks, Job
from suite.record.parts.environment import machine, redact, select_variables
from suite.record.record import REASON_MOST, SCHEMA, Outcome, Record, RecordError
from suite.record.scratch import scratch
from suite.record.text import clean
from suite.record.variables import PROCESS_TAG
from suite.session.launches import cleanup, logs, ranks
from suite.session.launches.listener import Progress, Workers
from suite.session.launches.namespace import NamespaceError

ROOT = Path(__file__).resolve().parents[3]
SHORT_PLACE = 50  # letters that a temporary folder's name may have, so that sockets fit into it (108 on Linux)

#: Gets the id of the worker, or those of all ranks, and when they were spawned.
Watch = Callable[[Any, float], Monitor | None]


class LaunchError(CommandError, RuntimeError):
    """Nothing could be launched; one line that names the way out."""


class LateError(LaunchError):
    """The process gave no answer before its deadline."""


def interpreter(framework: str, release: str = "", device: str = "auto") -> str:
    """The Python that has this framework: ``SUITE_PYTHON_<FRAMEWORK>``, else the running one, else that of tox.

    A release is in an interpreter of its own. Raises `LaunchError`.
    """
    name = interpreter_variable(framework, release)
    setting = os.environ.get(name)
    if not setting and release:
        build = f"training-suite releases {framework} --build {release}"
        raise LaunchError(f"{name}, the Python with {framework} {release}, is not set; `{build}` makes one")
    if not setting:
        made = tox_environment(framework, device)
        return str(ROOT / made / "bin" / "python") if made else sys.executable
    program = shutil.which(setting)
    if not program:
        raise LaunchError(f"{name} is {setting!r}, which is not a program; set it to a Python that has {framework}")
    return str(Path(program).absolute())  # the worker starts in another folder


def tox_environment(framework: str, device: str = "auto") -> str:
    """The environment in this checkout in which tox installed a framework; empty where another one has it.

    It is used where no variable names an interpreter and the running one lacks the framework.
    """
    package = FRAMEWORKS[framework].package
    if os.environ.get(interpreter_variable(framework)) or ((spec := find_spec(package)) and spec.origin):
        return ""
    kinds = ("cuda", "cpu") if device != "cpu" and has_gpu() else ("cpu", "cuda")
    places = (f".tox/{framework}-{kind}" for kind in kinds)
    return next(
        (place for place in places if (ROOT / place / "bin/python").exists() and has(ROOT / place, package)), ""
    )


def launch(
    job: Job, log: Path, deadline_s: float = 900.0, progress: Progress = lambda _: None, watch: Watch | None = None,
    *, tick: Callable[[], None] = lambda: None, part: HostRanks | None = None,
) -> Record:  # fmt: skip
    """Run one job in fresh processes, one or a few ranks, and return its record, however it ended.

    With a ``part``, only some ranks run on this host; a record of a part without rank 0 says how its ranks ended.

    ``progress`` is called with each of the worker's progress messages, and ``tick`` about once a second without one.
    ``watch`` may return a `Monitor` for the ranks, given their process ids and the moment they were spawned, in seconds
    of the monotonic clock. Raises `LaunchError` if the process cannot be spawned or watched, and passes on
    KeyboardInterrupt after ending the whole process tree.
    """
    serves, saves = ((asked and not job.cell.recipe) for asked in (job.plan.serves, job.plan.saves))
    lacking = (serves and why_not_served(job.cell)) or (saves and why_not_saved(job.cell)) or ""
    lacking = lacking or (saves and part and "checkpoints are measured on one host") or why_not_cached(job.cell)
    if reason := too_old(job.cell.framework, job.cell.release) or lacking:
        return _unsupported_record(job, reason)
    if reason := ranks.impossible(job.cell, job.device, part):
        return _unsupported_record(job, reason)
    try:
        with contextlib.ExitStack() as until:
            inside = ranks.network(job, part, until)
            for _ in range(ranks.PORT_TRIES):
                record = _launch(job, log, deadline_s, progress, watch, tick=tick, part=part, inside=inside)
                if job.cell.processes == 1 or part or not ranks.port_taken(record):
                    break
    except NamespaceError as error:
        return _unsupported_record(job, str(error))
    except OSError as error:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        full = f"; this process may open {most} (`ulimit -n`)" if error.errno in cleanup.NO_FILE else ""
        raise LaunchError(f"cannot go on with a launch of {job.cell.id}: {clean(error)}{full}") from None
    return record


def _unsupported_record(job: Job, reason: str) -> Record:
    environment = {"machine": machine(), "variables": select_variables(variables(job, ""))}
    return Record(job.cell, Outcome("unsupported", reason), job.launch, environment=environment)


def _launch(
    job: Job, log: Path, deadline_s: float, progress: Progress, watch: Watch | None, *, tick: Callable[[], None],
    part: HostRanks | None, inside: list[str],
) -> Record:  # fmt: skip
    started = datetime.now(UTC).isoformat(timespec="seconds")
    parts: dict[str, Any] = {"cell": job.cell.to_json(), "launch": job.launch, "started": started}
    with scratch_folder() as folder, _spawn(job, log, folder, part, inside) as (workers, pipes, spawned_s):
        pids = [worker.pid for worker in workers] if job.cell.processes > 1 else workers[0].pid
        monitor = watch(pids, spawned_s) if watch else None
        with monitor or contextlib.nullcontext():
            listening = Workers(parts, progress, tick, part, spawned_s)
            for rank, (worker, pipe) in enumerate(zip(workers, pipes, strict=True)):
                listening.add(worker, pipe, ranks.log_of(log, rank))
            log = listening.listen(deadline_s).log
    if isinstance(ledger := parts.get("ledger"), dict):
        listener = listening.members[0].listener
        ledger |= {"seen_s": listener.seen_s, "late_s": listener.late_s}
    logs.cut(log)
    try:
        record = Record.from_json({"schema": SCHEMA, **parts})
    except RecordError as error:
        record = Record(job.cell, Outcome("error", f"bad record: {error}"), job.launch, started)
    record = replace(record, outcome=replace(record.outcome, reason=clean(record.outcome.reason, REASON_MOST)))
    if record.outcome.ok:
        record = replace(record, flags=() if record.phases["train"].steady else ("unsteady",))
        return monitor.annotate(record) if monitor else record
    environment = record.environment or {"machine": machine(), "variables": select_variables(variables(job, ""))}
    return replace(record, environment=environment, log=tuple(map(redact, logs.tail(log))))


def variables(job: Job, scratch: str) -> dict[str, str]:
    """The worker's environment: the caller's, plus what its framework needs, minus caches that outlive a launch."""
    environment = host_memory(job.cell) | dict(os.environ)
    environment.pop("PYTHONHOME", None)
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    environment = allocators.variables(job.cell, environment | variables_of(job.cell))
    environment |= {"TORCHINDUCTOR_CACHE_DIR": f"{scratch}/inductor", "TRITON_CACHE_DIR": f"{scratch}/triton"}
    environment |= cache_variables(job.cell, job.cache, environment)
    if len(scratch) <= SHORT_PLACE:
        environment["TMPDIR"] = scratch
    if job.device == "cpu":
        environment |= {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}
    # CUDA then numbers devices as NVML does, so that the monitored device is the one in use.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"} | environment


def ask(
    framework: str, module: str, arguments: list[str], timeout_s: float | None = None, workload: str = WORKLOADS[0]
) -> Any:
    """Run a module of the suite with the framework's interpreter, as for a launch of this workload; return its answer.

    The module gets ``--answer FILE`` besides its arguments and writes JSON there. Raises `LaunchError`, with the last
    line of the module's output, if it failed, and `LateError` after ``timeout_s``.
    """
    job = Job(Cell(workload, framework), "")
    with scratch_folder() as folder:
        answer, output = Path(folder, "answer.json"), Path(folder, "said")
        command = [interpreter(framework), "-m", module, *arguments, "--answer", str(answer)]
        with _start(command, job, folder, output, ()) as process:
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                raise LateError(f"{module} gave no answer for {framework} within {timeout_s:g} s") from None
        try:
            if not process.returncode:
                return json.loads(answer.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            pass
        last_line = (logs.tail(output) or ["it printed nothing"])[-1]
        raise LaunchError(f"{module} failed for {framework}: {clean(redact(last_line))}")


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """A folder for temporary files, removed on exit. Raises `LaunchError`."""
    folder = contextlib.ExitStack()
    try:
        path = folder.enter_context(scratch(before_removal=cleanup.end_abandoned))
    except OSError as error:
        raise LaunchError(f"no folder for temporary files: {error.strerror}; set TMPDIR to one") from None
    with folder:
        yield str(path)


@contextlib.contextmanager
def _spawn(
    job: Job, log: Path, scratch: str, part: HostRanks | None = None, inside: Sequence[str] = ()
) -> Iterator[tuple[list[subprocess.Popen[bytes]], list[int], float]]:
    """The workers of a job, one for each rank, their pipes, and when they were spawned, by the monotonic clock.

    ``inside`` are the words before a command that run it in another network.
    """
    python = interpreter(job.cell.framework, job.cell.release, job.device)
    environments = ranks.environments(job.cell, job.device, part)
    spawned_ns, tag = time.perf_counter_ns(), cleanup.new_tag()
    job = replace(job, cache=job.cache or f"{scratch}/cache" * bool(job.cell.cache))
    text = replace(job, spawned_ns=spawned_ns).dumps()
    workers, pipes = [], []
    with contextlib.ExitStack() as opened:
        for rank, own in enumerate(environments):
            read_end, write_end = os.pipe()
            opened.callback(os.close, read_end)
            try:
                command = [*inside, python, "-m", "suite.worker.process", str(write_end), text]
                place = ranks.log_of(log, rank)
                workers.append(
                    opened.enter_context(_start(command, job, scratch, place, (write_end,), own=own, tag=tag))
                )
            finally:
                os.close(write_end)
            pipes.append(read_end)
        yield workers, pipes, spawned_ns / 1e9


@contextlib.contextmanager
def _start(
    command: list[str],
    job: Job,
    scratch: str,
    log: Path,
    descriptors: tuple[int, ...],
    *,
    own: Mapping[str, str] = MappingProxyType({}),
    tag: str = "",
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in its own group that prints into the log; on exit, all of its processes are ended."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        # Appending, so that it can be cut meanwhile; an earlier try's output is dropped.
        output = os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644), "wb")
    except OSError as error:
        raise LaunchError(
            f"cannot write the log {log}: {error.strerror}; choose another folder with --journals"
        ) from None
    with output:
        try:
            tag = tag or cleanup.new_tag()
            cleanup.write_tag(tag, Path(scratch))
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, pass_fds=descriptors,
                env=variables(job, scratch) | {**own, PROCESS_TAG: tag}, cwd=ROOT, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise LaunchError(f"cannot start {command[0]}: {error.strerror}") from None
    try:
        yield process
    finally:
        end_tree(process, tag)


def end_tree(process: subprocess.Popen[bytes], tag: str) -> None:
    """End a process, its process group, its descendants, and every process that bears its tag."""
    descendants: list[psutil.Process] = []
    with contextlib.suppress(psutil.NoSuchProcess, OSError):  # no file is left: the tag finds them
        descendants = psutil.Process(process.pid).children(recursive=True)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for descendant in descendants:
        with contextlib.suppress(psutil.NoSuchProcess, OSError):
            descendant.kill()
    process.wait()
    cleanup.end_processes(tag, [process.pid, *(descendant.pid for descendant in descendants)])

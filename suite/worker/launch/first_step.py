"""The first step of what will be timed, and the compiling before it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from suite.catalog.frameworks import FRAMEWORKS
from suite.record.handover.job import Job
from suite.worker import interfaces
from suite.worker.evidence.subject import Subject
from suite.worker.launch.outcome import check


def loads_program(subject: Subject, job: Job) -> bool:
    """Whether the launch takes the program that the replay of its cell's first launch compiled and ran.

    On a CPU, where a compiler that chooses by rules makes the same program each time. On a GPU compilers choose kernels
    by trying them, so that processes differ, and each compiles for itself.
    """
    cell = subject.cell
    alone = not (job.profile or subject.recipe or subject.team)
    rules = interfaces.native(cell) and cell.compile in FRAMEWORKS[cell.framework].keeps
    return job.reuses and alone and rules and subject.device == "cpu" and bool(subject.programs)


def take_first_step(training: Any, batch: Any, subject: Subject, job: Job, send: Callable[..., None]) -> float | None:
    """Compile, and make a step unless the cell trains to its end; sends the seconds.

    Returns those of compiling, None where they cannot be told.
    """
    send(progress="first step")
    loads = loads_program(subject, job)
    start = time.perf_counter()
    with subject.programs_kept("exact") if loads else nullcontext():
        compiled = training.compile(batch)
    compile_s = time.perf_counter() - start if compiled and not loads else None
    send(part={"compile_s": compile_s})
    if subject.recipe:
        return compile_s
    loss = training.step(batch)
    training.fence(loss)
    if subject.team:
        subject.framework.reset_memory(subject.device)  # of building a part of a model, and of cuDNN's trials
    send(part={"loaded_s" if loads else "first_step_s": time.perf_counter() - start})
    check([loss], training, "the first step")
    return compile_s

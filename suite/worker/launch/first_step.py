"""The first step of what will be timed, and the compiling before it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from suite.worker.evidence.subject import Subject
from suite.worker.launch.outcome import check


def take_first_step(training: Any, batch: Any, subject: Subject, send: Callable[..., None]) -> float | None:
    """Compile, and make a step unless the cell trains to its end; sends the seconds.

    Returns those of compiling, None where that cannot be timed by itself. Every launch compiles: one that loads what
    another compiled trains at another speed (docs/method.md).
    """
    send(progress="first step")
    start = time.perf_counter()
    compiled = training.compile(batch)
    compile_s = time.perf_counter() - start if compiled else None
    send(part={"compile_s": compile_s})
    if subject.recipe:
        return compile_s
    loss = training.step(batch)
    training.fence(loss)
    if subject.team:
        subject.framework.reset_memory(subject.device)  # of building a part of a model, and of cuDNN's trials
    send(part={"first_step_s": time.perf_counter() - start})
    check([loss], training, "the first step")
    return compile_s

"""Searches in this process with a stand-in for the launcher: cells are as fast as a test says, with some noise."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from suite.analysis.search.elimination import Elimination
from suite.analysis.search.state import Race
from suite.plan.cell import Cell
from suite.plan.objective import Question
from suite.record.job import Job
from suite.record.parts.history import Epoch, TrainingHistory
from suite.record.record import Outcome, Phase, Record, Window
from tests import records

#: The standard deviation of the logarithm of a launch's throughput.
NOISE = 0.02

#: What becomes of a launch: its throughput in samples/s, or an outcome that is not ok.
Behaviour = Callable[[Cell, int], "float | Outcome"]


def launched(cell: Cell, number: int, rate: float, memory: float = 1e9, windows: int = 1, **changes: Any) -> Record:
    """A launch that ended well at this throughput, with proof of identity and the peak memory in bytes."""
    own = {
        "workload": cell.workload, "precision": cell.precision, "batch": cell.batch, "compile": cell.compile,
        "loader": cell.loader, "size": cell.size, "accumulate": cell.accumulate,
    }  # fmt: skip
    made = records.record(cell.framework, number, **own)
    step = Phase((Window(20, 20 * cell.effective_batch / rate),) * windows)
    changes = {"startup": {}, "compile_s": None, "first_step_s": None} | changes  # which would take their time
    if cell.recipe and "course" not in changes:
        seconds = 1000 / rate
        epochs = tuple(Epoch(4, 1.5, seconds, 1.4, accuracy, 0.5) for accuracy in (0.82, 0.87 + 0.001 * (number % 3)))
        changes["course"] = TrainingHistory(cell.recipe, 2, 0.8, epochs)
    if course := changes.get("course"):
        step = Phase(tuple(Window(epoch.steps, epoch.train_s) for epoch in course.epochs))
    return replace(made, cell=cell, phases={"train": step}, memory={"rss_peak_bytes": int(memory)}, **changes)


@dataclass
class Launcher:
    """Stands in for `suite.session.run.launch`. ``made`` lists what it launched."""

    behave: Behaviour
    memory: Callable[[Cell], float] = lambda _: 1e9
    made: list[tuple[Cell, int]] = field(default_factory=list)
    stop_after: int | None = None
    flags: tuple[str, ...] = ()

    def __call__(self, job: Job, *_: Any, **__: Any) -> Record:
        if self.stop_after is not None and len(self.made) >= self.stop_after:
            raise KeyboardInterrupt
        self.made.append((job.cell, job.launch))
        found = self.behave(job.cell, job.launch)
        if isinstance(found, Outcome):
            return Record(job.cell, found, job.launch)
        draw = random.Random(f"{job.cell.id}#{job.launch}").gauss(0, NOISE)
        rate, memory = found * math.exp(draw), self.memory(job.cell)
        return launched(job.cell, job.launch, rate, memory, job.plan.windows, flags=self.flags)


def raced(cells: Sequence[Cell], launcher: Launcher, question: Question | None = None, budget: int = 10_000) -> Race:
    """The race of these cells, launched by the stand-in, at most so often."""
    referee = Elimination(tuple(cells), question or Question())
    while not (state := referee.race()).over and state.launches < budget:
        referee.add(launcher(Job(state.due[0], "", state.blocks)))
    return state


def arguments(folder: Path, *more: str) -> list[str]:
    """A search of eight cells, whose axes ``more`` replaces, with all that it writes in a folder of the test's own."""
    axes = {"--framework": "pytorch,jax", "--batch": "32,128", "--precision": "fp32,bf16"}
    given = {each.partition("=")[0] for each in more}
    space = ["--workload", "imdb_lstm", *(f"{name}={values}" for name, values in axes.items() if name not in given)]
    space += ["--compile", "usual", "--loader", "tuned", "--data", "synthetic", "--device", "cpu", "--no-probe"]
    places = [f"--{name}={folder / name}" for name in ("journals", "storage", "output")]
    return [*space, *places, *more]


def usual_rate(cell: Cell, _: int = 0) -> float:
    """PyTorch is fastest in bf16 at batch 128; JAX in fp32 at batch 128."""
    rate = 1000.0 if cell.framework == "pytorch" else 700.0
    rate *= {"fp32": 1.0, "bf16": 1.3 if cell.framework == "pytorch" else 0.2}[cell.precision]
    return rate * (1.2 if cell.batch == 128 else 1.0)


def cells(
    frameworks: Iterable[str] = ("pytorch", "jax"), precisions: Iterable[str] = ("fp32", "bf16"),
    batches: Iterable[int] = (32, 128),
) -> list[Cell]:  # fmt: skip
    return [
        Cell("imdb_lstm", framework, precision=precision, batch=batch)
        for framework in frameworks
        for precision in precisions
        for batch in batches
    ]

"""Checkpoints of a launch, after the windows of training: what a save costs, and whether training goes on from it.

Windows of steps take turns, with one save at their begin and without; a window ends when its save is whole. Then some
saves are timed by themselves, and one is read back. Every save goes to a new name and is renamed when it is whole;
only then the one before is removed, so that whatever ends the process leaves one that can be read.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Any

from suite.catalog.phases import PHASES
from suite.record.job import Job
from suite.record.parts.checkpoints import ASYNCHRONOUS, NAMED_MOST, SAVES, STEPS, Checkpoints
from suite.worker.distributed.ranks import ALONE, Ranks
from suite.worker.frameworks import RecompiledError
from suite.worker.launch.measure import Series, Steps, in_turns
from suite.worker.launch.phases import (
    Measured,
    Send,
    Timed,
    collect_phases,
    fit_plan,
    say_window,
    send_phases,
    training_steps,
)
from suite.worker.launch.training import CheckpointError, digests_of

#: How the name of a save ends that is not whole yet.
PARTIAL = ".partial"


class Shelf:
    """A folder with the newest checkpoint that is whole, and the one that is being written."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def begun(self) -> Path:
        """Where the next one is written."""
        return self.folder / f"{self.number + 1}{PARTIAL}"

    def commit(self) -> None:
        """Give what is written its name."""
        self.begun.rename(self.folder / str(self.number + 1))
        self.number += 1

    def clear(self) -> None:
        """Remove all but the newest."""
        for path in self.folder.iterdir():
            if path.name.isdecimal() and int(path.name) < self.number:
                shutil.rmtree(path)


def newest(folder: Path) -> Path | None:
    """The newest checkpoint of a folder that is whole; None without any."""
    whole = [path for path in folder.iterdir() if path.name.isdecimal()]
    return max(whole, key=lambda path: int(path.name), default=None)


class Saving:
    """Saves of a training in one way, to a folder of this rank's own; ``shared`` is that of rank 0."""

    def __init__(self, saver: Any, folder: Path, shared: Path) -> None:
        self.saver, self.shelf, self.shared = saver, Shelf(folder), shared
        self.waited_s: list[float] = []

    def begin(self) -> None:
        """Save; returns when training may go on."""
        self.saver.save(self.shelf.begun)

    def end(self) -> None:
        """Wait until the save is whole, and let it take the place of the one before."""
        start = time.perf_counter()
        self.saver.wait()
        self.shelf.commit()
        self.shelf.clear()
        self.waited_s.append(time.perf_counter() - start)

    def save(self) -> tuple[float, float]:
        """One save by itself: the seconds until training may go on, and until it is on the disk."""
        start = time.perf_counter()
        self.begin()
        begun_s = time.perf_counter() - start
        self.saver.wait()
        self.shelf.commit()
        for path in self._files():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        disk_s = time.perf_counter() - start
        self.shelf.clear()
        return begun_s, disk_s

    def restore(self) -> None:
        own, shared = newest(self.shelf.folder), newest(self.shared)
        self.saver.restore(shared, own)

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self._files())

    def _files(self) -> list[Path]:
        whole = newest(self.shelf.folder)
        return [path for path in whole.rglob("*") if path.is_file()] if whole else []


def saved(timed: Timed) -> Steps:
    """Steps on batches that the device holds, after the begin of a save whose end they wait for."""
    steps, saving = unsaved(timed), timed.saving

    def run(count: int) -> None:
        saving.begin()
        steps(count)
        saving.end()

    return run


def unsaved(timed: Timed) -> Steps:
    """The same steps alone."""
    return training_steps(cycle(timed.held), timed.training, timed.last)


def measure_checkpoints(
    training: Any, before: Measured, *, job: Job, subject: Any, send: Send, ranks: Ranks = ALONE
) -> Measured:  # fmt: skip
    """Measure the plan's phases that save, and saves by themselves; sends both, and returns all phases so far.

    Raises `CheckpointError` where training would not go on as it was, after the record has it, and `RecompiledError`.
    """
    send(progress="checkpoint")
    compiled, updated = training.count_compiled(), subject.tools.updates(training)
    with _savings(training, job, ranks) as savings:
        series = _series(training, before.held, savings, job=job, send=send, ranks=ranks)
        plan = fit_plan(job.plan, training)
        for _ in in_turns([*series.values()], plan):
            send_phases(send, before.phases | collect_phases(series, job.spawned_ns))
        waited_s = {name: each.waited_s[-plan.windows :] for name, each in savings.items()}
        if training.count_compiled() != compiled:
            raise RecompiledError(f"compiled while saving: {compiled} before it, {training.count_compiled()} after")
        now = subject.tools.updates(training)
        ledger = before.ledger
        if now is not None and ledger.updates is not None:
            ledger = replace(ledger, updates=ledger.updates + now - (updated or 0))
        send(part={"ledger": asdict(ledger)})
        found = {
            name: _examine(training, each, before.held, waited_s=waited_s[name], send=send, ranks=ranks)
            for name, each in savings.items()
        }
    send(part={"checkpoints": {name: asdict(each) for name, each in found.items()}})
    if fault := next(filter(None, (each.fault for each in found.values())), ""):
        raise CheckpointError(fault)
    return before._replace(phases=before.phases | collect_phases(series, job.spawned_ns), ledger=ledger)


@contextmanager
def _savings(training: Any, job: Job, ranks: Ranks) -> Iterator[dict[str, Saving]]:
    """Each way of saving that the plan has a phase of; their folder is removed at the end."""
    module = import_module(f"suite.worker.frameworks.{job.cell.framework}.checkpoint")
    root = Path(job.checkpoint)
    with ExitStack() as until:
        until.callback(shutil.rmtree, root / str(ranks.rank), ignore_errors=True)
        savings = {}
        for name in (name for name in _taken(job, ranks) if name in module.WAYS):
            saver = module.Saver(training, name, ranks.rank)
            until.callback(saver.close)
            savings[name] = Saving(saver, root / str(ranks.rank) / name, root / "0" / name)
        yield savings
        ranks.barrier()  # until all have read


def _taken(job: Job, ranks: Ranks) -> list[str]:
    """The phases: several ranks save synchronously alone, as a thread would share their process group."""
    names = [name for name in job.plan.with_parts if PHASES[name].saves]
    return [name for name in names if ranks.world == 1 or name != ASYNCHRONOUS]


def _series(
    training: Any, held: Sequence[Any], savings: dict[str, Saving], *, job: Job, send: Send, ranks: Ranks
) -> dict[str, Series]:  # fmt: skip
    plan, series = fit_plan(job.plan, training), {}
    for name in _taken(job, ranks):
        timed = Timed(training, None, held, saving=savings.get(name))
        say = say_window(name, timed.last, training, job.cell.effective_batch, send)
        series[name] = Series(timed.steps(name), plan, say, ranks=ranks, begin=partial(send, begin=name))
    return series


def _examine(
    training: Any, saving: Saving, held: Sequence[Any], *, waited_s: list[float], send: Send, ranks: Ranks
) -> Checkpoints:  # fmt: skip
    """Time some saves by themselves, and read one back."""
    send(begin="saves")
    times = [saving.save() for _ in range(SAVES)]
    send(took="saves")
    save_s, disk_s = zip(*times, strict=True)
    return Checkpoints(
        saving.saver.way, saving.bytes, save_s, disk_s, tuple(waited_s),
        **prove(training, saving, held[:STEPS], ranks),
    )  # fmt: skip


def prove(training: Any, saving: Saving, batches: Sequence[Any], ranks: Ranks = ALONE) -> dict[str, Any]:
    """What a record says of a training that was saved, made a step with each batch, and was read back."""

    def go_on() -> tuple[float, ...]:
        return tuple(training.read([training.step(batch) for batch in batches]))

    was = digests_of(training.checkpoint())
    saving.begin()
    losses = go_on()
    moved = digests_of(training.checkpoint())
    saving.end()
    read_back = _reader(saving, ranks)
    read_back()
    now = digests_of(training.checkpoint())
    again = go_on()
    third: tuple[float, ...] = ()
    if again != losses:
        read_back()
        third = go_on()
    differing = sorted(name for name in {*was, *now} if was.get(name) != now.get(name))
    return {
        "arrays": len(was), "moved": sum(moved.get(name) != digest for name, digest in was.items()),
        "losses": losses, "again": again, "third": third, "differing": tuple(differing[:NAMED_MOST]),
    }  # fmt: skip


def _reader(saving: Saving, ranks: Ranks) -> Callable[[], None]:
    def read_back() -> None:
        ranks.barrier()  # all of them have saved
        saving.restore()

    return read_back

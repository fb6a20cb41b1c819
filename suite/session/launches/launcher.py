"""Runs the planned launches of a run on one host: makes the job, and searches for the batch where that is asked for."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from suite import __version__
from suite.plan import measuring
from suite.plan.cell import AUTO, Cell
from suite.plan.measuring import WARM_UP, Plan
from suite.record.job import Job
from suite.record.parts.environment import machine
from suite.record.record import Record
from suite.session.launches import batch_finder
from suite.session.launches.batch_finder import Fit
from suite.session.launches.machine import HostInfo, LaunchCallbacks
from suite.session.launches.settings import Settings
from suite.session.terminal import duration
from workloads.registry import folder_of


class Host(Protocol):
    """What runs one launch at a time: this machine, or hosts of a cluster."""

    @property
    def about(self) -> HostInfo:
        """What the host said of itself at first."""

    def launch(self, job: Job, log: Path, deadline_s: float, callbacks: LaunchCallbacks) -> Record:
        """Run one launch. Raises `suite.session.launches.launch.LaunchError`."""


@dataclass
class Launcher:
    """Runs launches on ``host``. ``info`` describes the run; ``fits`` are the batches that searches found, by cell.

    ``say`` prints a line, ``show`` a passing state, and ``tell`` tells observers.
    """

    settings: Settings
    info: dict[str, Any]
    host: Host
    say: Callable[[str], None]
    show: Callable[[str], None]
    tell: Callable[..., Any]
    fits: dict[Cell, Fit]
    stop: Callable[[], None] = lambda: None  # raises what ends a launch, when the run ends
    whole_blocks: int = measuring.WHOLE_BLOCKS  # in which launches have all phases
    _proved: set[Cell] = field(default_factory=set)  # cells of which a launch has the whole evidence
    _searching_s: float = 0.0  # of the current launch: the search for the largest batch

    def launch(self, cell: Cell, number: int, counter: str, position: int) -> tuple[Record, float]:
        """Run one launch; its record, and the seconds that went into the search for its batch.

        ``counter`` begins the lines about it, ``position`` counts the launches of the run.
        """
        settings, checkpoint = self.settings, self._checkpoint(cell, number)
        self._searching_s = 0.0
        job = self._job(cell, number, settings.plan.of_launch(number, self.whole_blocks))
        if cell.recipe or job.plan.saves:
            job = replace(job, checkpoint=str(checkpoint))
        job = self._with_profile(job, checkpoint)

        def start(job: Job) -> Record:
            if job.plan.saves:  # those of this launch that was interrupted, or of a larger batch
                shutil.rmtree(checkpoint, ignore_errors=True)
            due = job.cell not in self._proved or number % measuring.REPEAT == drawn_launch(cell, settings.seed)
            job = replace(job, full_evidence=due and job.plan != batch_finder.PLAN)  # tries are not kept
            record = self._start(job, counter, checkpoint.with_suffix(".log"))
            if cell.batch == AUTO:
                self.say(f"{counter} {cell.id}  batch {job.cell.batch}: {record.outcome.status}")
            return record

        try:
            record = self._launch_fitting(job, start) if cell.batch == AUTO else start(job)
        finally:
            if job.plan.saves:
                shutil.rmtree(checkpoint, ignore_errors=True)  # also that of a worker which was killed
        if record.outcome.ok and not job.plan.saves:
            _remove(checkpoint)
        record = replace(record, environment=record.environment or {"machine": machine()})
        return self.add_run(record, position), self._searching_s

    def _start(self, job: Job, counter: str, log: Path) -> Record:
        state = State(f"{counter} {job.cell.id}", self.show)
        self.tell("start", job.cell, job.launch)

        def progress(message: dict[str, Any]) -> None:
            state.progress(message)
            self.tell("progress", message)

        def tick() -> None:
            state.tick()
            self.stop()

        longest_s = measuring.LONGEST_TRAINING_S if job.cell.recipe else measuring.LONGEST_S
        callbacks = LaunchCallbacks(progress, tick, lambda monitor: self.tell("watch", monitor))
        record = self.host.launch(job, log, self.settings.deadline_s or longest_s, callbacks)
        if record.outcome.ok and job.full_evidence:
            self._proved.add(job.cell)
        return record

    def warm_up(self, cell: Cell, plan: Plan) -> Record:
        """Run a launch that is no part of the run; observers do not see it."""
        state = State(f"warming up  {cell.id}", self.show)
        log = self._checkpoint(cell, WARM_UP).with_suffix(".log")
        job = replace(self._job(cell, WARM_UP, plan), full_evidence=False)
        deadline_s = self.settings.deadline_s or measuring.LONGEST_S
        return self.host.launch(job, log, deadline_s, LaunchCallbacks(state.progress, state.tick))

    def _job(self, cell: Cell, number: int, plan: Plan) -> Job:
        settings = self.settings
        return Job(
            cell, "", number, self._seed(cell, number), settings.device, plan,
            memory_limit=settings.memory_limit, epochs=settings.epochs, target=settings.target,
            workload_folder=folder_of(cell.workload), trusted_network=settings.trusted_network,
        )  # fmt: skip

    def _with_profile(self, job: Job, checkpoint: Path) -> Job:
        """The job, with a profile where one is asked for."""
        settings = self.settings
        if not settings.profile or job.cell.recipe:
            return job
        job = replace(job, profile_memory=settings.profile_memory, profile_code=settings.profile_code)
        return replace(job, profile=True, traces=str(checkpoint.with_suffix("")))

    def add_run(self, record: Record, position: int) -> Record:
        """The record with the run that it belongs to, and the host that it ran on where there are several."""
        run = {
            "id": self.info["id"],
            "suite": __version__,
            "seed": self._seed(record.cell, record.launch),
            "plan": self.settings.plan.of_launch(record.launch, self.whole_blocks).to_json(),
            "block": record.block,
            "position": position,
            "launches": self.settings.launches,
        }
        others = {name: self.info.get(name) for name in ("design", "resumed", measuring.REPEATS)}
        others["host"] = self.host.about.name
        return replace(record, run=run | {name: value for name, value in others.items() if value})

    def _seed(self, cell: Cell, number: int) -> int:
        """Each launch that trains to its end has its own: the spread over seeds shows how certain an accuracy is."""
        return self.settings.seed + number % measuring.CONTROL if cell.recipe else self.settings.seed

    def _checkpoint(self, cell: Cell, number: int) -> Path:
        folder: Path = self.settings.journals / str(self.info["id"])
        return (folder / f"{cell.id}-launch{number}.checkpoint").absolute()

    def _launch_fitting(self, job: Job, start: Callable[[Job], Record]) -> Record:
        cell = job.cell
        job = replace(job, memory_limit=job.memory_limit or self.host.about.free_bytes)
        if cell not in self.fits:
            begin_s, trial = time.monotonic(), replace(job, plan=batch_finder.PLAN)
            fit = batch_finder.largest(lambda batch: start(replace(trial, cell=cell.but(batch=batch))))
            self.fits.setdefault(cell, fit)  # another host may have searched meanwhile: all launches have one batch
            self._searching_s = time.monotonic() - begin_s
        fit = self.fits[cell]
        while batch := fit.batch:
            record = start(replace(job, cell=cell.but(batch=batch)))
            if record.outcome.status != "out-of-memory":  # a crash or a timeout may have other reasons, and is kept
                return fit.annotate(record, cell)
            fit = self.fits[cell] = fit.less(record)  # it fit for some steps, not for all
        return fit.annotate(Record(cell, fit.outcome, job.launch), cell)


def drawn_launch(cell: Cell, seed: int) -> int:
    """The launch of a cell that has the whole evidence again, besides the first."""
    return random.Random(f"{seed}/{cell.id}/evidence").randrange(1, measuring.FIRST_LOOK)  # noqa: S311 - a choice, not a secret


@dataclass
class State:
    """Shows a launch's name, what its worker does, and for how long it has run; refreshed at least once a second."""

    name: str
    show: Callable[[str], None]
    doing: str = "starting"
    _begin_s: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.tick()

    def progress(self, message: dict[str, Any]) -> None:
        unit = f"{message.get('unit', 'samples')}/s"
        rate = f" {message['samples_per_s']:,.0f} {unit}" if "samples_per_s" in message else ""
        self.doing = f"{message['progress']}{rate}"
        self.tick()

    def tick(self) -> None:
        self.show(f"{self.name}  {self.doing}, {duration(time.monotonic() - self._begin_s)}")


def _remove(path: Path) -> None:
    if path.parent.is_dir():
        for file in path.parent.iterdir():
            if file == path or (file.name.startswith(f"{path.name}.") and file.suffix[1:].isdecimal()):
                file.unlink(missing_ok=True)

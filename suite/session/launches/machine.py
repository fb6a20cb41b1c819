"""The machine that this process runs on: launches are its children."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from suite.catalog.devices import has_gpu
from suite.catalog.settings import SETTINGS
from suite.monitor.gpu import Gpu, NvmlError, open_nvml
from suite.monitor.links import links
from suite.monitor.sampler import Monitor, idle
from suite.plan.cell import Cell
from suite.record.job import HostRanks, Job
from suite.record.parts.environment import machine, usable_cores
from suite.record.record import Record
from suite.session.launches import batch_finder
from suite.session.launches.launch import ROOT, LaunchError, ask, launch, scratch_folder
from workloads.spec import specification


@dataclass(frozen=True)
class LaunchCallbacks:
    """Who is told of a launch while it runs: of progress messages, and about once a second without one.

    What `tick` raises ends the launch. ``watch`` gets the monitor of a launch on this machine.
    """

    progress: Callable[[dict[str, Any]], None] = lambda _: None
    tick: Callable[[], None] = lambda: None
    watch: Callable[[Monitor], None] = lambda _: None


@dataclass(frozen=True)
class HostInfo:
    """What a host says of itself. ``name`` tells it from others and reveals nothing; it is empty for this machine.

    ``kind`` is its hardware in words: launches are compared only between hosts of one kind. ``free_bytes`` is the
    memory that a launch could take. ``devices`` are GPUs, or without one cores. ``suite`` is a `code_digest`,
    ``driver`` has versions of its GPUs' driver, and ``address`` is where other hosts reach it, as far as it knows.
    """

    name: str = ""
    kind: str = ""
    gpu: bool = False
    free_bytes: int = 0
    devices: int = 1
    suite: str = ""
    driver: dict[str, str] = field(default_factory=dict)
    address: str = ""


@dataclass
class Machine:
    """Launches here, with ``device``, and data of the kind ``source`` from ``directory``.

    ``say`` prints a line. What it opens, the GPUs too, is closed with ``until``.
    """

    device: str
    source: str
    directory: str | None
    say: Callable[[str], None]
    until: ExitStack
    about: HostInfo = field(init=False)
    _data: dict[str, Path] = field(default_factory=dict)
    _stored: set[tuple[str, str, str]] = field(default_factory=set)
    _programs: str = ""  # a folder for what launches compile for their evidence
    _caches: dict[Cell, str] = field(default_factory=dict)  # the folders of compile caches that are filled

    def __post_init__(self) -> None:
        self._driver: dict[str, str] = {}
        self._gpus, self._missing = self._open()
        self._idle = idle(self._gpus)
        gpu = self.device != "cpu" and has_gpu()
        devices = len(self._gpus) or (1 if gpu else usable_cores())  # one GPU at least, where NVML tells none
        kind = _hardware([each.name for each in self._gpus])
        self.about = HostInfo("", kind, gpu, batch_finder.free_memory(), devices, driver=self._driver)

    def _open(self) -> tuple[list[Gpu], str]:
        if self.device == "cpu":
            return [], "the run uses the CPU"
        gpus, missing = list[Gpu](), "CUDA_VISIBLE_DEVICES shows no whole device (a MIG slice has no readings here)"
        try:
            driver, gpus = self.until.enter_context(open_nvml())
            self._driver = dict(vars(driver))
        except NvmlError as error:
            missing = str(error)
        if gpus:
            return gpus, ""
        self.say(f"no GPU metrics: {missing}")
        return [], missing

    def folder(self, workload: str) -> Path:
        """Where the data of a workload is, which is fetched and verified the first time. Raises `DataError`."""
        from workloads.data.own import OWN, prepare_own  # NumPy, which what is mistyped does not wait for
        from workloads.data.prepare import prepare

        data = specification(workload).data
        name = workload if data == OWN else data
        if name not in self._data:
            if data == OWN:
                self._data[name] = prepare_own(workload, self.source, None, self.say)
            else:
                self._data[name] = prepare(name, self.source, self.directory, say=self.say)
        return self._data[name]

    def gather(self, workloads: Iterable[str], cells: Iterable[Cell]) -> None:
        """Fetch or make, and verify, what these read. Raises `DataError`."""
        for workload in workloads:
            self.folder(workload)
        for cell in cells:
            self.store(cell)

    def store(self, cell: Cell) -> None:
        """Make or verify the store of a cell's samples, the first time. Raises `DataError`."""
        key = (cell.workload, cell.format, cell.framework)
        if cell.format == SETTINGS["format"].default or key in self._stored:
            return
        from workloads.data.dataset import DataError

        folder = self.folder(cell.workload)
        self.say(f"{cell.workload}: samples in the format {cell.format} for {cell.framework}")
        arguments = ["--framework", cell.framework, "--folder", str(folder), "--format", cell.format]
        try:
            problem = ask(cell.framework, "suite.worker.loaders.storing", arguments, workload=cell.workload)
        except LaunchError as error:
            raise DataError(str(error)) from None
        if problem:
            raise DataError(problem)
        self._stored.add(key)

    def launch(
        self, job: Job, log: Path, deadline_s: float, callbacks: LaunchCallbacks, part: HostRanks | None = None
    ) -> Record:
        """Run one launch, watched by a monitor of its processes and of as many GPUs as it has devices here.

        The folders ``data`` and ``programs`` of the job are filled in; with a ``part`` it has ranks on other hosts too.
        """
        self._programs = self._programs or self.until.enter_context(scratch_folder())
        self.store(job.cell)
        job = replace(job, data=str(self.folder(job.cell.workload)), programs=self._programs)
        devices = part.count if part else job.cell.devices
        if job.cell.cache == "warm":
            job, failed = self._warm(job, log, deadline_s, callbacks)
            if failed:
                return failed

        def watch(pids: int | Sequence[int], spawned_s: float) -> Monitor:
            monitor = Monitor(pids, spawned_s, self._gpus, self._idle, self._missing, devices=devices)
            callbacks.watch(monitor)
            return monitor

        record = launch(job, log, deadline_s, callbacks.progress, watch, tick=callbacks.tick, part=part)
        if self._driver:  # which may be updated before a run goes on
            record = replace(record, environment=record.environment | {"driver": self._driver})
        if record.ranks and self._gpus:
            linked = tuple(links(self._gpus[:devices]))
            record = replace(record, ranks=replace(record.ranks, links=linked))
        return record

    def _warm(
        self, job: Job, log: Path, deadline_s: float, callbacks: LaunchCallbacks
    ) -> tuple[Job, Record | None]:  # fmt: skip
        """The job with a compile cache that a launch of its cell has filled, and that launch's record if it failed.

        It is not recorded, and has as few steps as a launch can have.
        """
        folder = self._caches.get(job.cell) or f"{self._programs}/cache{len(self._caches)}"
        if job.cell not in self._caches:
            filling = replace(
                job, cell=job.cell.but(cache="cold"), cache=folder, plan=batch_finder.PLAN, full_evidence=False,
                profile=False,
            )  # fmt: skip
            record = launch(filling, log, deadline_s, callbacks.progress, tick=callbacks.tick)
            if not record.outcome.ok:
                shutil.rmtree(folder, ignore_errors=True)
                return job, replace(record, cell=job.cell)
            self._caches[job.cell] = folder
        return replace(job, cache=folder), None


def _hardware(gpus: Sequence[str]) -> str:
    facts = machine()
    model = ", ".join(f"{name} {facts[name]}" for name in ("family", "model", "stepping") if name in facts)
    processor = f"{facts['cpu']} ({model})" if model else facts["cpu"]
    counted = (f"{count} x {name}" for name, count in Counter(gpus).items())
    return "; ".join([f"{processor}, {facts['cores']} cores", *counted])


def code_digest() -> str:
    """A digest of the suite's and the workloads' Python files: hosts with different code cannot share a run."""
    digest = hashlib.sha256()
    for room in ("suite", "workloads"):
        for path in sorted((ROOT / room).rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()

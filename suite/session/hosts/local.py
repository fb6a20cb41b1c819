"""The host that this process runs on: launches are its children."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from suite.catalog.devices import has_gpu
from suite.monitor.gpu import Gpu, NvmlError, open_nvml
from suite.monitor.links import links
from suite.monitor.sampler import Monitor, idle
from suite.record.handover.order import HostJob
from suite.record.parts.environment import machine, usable_cores
from suite.record.record import Record
from suite.session.hosts import About, Hear
from suite.session.launches import batch_finder
from suite.session.launches.launch import launch, scratch_folder
from workloads.data.cache import open_cached
from workloads.data.own import OWN, prepare_own
from workloads.data.prepare import prepare
from workloads.spec import specification


@dataclass
class Instruments:
    """The GPUs of a run that uses them, open until ``until`` closes. ``say`` prints why there are none.

    ``driver`` has its versions; empty without a GPU.
    """

    device: str
    say: Callable[[str], None]
    until: ExitStack
    driver: dict[str, str] = field(default_factory=dict)
    _missing: str = ""

    def __post_init__(self) -> None:
        self._gpus = self._open()
        self._idle = idle(self._gpus)

    @property
    def names(self) -> list[str]:
        """The names of the GPUs that launches see."""
        return [gpu.name for gpu in self._gpus]

    def monitor(self, pids: int | Sequence[int], spawned_s: float, devices: int) -> Monitor:
        """A monitor of a launch's processes, and of as many GPUs as it has devices."""
        return Monitor(pids, spawned_s, self._gpus, self._idle, self._missing, devices=devices)

    def annotate(self, record: Record, devices: int) -> Record:
        """The record with the driver, which may be updated before a run goes on, and how its GPUs are linked.

        ``devices`` is how many of this host it used.
        """
        if self.driver:
            record = replace(record, environment=record.environment | {"driver": self.driver})
        if record.ranks and self._gpus:
            linked = tuple(links(self._gpus[:devices]))
            record = replace(record, ranks=replace(record.ranks, links=linked))
        return record

    def _open(self) -> list[Gpu]:
        if self.device == "cpu":
            self._missing = "the run uses the CPU"
            return []
        try:
            driver, gpus = self.until.enter_context(open_nvml())
        except NvmlError as error:
            self._missing = str(error)
            self.say(f"no GPU metrics: {error}")
            return []
        self.driver = dict(vars(driver))
        if not gpus:
            self._missing = "CUDA_VISIBLE_DEVICES shows no whole device (a MIG slice has no readings here)"
            self.say(f"no GPU metrics: {self._missing}")
        return gpus


@dataclass
class Local:
    """Launches on this host, with ``device``, and data of the kind ``source`` from ``directory``.

    ``say`` prints a line. What it opens is closed with ``until``.
    """

    device: str
    source: str
    directory: str | None
    say: Callable[[str], None]
    until: ExitStack
    about: About = field(init=False)
    _data: dict[str, Path] = field(default_factory=dict)
    _programs: str = ""  # a folder for what launches compile for their evidence

    def __post_init__(self) -> None:
        self.instruments = Instruments(self.device, self.say, self.until)
        gpus = self.instruments.names
        gpu = self.device != "cpu" and has_gpu()
        self.about = About(
            kind=_kind(gpus),
            gpu=gpu,
            free_bytes=batch_finder.free_memory(),
            devices=len(gpus) or (1 if gpu else usable_cores()),  # one GPU at least, where NVML tells none
            driver=self.instruments.driver,
        )

    def prepare(self, workload: str) -> None:
        """Get the data of a workload ready. Raises `workloads.data.dataset.DataError`."""
        self.folder(workload)

    def digest(self, workload: str) -> str:
        """The digest of the data of a workload."""
        return open_cached(self.folder(workload)).digest

    def folder(self, workload: str) -> Path:
        """Where the data of a workload is, which is fetched and verified the first time."""
        data = specification(workload).data
        name = workload if data == OWN else data
        if name not in self._data:
            if data == OWN:
                self._data[name] = prepare_own(workload, self.source, None, self.say)
            else:
                self._data[name] = prepare(name, self.source, self.directory, say=self.say)
        return self._data[name]

    def ready(self) -> None:
        """Make the folder for programs, once the data is there. Raises `suite.session.launches.launch.LaunchError`."""
        self._programs = self._programs or self.until.enter_context(scratch_folder())

    def launch(self, order: HostJob, log: Path, hear: Hear) -> Record:
        """Run one launch, watched by a monitor."""
        job = order.job
        data = str(self.folder(job.cell.workload))
        job = replace(job, data=data, programs=self._programs)
        devices = order.part.count if order.part else job.cell.devices  # of this host

        def watch(pids: int | Sequence[int], spawned_s: float) -> Monitor:
            monitor = self.instruments.monitor(pids, spawned_s, devices)
            hear.watch(monitor)
            return monitor

        record = launch(job, log, order.deadline_s, hear.progress, watch, tick=hear.tick, part=order.part)
        return self.instruments.annotate(record, devices)


def _kind(gpus: Sequence[str]) -> str:
    """The hardware of this host in words."""
    hardware = machine()
    about = [f"{name} {hardware[name]}" for name in ("family", "model", "stepping") if name in hardware]
    processor = f"{hardware['cpu']} ({', '.join(about)})" if about else hardware["cpu"]
    counted = Counter(gpus)
    return "; ".join(
        [f"{processor}, {hardware['cores']} cores", *(f"{count} x {name}" for name, count in counted.items())]
    )

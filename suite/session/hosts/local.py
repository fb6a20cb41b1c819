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
from suite.record.job import HostJob
from suite.record.parts.environment import machine, usable_cores
from suite.record.record import Record
from suite.session.hosts import HostInfo, LaunchCallbacks
from suite.session.launches import batch_finder
from suite.session.launches.launch import launch, scratch_folder
from workloads.data.own import OWN, prepare_own
from workloads.data.prepare import prepare
from workloads.spec import specification


@dataclass
class Local:
    """Launches on this host, with ``device``, and data of the kind ``source`` from ``directory``.

    ``say`` prints a line. What it opens, the GPUs too, is closed with ``until``.
    """

    device: str
    source: str
    directory: str | None
    say: Callable[[str], None]
    until: ExitStack
    about: HostInfo = field(init=False)
    _data: dict[str, Path] = field(default_factory=dict)
    _programs: str = ""  # a folder for what launches compile for their evidence

    def __post_init__(self) -> None:
        self._driver: dict[str, str] = {}
        self._gpus, self._missing = self._open()
        self._idle = idle(self._gpus)
        gpu = self.device != "cpu" and has_gpu()
        self.about = HostInfo(
            kind=_kind([each.name for each in self._gpus]),
            gpu=gpu,
            free_bytes=batch_finder.free_memory(),
            devices=len(self._gpus) or (1 if gpu else usable_cores()),  # one GPU at least, where NVML tells none
            driver=self._driver,
        )

    def _open(self) -> tuple[list[Gpu], str]:
        """The GPUs that launches see, and why there are no readings of any."""
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

    def prepare(self, workload: str) -> None:
        """Get the data of a workload ready. Raises `workloads.data.dataset.DataError`."""
        self.folder(workload)

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

    def launch(self, order: HostJob, log: Path, callbacks: LaunchCallbacks) -> Record:
        """Run one launch, watched by a monitor of its processes and of as many GPUs as it has devices here."""
        job, part = order.job, order.part
        self._programs = self._programs or self.until.enter_context(scratch_folder())
        job = replace(job, data=str(self.folder(job.cell.workload)), programs=self._programs)
        devices = part.count if part else job.cell.devices

        def watch(pids: int | Sequence[int], spawned_s: float) -> Monitor:
            monitor = Monitor(pids, spawned_s, self._gpus, self._idle, self._missing, devices=devices)
            callbacks.watch(monitor)
            return monitor

        record = launch(job, log, order.deadline_s, callbacks.progress, watch, tick=callbacks.tick, part=part)
        if self._driver:  # which may be updated before a run goes on
            record = replace(record, environment=record.environment | {"driver": self._driver})
        if record.ranks and self._gpus:
            linked = tuple(links(self._gpus[:devices]))
            record = replace(record, ranks=replace(record.ranks, links=linked))
        return record


def _kind(gpus: Sequence[str]) -> str:
    """The hardware of this host in words."""
    hardware = machine()
    about = [f"{name} {hardware[name]}" for name in ("family", "model", "stepping") if name in hardware]
    processor = f"{hardware['cpu']} ({', '.join(about)})" if about else hardware["cpu"]
    counted = Counter(gpus)
    return "; ".join(
        [f"{processor}, {hardware['cores']} cores", *(f"{count} x {name}" for name, count in counted.items())]
    )

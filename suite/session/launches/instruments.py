"""What watches the launches of a run: the GPUs as their driver shows them, and a monitor for each launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from suite.monitor.gpu import Gpu, NvmlError, opened
from suite.monitor.links import links
from suite.monitor.sampler import Monitor, idle
from suite.record.record import Record


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
        self._gpus = self._opened()
        self._idle = idle(self._gpus)

    @property
    def names(self) -> list[str]:
        """The names of the GPUs that launches see."""
        return [gpu.name for gpu in self._gpus]

    def monitor(self, pids: int | Sequence[int], spawned_s: float, devices: int) -> Monitor:
        """A monitor of a launch's processes, and of as many GPUs as it has devices."""
        return Monitor(pids, spawned_s, self._gpus, self._idle, self._missing, devices=devices)

    def annotated(self, record: Record, devices: int) -> Record:
        """The record with the driver, which may be updated before a run goes on, and how its GPUs are linked.

        ``devices`` is how many of this host it used.
        """
        if self.driver:
            record = replace(record, environment=record.environment | {"driver": self.driver})
        if record.ranks and self._gpus:
            linked = tuple(links(self._gpus[:devices]))
            record = replace(record, ranks=replace(record.ranks, links=linked))
        return record

    def _opened(self) -> list[Gpu]:
        if self.device == "cpu":
            self._missing = "the run uses the CPU"
            return []
        try:
            driver, gpus = self.until.enter_context(opened())
        except NvmlError as error:
            self._missing = str(error)
            self.say(f"no GPU metrics: {error}")
            return []
        self.driver = dict(vars(driver))
        if not gpus:
            self._missing = "CUDA_VISIBLE_DEVICES shows no whole device (a MIG slice has no readings here)"
            self.say(f"no GPU metrics: {self._missing}")
        return gpus

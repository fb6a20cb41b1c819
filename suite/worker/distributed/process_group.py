"""The devices of a cell that has several: what each process takes of a batch, and what all of them say in the record.

Knows no framework: `suite.worker.frameworks` has a file `devices.py` for each, and further ones for `FILES`.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from statistics import median
from types import ModuleType
from typing import Any

import numpy as np

from suite.catalog.devices import ACCELERATORS, DEVICES
from suite.plan.cell import MODEL_DIVIDED, Cell
from suite.plan.settings.strategies import WHOLE_BATCH, why_not_measured
from suite.record.parts.environment import usable_cores
from suite.record.parts.history import AllReduce, Rank
from suite.record.parts.history import Ranks as Part
from suite.worker import interfaces
from suite.worker.distributed.ranks import Ranks
from suite.worker.frameworks import UnsupportedError
from workloads.data.augment import Share
from workloads.data.dataset import Array
from workloads.spec import WorkloadSpec

#: Sums of a gradient's size, and how many of the larger array for the best rate.
SUMS, PEAK_SUMS = 20, 5

#: The files of strategies that have one of their own, with the names of the framework's other one.
FILES = {(name, "split"): "split" for name in ("pytorch", "tensorflow", "jax")}
FILES["pytorch", "deepspeed"] = "deepspeed"

#: What lies between the seeds of two ranks, so that no two launches share one.
RANKS_APART = 1_000_003


def find_training(framework: ModuleType, cell: Cell, team: ProcessGroup | None) -> Callable[..., Any]:
    """What makes the training of a cell: the framework's own, or that of one process of several devices."""
    if team is None or cell.devices == 1:
        made: Callable[..., Any] = (framework if interfaces.native(cell) else interfaces.load_interface(cell)).Training
        return made
    return partial(team.devices.Training, ranks=team.ranks)


def refuse(cell: Cell, loaders: tuple[str, ...]) -> None:
    """Refuse what cannot be measured on several devices. Raises `UnsupportedError` with the reason."""
    if reason := why_not_measured(cell):
        raise UnsupportedError(reason)
    if cell.loader.kind not in loaders:
        raise UnsupportedError(
            f"the {cell.loader.kind} loader makes its batches on one device; with the strategy {cell.strategy} there "
            f"are {', '.join(loaders)}"
        )


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that train one cell on several devices, seen from one of them."""

    cell: Cell
    ranks: Ranks

    @property
    def devices(self) -> ModuleType:
        """The framework's file for the strategy."""
        file = FILES.get((self.cell.framework, self.cell.strategy), "devices")
        return import_module(f"suite.worker.frameworks.{self.cell.framework}.{file}")

    def connect(self, device: str) -> None:
        """Join the other processes, before the framework is asked for its devices. Raises `UnsupportedError`."""
        refuse(self.cell, self.devices.loaders(self.cell))
        self.devices.connect(self.cell, device, self.ranks)

    def configure(self, device: str) -> dict[str, Any]:
        """What the strategy needs once the framework is prepared; the settings that it adds.

        Raises `UnsupportedError` if there are fewer devices than the cell asks for.
        """
        places = self.ranks.gather(device)
        if len(set(places)) > 1:
            have = places.count("cuda")
            raise UnsupportedError(f"{self.cell.devices} devices are asked for, and there are {have} GPUs")
        settings = {
            "strategy": self.cell.strategy,
            "devices": self.cell.devices,
            "batch_normalisation": "whole batch" if self.cell.strategy in WHOLE_BATCH else "per replica",
            "threads_per_rank": usable_cores(),
        }
        added: dict[str, Any] = self.devices.init_process_group(self.cell, device, self.ranks)
        return settings | added

    @property
    def all_samples(self) -> bool:
        return self.cell.strategy in MODEL_DIVIDED

    def share(self, parts: int | None = None) -> Share:
        """What this process takes of a global batch, which is cut into ``parts``: the cell's, unless given."""
        parts = parts or self.cell.accumulate
        if self.all_samples:
            return Share(parts=parts)
        own = self.cell.devices // self.cell.processes
        return Share(self.cell.devices, parts, self.ranks.rank * own, own)

    def take_share(self, batch: tuple[Array, Array], parts: int = 1) -> tuple[Array, Array]:
        """What this process takes of a batch; one that the devices cannot share is repeated, which keeps its mean."""
        inputs, labels = batch
        times = math.lcm(len(labels), self.cell.devices * parts) // len(labels)
        share = self.share(parts)
        return share.of(np.concatenate([inputs] * times)), share.of(np.concatenate([labels] * times))

    def join_shares(self, batch: tuple[Array, Array]) -> tuple[Array, Array]:
        """The global batch of which every process gives its share; all call it, and rank 0 alone gets it."""
        if self.ranks.world == 1 or self.all_samples:
            return tuple(self.share().whole([array]) for array in batch)  # type: ignore[return-value]
        arrays = []
        for array in batch:
            pieces = self.ranks.gather_bytes(np.ascontiguousarray(array).tobytes())
            shares = [np.frombuffer(piece, array.dtype).reshape(array.shape) for piece in pieces]
            arrays.append(self.share().whole(shares) if shares else array)
        return arrays[0], arrays[1]

    def alone(self) -> Cell | None:
        """The cell that each process trains where none communicates; None where none has a whole model of its own."""
        return self.cell.but(devices=1) if self.cell.processes > 1 and not self.all_samples else None

    def alone_from(self, make: Callable[[Cell], Any], spec: WorkloadSpec, batch: tuple[Array, Array]) -> Any:
        """A training of this process by itself, after its first step; None where `alone` has no cell.

        It is what all of them train together, without the communication; ``make`` makes the training of a cell.
        """
        if (cell := self.alone()) is None:
            return None
        local = make(cell)
        self.devices.match_strategy(local, self.cell, spec)
        first = local.put(batch)
        local.compile(first)
        local.fence(local.step(first))
        return local

    def memory(self, own: dict[str, int]) -> dict[str, int]:
        """Peak memory: of the processes together where it is the host's, of the fullest device where it is that's."""
        all_of_them = self.ranks.gather(own)
        joined = {name: max(each[name] for each in all_of_them) for name in own}
        return joined | {"rss_peak_bytes": sum(each["rss_peak_bytes"] for each in all_of_them)}

    def add_up(self, settings: dict[str, Any], name: str, device: str) -> None:
        """Replace a rate of one process's device by that of all devices; without it where a process has none."""
        rates = self.ranks.gather(settings.pop(name, None))
        each_has = self.cell.devices // self.cell.processes if device in ACCELERATORS else 1
        if all(rates):
            settings[name] = sum(rates) * each_has

    def describe(
        self, training: Any, device: str, settings: dict[str, Any], own_step_s: dict[str, list[float]],
        send: Callable[..., None] = lambda **_: None,
    ) -> Any:  # fmt: skip
        """The record's part about all processes, with a measurement of sums over the devices; all of them call it.

        ``send`` tells when the sums begin and end.
        """
        cell, devices = self.cell, self.devices
        step_s = median(own_step_s["train"])
        local_s = median(own_step_s["local"]) if own_step_s.get("local") else None
        name = os.environ.get("CUDA_VISIBLE_DEVICES", "0") if device == "cuda" else "cpu"
        rate = cell.process_batch / step_s
        said = self.ranks.gather([socket.gethostname(), name, step_s, rate, local_s])
        hosts = list(dict.fromkeys(host for host, *_ in said))
        per_rank = tuple(Rank(number, hosts.index(host), *rest) for number, (host, *rest) in enumerate(said))
        steps = [each.local_step_s_median for each in per_rank if each.local_step_s_median]
        size = devices.gradient_bytes(training)
        return asdict(
            Part(
                self.ranks.world, cell.devices, cell.strategy, settings["backend"], settings["threads_per_rank"],
                per_rank, max(steps) / median(steps) if steps and len(steps) > 1 else None, size,
                self._sums(device, size, send) if size else None, interface=self._interface(device),
            )
        )  # fmt: skip

    def _interface(self, device: str) -> str:
        name = "NCCL_SOCKET_IFNAME" if device == "cuda" else "GLOO_SOCKET_IFNAME"
        return os.environ.get(name) or self.ranks.interface

    def _sums(self, device: str, size: int, send: Callable[..., None]) -> AllReduce:
        send(begin="allreduce")
        seconds = median(self._time_sums(device, size, SUMS))
        send(took="allreduce")
        peak_size = max(size, DEVICES[device].summed_bytes)
        peak_s = min(self._time_sums(device, peak_size, PEAK_SUMS))
        return AllReduce(size, seconds, SUMS, size / seconds, max(peak_size / peak_s, size / seconds))

    def _time_sums(self, device: str, size: int, times: int) -> list[float]:
        run = self.devices.summing(self.cell, device, self.ranks, size)
        run(2)
        seconds = []
        for _ in range(times):
            self.ranks.barrier()
            start = time.perf_counter_ns()
            run(1)
            seconds.append(self.ranks.slowest(max(time.perf_counter_ns() - start, 1) / 1e9))
        return seconds

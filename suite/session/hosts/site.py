"""Hosts that run whole blocks together: a launch is on the first of them, or its ranks are on several."""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suite.plan.cell import Cell
from suite.record.job import HostJob, HostRanks
from suite.record.record import Record
from suite.session.hosts import Host, HostInfo, HostLostError, LaunchCallbacks, StoppedError
from suite.session.hosts.remote import Remote
from suite.session.launches.launch import LaunchError
from suite.session.launches.listener import is_consequence

#: How long the other hosts may take to say why, once a rank of one has failed.
GRACE_S = 12.0  # JAX notices after ten seconds that a rank is gone


@dataclass
class HostGroup:
    """One or more hosts of a cluster. ``placement`` is how the ranks of one launch are dealt to them."""

    hosts: Sequence[Remote]
    placement: str = "pack"

    @property
    def about(self) -> HostInfo:
        """What the first host said of itself, under the names of all."""
        return replace(self.hosts[0].about, name="+".join(host.about.name for host in self.hosts))

    def prepare(self, workload: str) -> None:
        """Get the data ready on every host. Raises `LaunchError` where two hosts have different data."""
        for host in self.hosts:
            host.prepare(workload)

    def launch(self, order: HostJob, log: Path, callbacks: LaunchCallbacks) -> Record:
        """Run one launch, on as many hosts as its ranks need."""
        cell = order.job.cell
        counts = assign_ranks(cell, [rank_capacity(host.about, cell) for host in self.hosts], self.placement)
        if len(counts) == 1:
            return self.hosts[0].launch(order, log, callbacks)
        return MultiHostLaunch(self.hosts[: len(counts)], counts, order, log, callbacks).run()

    def close(self) -> None:
        """End the processes of all hosts."""
        for host in self.hosts:
            host.close()


def rank_capacity(about: HostInfo, cell: Cell) -> int:
    """For how many ranks of a cell a host has room, each of which takes its cores where there are no GPUs."""
    return about.devices if about.gpu else about.devices // (cell.cores or 1)


def assign_ranks(cell: Cell, devices: Sequence[int], placement: str) -> list[int]:
    """How many ranks each host gets; those that get none are left out.

    A cell that no hosts together have devices for goes to the first one, which says so.
    """
    world = cell.processes
    if world == 1:
        return [1]
    if sum(devices) < world:
        return [world]
    if placement == "pack":
        counts, left = [], world
        for count in devices:
            counts.append(min(left, count))
            left -= counts[-1]
    else:
        counts = [0] * len(devices)
        while sum(counts) < world:
            for at, most in enumerate(devices):
                if sum(counts) < world and counts[at] < most:
                    counts[at] += 1
    return [count for count in counts if count]


def prepare(hosts: Sequence[Host], workloads: Sequence[str]) -> None:
    """Get the data ready on all hosts at once. Raises `DataError`, or `LaunchError` where hosts have different data."""

    def on(host: Host) -> None:
        for workload in workloads:
            host.prepare(workload)

    try:
        if len(hosts) == 1:  # in this thread, whose prints and interrupts are the caller's
            on(hosts[0])
        else:
            with ThreadPoolExecutor(len(hosts)) as pool:
                list(pool.map(on, hosts))
    except HostLostError as error:
        raise LaunchError(f"{error}, while it prepared the data; try again") from None
    members = [member for host in hosts if isinstance(host, HostGroup) for member in host.hosts]
    for workload in workloads:
        by_digest = {member.data[workload]: member.name for member in members}
        if len(by_digest) > 1:
            raise LaunchError(
                f"hosts {' and '.join(by_digest.values())} have different data for {workload}: give all of them the "
                "real data (--data real says which lacks it), or use --data synthetic"
            )


@dataclass
class MultiHostLaunch:
    """One launch whose ranks are on several hosts."""

    hosts: Sequence[Remote]
    counts: Sequence[int]
    order: HostJob
    log: Path
    callbacks: LaunchCallbacks

    def run(self) -> Record:
        """Start all parts, wait for all, and make one record of theirs. Raises what a host raised."""
        token, world = secrets.token_hex(16), sum(self.counts)
        coordinator = f"{self.hosts[0].address}:{self.hosts[0].port()}"
        self.ended: queue.SimpleQueue[tuple[int, Record | BaseException]] = queue.SimpleQueue()
        self.stopped = threading.Event()
        self.messages: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threads = []
        for at, host in enumerate(self.hosts):
            part = HostRanks(sum(self.counts[:at]), self.counts[at], world, coordinator, host.address, token)
            log = self.log.with_suffix(f".host{at}{self.log.suffix}") if at else self.log
            order = replace(self.order, part=part)
            threads.append(threading.Thread(target=self._part, args=(at, host, order, log), daemon=True))
        for thread in threads:
            thread.start()
        try:
            ended = self._all()
        finally:
            self.stopped.set()
            for thread in threads:
                thread.join()
        return self._judge(ended)

    def _part(self, at: int, host: Remote, order: HostJob, log: Path) -> None:
        def tick() -> None:
            if self.stopped.is_set():
                raise StoppedError

        progress = (lambda _: None) if at else self.messages.put
        try:
            self.ended.put((at, host.launch(order, log, LaunchCallbacks(progress, tick))))
        except BaseException as error:  # whatever it is, the thread that waits must know
            self.ended.put((at, error))

    def _all(self) -> list[tuple[int, Record | BaseException]]:
        """What became of each part, in the order in which they ended."""
        ended: list[tuple[int, Record | BaseException]] = []
        grace_s = float("inf")
        while len(ended) < len(self.hosts):
            while not self.messages.empty():
                self.callbacks.progress(self.messages.get())
            self.callbacks.tick()
            try:
                ended.append(self.ended.get(timeout=0.5))
            except queue.Empty:
                if time.monotonic() > grace_s:
                    self.stopped.set()
                continue
            last = ended[-1][1]
            if isinstance(last, BaseException):  # its host said no more than that
                self.stopped.set()
            elif not last.outcome.ok:
                grace_s = min(grace_s, time.monotonic() + GRACE_S)
        return ended

    def _judge(self, ended: list[tuple[int, Record | BaseException]]) -> Record:
        """The record of rank 0 with what the others add, or that of the part which failed first."""
        for _, result in ended:
            if isinstance(result, BaseException) and not isinstance(result, (StoppedError, LaunchError)):
                raise result
        records = {at: result for at, result in ended if isinstance(result, Record)}
        failed = [record for record in records.values() if not record.outcome.ok]
        if failed:
            causes = [record for record in failed if not is_consequence(record.outcome)] or failed
            return causes[0]
        for _, result in ended:
            if isinstance(result, BaseException):
                raise result
        return _merge([(records[at], self.counts[at]) for at in sorted(records)])


def _merge(parts: Sequence[tuple[Record, int]]) -> Record:
    """Rank 0's record, with the flags of all hosts and the GPUs that were used there; each comes with its ranks.

    The machine is that of rank 0's host, since all hosts of a run are of one kind.
    """
    records = [record for record, _ in parts]
    first = records[0]
    gpus = [gpu for record, ranks in parts for gpu in (record.metrics.get("gpus") or ())[:ranks]]
    metrics = first.metrics | ({"gpus": gpus} if gpus else {}) | {"hosts": len(records)}
    flags = tuple(dict.fromkeys(flag for record in records for flag in record.flags))
    return replace(first, metrics=metrics, flags=flags)

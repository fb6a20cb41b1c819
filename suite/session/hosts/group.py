"""Hosts that run whole blocks together: a launch is on the first of them, or its ranks are on several."""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from suite.plan.cell import Cell
from suite.record.job import HostRanks, Job
from suite.record.record import Record
from suite.session.hosts.remote import Remote, StoppedError
from suite.session.launches.launch import LaunchError
from suite.session.launches.listener import is_consequence
from suite.session.launches.machine import HostInfo, LaunchCallbacks

#: How long the other hosts may take to say why, once a rank of one has failed.
GRACE_S = 12.0  # JAX notices after ten seconds that a rank is gone


@dataclass
class HostGroup:
    """One or more hosts of a cluster. ``placement`` is how the ranks of one launch are assigned to them."""

    hosts: Sequence[Remote]
    placement: str = "pack"

    @property
    def about(self) -> HostInfo:
        """What the first host said of itself, under the names of all."""
        return replace(self.hosts[0].about, name="+".join(host.about.name for host in self.hosts))

    def prepare(self, workload: str) -> None:
        for host in self.hosts:
            host.prepare(workload)

    def launch(self, job: Job, log: Path, deadline_s: float, callbacks: LaunchCallbacks) -> Record:
        """Run one launch, on as many hosts as its ranks need. Raises what `Remote.launch` raises."""
        capacities = [rank_capacity(host.about, job.cell) for host in self.hosts]
        counts = assign_ranks(job.cell, capacities, self.placement)
        if len(counts) == 1:
            return self.hosts[0].launch(job, log, deadline_s, callbacks)
        return MultiHostLaunch(self.hosts[: len(counts)], counts, job, log, deadline_s, callbacks).run()

    def close(self) -> None:
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
    if world == 1 or sum(devices) < world:
        return [world]
    counts = [0] * len(devices)
    while (left := world - sum(counts)) > 0:
        for at, most in enumerate(devices):
            given = min(left, most - counts[at], most if placement == "pack" else 1)
            counts[at], left = counts[at] + given, left - given
    return [count for count in counts if count]


@dataclass
class MultiHostLaunch:
    """One launch whose ranks are on several hosts."""

    hosts: Sequence[Remote]
    counts: Sequence[int]
    job: Job
    log: Path
    deadline_s: float
    callbacks: LaunchCallbacks
    _ended: queue.SimpleQueue[tuple[int, Record | BaseException]] = field(default_factory=queue.SimpleQueue)
    _messages: queue.SimpleQueue[dict[str, Any]] = field(default_factory=queue.SimpleQueue)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> Record:
        """Start all parts, wait for all, and make one record of theirs. Raises what a host raised."""
        token, world = secrets.token_hex(16), sum(self.counts)
        coordinator = f"{self.hosts[0].address}:{self.hosts[0].port()}"
        threads = []
        for at, host in enumerate(self.hosts):
            part = HostRanks(sum(self.counts[:at]), self.counts[at], world, coordinator, host.address, token)
            threads.append(threading.Thread(target=self._launch_part, args=(at, host, part), daemon=True))
            threads[-1].start()
        try:
            ended = self._wait()
        finally:
            self._stopped.set()
            for thread in threads:
                thread.join()
        return self._judge(ended)

    def _launch_part(self, at: int, host: Remote, part: HostRanks) -> None:
        def tick() -> None:
            if self._stopped.is_set():
                raise StoppedError

        callbacks = LaunchCallbacks(tick=tick) if at else LaunchCallbacks(self._messages.put, tick)
        log = self.log.with_suffix(f".host{at}{self.log.suffix}") if at else self.log
        try:
            self._ended.put((at, host.launch(self.job, log, self.deadline_s, callbacks, part)))
        except BaseException as error:  # whatever it is, the thread that waits must know
            self._ended.put((at, error))

    def _wait(self) -> list[tuple[int, Record | BaseException]]:
        """What became of each part, in the order in which they ended."""
        ended: list[tuple[int, Record | BaseException]] = []
        grace_s = float("inf")
        while len(ended) < len(self.hosts):
            while not self._messages.empty():
                self.callbacks.progress(self._messages.get())
            self.callbacks.tick()
            try:
                ended.append(self._ended.get(timeout=0.5))
            except queue.Empty:
                if time.monotonic() > grace_s:
                    self._stopped.set()
                continue
            last = ended[-1][1]
            if isinstance(last, BaseException):  # its host said no more than that
                self._stopped.set()
            elif not last.outcome.ok:
                grace_s = min(grace_s, time.monotonic() + GRACE_S)
        return ended

    def _judge(self, ended: list[tuple[int, Record | BaseException]]) -> Record:
        errors = [result for _, result in ended if isinstance(result, BaseException)]
        for error in errors:
            if not isinstance(error, (StoppedError, LaunchError)):
                raise error
        records = {at: result for at, result in ended if isinstance(result, Record)}
        if failed := [record for record in records.values() if not record.outcome.ok]:
            return next((record for record in failed if not is_consequence(record.outcome)), failed[0])
        if errors:
            raise errors[0]
        return _merge([(records[at], self.counts[at]) for at in sorted(records)])


def _merge(parts: Sequence[tuple[Record, int]]) -> Record:
    """Rank 0's record, with the flags of all hosts and the GPUs that were used there; each comes with its ranks.

    The machine is that of rank 0's host, since all hosts of a run are of one kind.
    """
    first, _ = parts[0]
    gpus = [gpu for record, ranks in parts for gpu in (record.metrics.get("gpus") or ())[:ranks]]
    metrics = first.metrics | ({"gpus": gpus} if gpus else {}) | {"hosts": len(parts)}
    flags = tuple(dict.fromkeys(flag for record, _ in parts for flag in record.flags))
    return replace(first, metrics=metrics, flags=flags)

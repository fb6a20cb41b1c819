"""Opens the hosts of the cluster that ``--on`` names, groups them, and replaces those that are lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from suite.plan.cell import Cell
from suite.session.engines import Nodes, engine_of
from suite.session.hosts.group import HostGroup, assign_ranks, rank_capacity
from suite.session.hosts.remote import HostLostError, Remote
from suite.session.launches.launch import LaunchError
from suite.session.launches.machine import code_digest
from suite.session.launches.settings import Settings
from workloads.data.files import DataError

#: How long a cluster may take to notice that a node is gone, in seconds.
NOTICE_S = 3.0


@dataclass
class Cluster:
    """Groups of hosts on which blocks run side by side, and hosts in place of those that are lost."""

    nodes: Nodes
    groups: Sequence[HostGroup]
    _unfit: set[str] = field(default_factory=set)  # spare hosts that can stand in for none
    _one: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._used = {host.name for group in self.groups for host in group.hosts}

    def prepare(self, workloads: Sequence[str]) -> None:
        """Get the data ready on all hosts. Raises `DataError`, and `LaunchError` where hosts have different data."""

        def on(group: HostGroup) -> None:
            for workload in workloads:
                group.prepare(workload)

        try:
            if len(self.groups) == 1:  # in this thread, which Ctrl-C interrupts
                on(self.groups[0])
            else:
                with ThreadPoolExecutor(len(self.groups)) as pool:
                    list(pool.map(on, self.groups))
        except HostLostError as error:
            raise LaunchError(f"{error}, while it prepared the data; try again") from None
        for workload in workloads:
            by_digest = {host.data[workload]: host.name for group in self.groups for host in group.hosts}
            if len(by_digest) > 1:
                names = " and ".join(by_digest.values())
                raise LaunchError(
                    f"hosts {names} have different data for {workload}: give all of them the real data (--data real "
                    "says which lacks it), or use --data synthetic"
                )

    def revive(self, lost: HostGroup, stop: Callable[[], None]) -> HostGroup:
        """A group like the lost one. Raises `HostLostError`, and what ``stop`` raises when the run ends."""
        lost.close()
        time.sleep(NOTICE_S)
        revived: list[Remote] = []
        try:
            for host in lost.hosts:
                stop()
                with self._one:
                    revived.append(self._replace(host))
        except BaseException:
            HostGroup(revived).close()
            raise
        return HostGroup(revived, lost.placement)

    def _replace(self, lost: Remote) -> Remote:
        nodes = self.nodes.nodes()
        own = [name for name in nodes if name.startswith(lost.name)]
        spare = [name for name in nodes if not name.startswith(tuple(self._used)) and name not in self._unfit]
        for name in [*own, *spare]:
            host = None
            try:
                host = self.nodes.host(nodes[name])
                if _can_replace(host, lost):
                    self._used = self._used - {lost.name} | {host.name}
                    return host
                if name in spare:
                    self._unfit.add(name)
            except (DataError, HostLostError, LaunchError):
                pass
            if host:
                host.close()
        raise HostLostError(f"host {lost.name} is lost, and there is no other of its kind")


def _can_replace(host: Remote, lost: Remote) -> bool:
    if (host.about.kind, host.about.suite) != (lost.about.kind, lost.about.suite):
        return False
    for workload in lost.data:
        host.prepare(workload)
    return host.data == lost.data


def open_cluster(settings: Settings, cells: Iterable[Cell], say: Callable[[str], None], until: ExitStack) -> Cluster:
    """The cluster that ``--on`` names. Raises `LaunchError` if it cannot be reached or has no host to give."""
    begin = {"device": settings.device, "source": settings.data, "directory": settings.data_directory}
    engine = engine_of(settings.on)
    assert engine.nodes
    nodes = engine.nodes(settings.on, begin, say, until)
    return Cluster(nodes, group_hosts(nodes, cells, settings.placement, say))


def group_hosts(nodes: Nodes, cells: Iterable[Cell], placement: str, say: Callable[[str], None]) -> list[HostGroup]:
    """Take the cluster's hosts, and group them so that each group has devices for the largest cell.

    Hosts of another kind than most of them are left out, since no ratio may come from two kinds. Those that are not
    used are given back, and may stand in for one that is lost. Raises `LaunchError`.
    """
    hosts = _select_alike(_take_hosts(nodes, say), say)
    needed = (assign_ranks(cell, [rank_capacity(host.about, cell) for host in hosts], placement) for cell in cells)
    most = max(map(len, needed), default=1)
    groups = [hosts[at : at + most] for at in range(0, len(hosts) - most + 1, most)]
    number = len(groups) * most
    if left := len(hosts) - number:
        say(f"not used: {_hosts(left)} of {len(hosts)}, since a block takes {most} together")
        for host in hosts[number:]:
            host.close()
    say(f"{_hosts(number)} ({hosts[0].about.kind}), {len(groups)} block{'s' * (len(groups) > 1)} at a time")
    return [HostGroup(group, placement) for group in groups]


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def _take_hosts(nodes: Nodes, say: Callable[[str], None]) -> list[Remote]:
    """The hosts that could be taken; a line says why one could not. Raises `LaunchError` if there is none."""
    listed = list(nodes.nodes().values())
    hosts, problems = [], []
    with ThreadPoolExecutor(max(1, len(listed))) as pool:
        for future in [pool.submit(nodes.host, node) for node in listed]:
            try:
                hosts.append(future.result())
            except (HostLostError, LaunchError) as error:
                problems.append(str(error))
    for problem in problems:
        say(f"left out: {problem}")
    if not hosts:
        raise LaunchError(f"the cluster has no host to launch on: {'; '.join(problems) or 'no node has a CPU'}")
    return hosts


def _select_alike(hosts: list[Remote], say: Callable[[str], None]) -> list[Remote]:
    """The hosts of the kind that most are of, all with this code. Raises `LaunchError` for other code."""
    if other := [host.name for host in hosts if host.about.suite != code_digest()]:
        raise LaunchError(
            f"other code of the suite is installed on {', '.join(other)}: install the same version on every host"
        )
    kinds = Counter(host.about.kind for host in hosts)
    (usual, _), *others = kinds.most_common()
    for kind, count in others:
        say(f"left out: {_hosts(count)} ({kind}), since most are of another kind; measure those in a run of their own")
    for host in hosts:
        if host.about.kind != usual:
            host.close()
    return [host for host in hosts if host.about.kind == usual]

"""Opens the hosts of a run: this one, or those of the cluster that ``--on`` names."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from suite.plan.cell import Cell
from suite.session.engines import Nodes, engine_of
from suite.session.hosts import Host, HostLostError, Hosts, code_digest
from suite.session.hosts.remote import Remote
from suite.session.hosts.site import HostGroup, assign_ranks, rank_capacity
from suite.session.launches.launch import LaunchError
from suite.session.launches.settings import Settings
from workloads.data.files import DataError

#: How long a cluster may take to notice that a node is gone, in seconds.
NOTICE_S = 3.0


def open_hosts(settings: Settings, cells: Iterable[Cell], say: Callable[[str], None], until: ExitStack) -> Hosts:
    """The hosts of a run. Raises `LaunchError` if its engine cannot be reached or has no host to give."""
    given: dict[str, Any] = {
        "device": settings.device, "source": settings.data, "directory": settings.data_directory,
    }  # fmt: skip
    engine = engine_of(settings.on)
    if not engine.nodes:
        from suite.session.hosts.local import Local  # NumPy, which the options do not need

        return Hosts([Local(**given, say=say, until=until)])
    nodes = engine.nodes(settings.on, given, say, until)
    groups = sites(nodes, cells, settings.placement, say)
    used = {host.name for site in groups for host in site.hosts}
    return Hosts(groups, Reviver(nodes, used))


def sites(nodes: Nodes, cells: Iterable[Cell], placement: str, say: Callable[[str], None]) -> list[HostGroup]:
    """Take the cluster's hosts, and group them so that each group has devices for the largest cell.

    Hosts of another kind than most of them are left out, since no ratio may come from two kinds. Those that are not
    used are given back, and may stand in for one that is lost. Raises `LaunchError`.
    """
    hosts = select_alike(take_hosts(nodes, say), say)
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


def take_hosts(nodes: Nodes, say: Callable[[str], None]) -> list[Remote]:
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


def select_alike(hosts: list[Remote], say: Callable[[str], None]) -> list[Remote]:
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


@dataclass
class Reviver:
    """Gets hosts that were lost going again, or others in their place. ``used`` are the names of those in use."""

    nodes: Nodes
    used: set[str]
    unfit: set[str] = field(default_factory=set)  # spare hosts that can stand in for none
    _one: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, lost: Host, stop: Callable[[], None]) -> Host:
        """A site like the lost one. Raises `HostLostError`, and what ``stop`` raises when the run ends."""
        assert isinstance(lost, HostGroup)
        lost.close()
        time.sleep(NOTICE_S)
        revived = HostGroup([], lost.placement)
        try:
            for host in lost.hosts:
                revived = HostGroup([*revived.hosts, self._again(host, stop)], lost.placement)
        except BaseException:
            revived.close()
            raise
        return revived

    def _again(self, lost: Remote, stop: Callable[[], None]) -> Remote:
        """The same host, or a spare one of its kind, with the same data."""
        stop()
        with self._one:
            if host := self._take(lost):
                return host
        raise HostLostError(f"host {lost.name} is lost, and there is no other of its kind")

    def _take(self, lost: Remote) -> Remote | None:
        nodes = self.nodes.nodes()
        own = [name for name in nodes if name.startswith(lost.name)]
        spare = [name for name in nodes if not any(name.startswith(used) for used in self.used)]
        spare = [name for name in spare if name not in self.unfit]
        for name in [*own, *spare]:
            host = None
            try:
                host = self.nodes.host(nodes[name])
                if (host.about.kind, host.about.suite) == (lost.about.kind, lost.about.suite):
                    for workload in lost.data:
                        host.prepare(workload)
                    if host.data == lost.data:
                        self.used = self.used - {lost.name} | {host.name}
                        return host
                if name in spare:
                    self.unfit.add(name)
            except (DataError, HostLostError, LaunchError):
                pass
            if host:
                host.close()
        return None

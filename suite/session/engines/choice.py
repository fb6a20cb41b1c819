"""Opens the engine that ``--on`` names."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

from suite.plan.cell import Cell
from suite.plan.engine import LOCAL
from suite.session.engines import Engine, Host, HostLostError
from suite.session.engines.code import code_digest
from suite.session.engines.local import Local
from suite.session.engines.remote import Remote
from suite.session.engines.site import Site, dealt, room
from suite.session.engines.slurm import Slurm
from suite.session.launches.launch import LaunchError
from suite.session.launches.settings import Settings
from workloads.data.dataset import DataError

#: How long a cluster may take to notice that a node is gone, in seconds.
NOTICE_S = 3.0

#: What stands before the address of a Ray client server.
CLIENT = "ray://"


class Nodes(Protocol):
    """The hosts that an engine can take."""

    def nodes(self) -> dict[str, Any]:
        """The living nodes, by a name of their own."""

    def host(self, node: Any) -> Remote:
        """Take a node and start its process. Raises `LaunchError` or `HostLostError`."""


def opened(settings: Settings, cells: Iterable[Cell], say: Callable[[str], None], until: ExitStack) -> Engine:
    """The engine of a run. Raises `LaunchError` if it cannot be reached or has no host to give."""
    if settings.on == LOCAL:
        return Engine([Local(settings.device, settings.data, settings.data_directory, say, until)])
    nodes = cluster(
        settings.on,
        {"device": settings.device, "source": settings.data, "directory": settings.data_directory},
        say,
        until,
    )
    found = sites(nodes, cells, settings.placement, say, settings.cores)
    used = {host.name for site in found for host in site.hosts}
    return Engine(found, cluster=True, revive=Reviving(nodes, used))


def cluster(name: str, given: dict[str, Any], say: Callable[[str], None], until: ExitStack) -> Nodes:
    """The cluster with this name. Raises `LaunchError`."""
    if name == "slurm":
        return Slurm(given, say, until)
    from suite.session.engines.ray import Cluster

    return Cluster(name if name.startswith(CLIENT) else os.environ.get("RAY_ADDRESS") or "auto", given, say, until)


def sites(
    nodes: Nodes, cells: Iterable[Cell], placement: str, say: Callable[[str], None], cores: int | None = None
) -> list[Site]:
    """Take the cluster's hosts, and group them so that each group has devices for the largest cell.

    Hosts of another kind than most of them are left out, since no ratio may come from two kinds. Those that are not
    used are given back, and may stand in for one that is lost. Raises `LaunchError`.
    """
    hosts = alike(taken(nodes, say), say)
    counts = [room(host.about, cores) for host in hosts]
    most = max((len(dealt(cell, counts, placement)) for cell in cells), default=1)
    groups = [hosts[at : at + most] for at in range(0, len(hosts) - most + 1, most)]
    number = len(groups) * most
    if left := len(hosts) - number:
        say(f"not used: {_hosts(left)} of {len(hosts)}, since a block takes {most} together")
        for host in hosts[number:]:
            host.close()
    say(f"{_hosts(number)} ({hosts[0].about.kind}), {len(groups)} block{'s' * (len(groups) > 1)} at a time")
    return [Site(group, placement) for group in groups]


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def taken(nodes: Nodes, say: Callable[[str], None]) -> list[Remote]:
    """The hosts that could be taken; a line says why one could not. Raises `LaunchError` if there is none."""
    found = list(nodes.nodes().values())
    hosts, problems = [], []
    with ThreadPoolExecutor(max(1, len(found))) as pool:
        for future in [pool.submit(nodes.host, node) for node in found]:
            try:
                hosts.append(future.result())
            except (HostLostError, LaunchError) as error:
                problems.append(str(error))
    for problem in problems:
        say(f"left out: {problem}")
    if not hosts:
        raise LaunchError(f"the cluster has no host to launch on: {'; '.join(problems) or 'no node has a CPU'}")
    return hosts


def alike(hosts: list[Remote], say: Callable[[str], None]) -> list[Remote]:
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
class Reviving:
    """Gets hosts that were lost going again, or others in their place. ``used`` are the names of those in use."""

    nodes: Nodes
    used: set[str]
    unfit: set[str] = field(default_factory=set)  # spare hosts that can stand in for none
    _one: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, lost: Host, stop: Callable[[], None]) -> Host:
        """A site like the lost one. Raises `HostLostError`, and what ``stop`` raises when the run ends."""
        assert isinstance(lost, Site)
        lost.close()
        time.sleep(NOTICE_S)
        found = Site([], lost.placement)
        try:
            for host in lost.hosts:
                found = Site([*found.hosts, self._again(host, stop)], lost.placement)
        except BaseException:
            found.close()
            raise
        return found

    def _again(self, lost: Remote, stop: Callable[[], None]) -> Remote:
        """The same host, or a spare one of its kind, with the same data."""
        stop()
        with self._one:
            if host := self._found(lost):
                return host
        raise HostLostError(f"host {lost.name} is lost, and there is no other of its kind")

    def _found(self, lost: Remote) -> Remote | None:
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

"""Which hosts of a cluster take part, how they are grouped, and what stands in for one that is lost."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from suite.plan.cell import Cell
from suite.session.engines import engine_of, ray
from suite.session.hosts import cluster
from suite.session.hosts.cluster import Cluster, group_hosts
from suite.session.hosts.group import HostGroup
from suite.session.hosts.remote import HostLostError, Remote
from suite.session.launches.launch import LaunchError
from suite.session.launches.machine import HostInfo, code_digest
from tests.studies import slow_link

ONE, TWO = Cell("imdb_lstm", "jax"), Cell("imdb_lstm", "jax", devices=2)


class Closed:
    """A wire that nothing goes over."""

    def send(self, line: str) -> None: ...

    def receive(self, within_s: float) -> list[str]:
        return []

    def close(self) -> None: ...


@dataclass
class Known(Remote):
    """A host whose answers are known."""

    answers: dict[str, str] = field(default_factory=dict)

    def prepare(self, workload: str) -> None:
        self.data[workload] = self.answers.get(workload, "digest")


def known(name: str, kind: str = "EPYC, 2 cores", suite: str = "", **answers: str) -> Known:
    about = HostInfo(name, kind, devices=1, suite=suite or code_digest())
    return Known(name, "127.0.0.1", Closed(), lambda _: None, {}, about, answers=answers)


@dataclass
class Fakes:
    """A cluster of known hosts; one that is an error cannot be taken."""

    hosts: dict[str, Known | Exception]

    def nodes(self) -> dict[str, Any]:
        return {name: name for name in self.hosts}

    def host(self, node: Any) -> Remote:
        found = self.hosts[node]
        if isinstance(found, Exception):
            raise found
        return found


def fakes(*hosts: Known, **problems: Exception) -> Fakes:
    return Fakes({**{host.name: host for host in hosts}, **problems})


def names(groups: Any) -> list[list[str]]:
    return [[host.name for host in group.hosts] for group in groups]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "NOTICE_S", 0.0)


def test_hosts_of_the_usual_kind_take_part_and_lines_say_who_does_not() -> None:
    said: list[str] = []
    nodes = fakes(known("a"), known("b"), known("c", "Xeon, 8 cores"), d=LaunchError("host d was not free"))
    assert names(group_hosts(nodes, [ONE], "pack", said.append)) == [["a"], ["b"]]
    assert said == [
        "left out: host d was not free",
        "left out: 1 host (Xeon, 8 cores), since most are of another kind; measure those in a run of their own",
        "2 hosts (EPYC, 2 cores), 2 blocks at a time",
    ]


def test_as_many_hosts_run_a_block_as_its_largest_cell_needs() -> None:
    said: list[str] = []
    nodes = fakes(known("a"), known("b"), known("c"))
    assert names(group_hosts(nodes, [ONE, TWO], "pack", said.append)) == [["a", "b"]]
    assert said[0] == "not used: 1 host of 3, since a block takes 2 together"


def test_other_code_on_a_host_and_a_cluster_without_hosts_are_refused() -> None:
    with pytest.raises(LaunchError, match="other code of the suite is installed on b: install the same version"):
        group_hosts(fakes(known("a"), known("b", suite="other")), [ONE], "pack", lambda _: None)
    with pytest.raises(LaunchError, match="no host to launch on: no node has a CPU"):
        group_hosts(fakes(), [ONE], "pack", lambda _: None)


def test_hosts_with_different_data_are_refused() -> None:
    groups = [HostGroup([known("a")]), HostGroup([known("b", imdb_lstm="other")])]
    with pytest.raises(LaunchError, match=r"hosts a and b have different data for imdb_lstm: give all .*--data real"):
        Cluster(fakes(), groups).prepare(["imdb_lstm"])


def test_a_lost_host_is_the_same_again_or_a_spare_one_of_its_kind_with_the_same_data() -> None:
    lost = known("a")
    lost.prepare("imdb_lstm")
    group = HostGroup([lost, known("b")])

    def revive(nodes: Fakes) -> list[list[str]]:
        return names([Cluster(nodes, [group]).revive(group, lambda: None)])

    assert revive(fakes(known("a"), known("b"))) == [["a", "b"]]
    assert revive(fakes(known("c", "Xeon"), known("d", imdb_lstm="other"), known("e"), known("b"))) == [["e", "b"]]
    with pytest.raises(HostLostError, match="host a is lost, and there is no other of its kind"):
        revive(fakes(known("b"), known("c", "Xeon")))


def test_what_on_takes() -> None:
    for text in ("local", "ray", "ray://host:10001", "slurm"):
        assert engine_of(text).name == text.partition(":")[0]
    for text in ("nomad", "ray:/x", "ray://host"):
        with pytest.raises(argparse.ArgumentTypeError, match=r"(?i)there are: local, ray"):
            engine_of(text)


@pytest.mark.parametrize(
    ("preloaded", "kept"), [("/x/ray/core/libjemalloc.so", None), ("/x/tcmalloc.so", "/x/tcmalloc.so")]
)
def test_a_launch_has_the_variables_of_its_node_and_none_of_rays(
    monkeypatch: pytest.MonkeyPatch, preloaded: str, kept: str | None
) -> None:
    own = {"SUITE_DATA_DIR": "/data", "LD_PRELOAD": preloaded, "RAY_JOB_ID": "1"}
    monkeypatch.setattr(ray.psutil, "Process", lambda _: type("Raylet", (), {"environ": lambda _: own})())
    monkeypatch.setenv("RAY_RAYLET_PID", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    found = ray._environment()
    assert found.pop("LD_PRELOAD", None) == kept
    assert found == {"SUITE_DATA_DIR": "/data", "CUDA_VISIBLE_DEVICES": "2,3"}


def test_without_ray_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(LaunchError, match=r"pip install 'framework-training-suite\[ray\]'"):
        ray._ray()


@pytest.mark.launches
def test_the_link_has_the_rate_that_is_asked_for() -> None:
    if reason := slow_link.impossible():
        pytest.skip(reason)
    with slow_link.namespaces() as names:
        limit = slow_link.Limit(names)
        for rate, words in (("100mbit", "rate 100Mbit"), ("", "noqueue"), ("1gbit", "rate 1Gbit")):
            limit(rate)
            for name in names:
                assert words in slow_link.output("tc", "-n", name, "qdisc", "show", "dev", slow_link.LINK)
    assert not any(name in slow_link.output("ip", "netns", "list") for name in names)

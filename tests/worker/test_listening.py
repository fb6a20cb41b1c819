"""What listens during a launch with two devices: nothing that another machine could reach."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.measuring import Plan
from suite.record.job import HostRanks, Job
from suite.record.parts.environment import own_cores
from suite.session.launches import ranks
from suite.session.launches.launch import launch
from suite.session.launches.namespace import NamespaceError
from tests.frameworks import needs_frameworks
from tests.launches import network_of, unproven
from workloads.data.cache import folder_of
from workloads.spec import specification

pytestmark = pytest.mark.long

JOB = Job(Cell("imdb_lstm", "tensorflow", devices=2, strategy="multiworker"), "nowhere", device="cpu")

LOOPBACK = ("127.", "::1", "::ffff:127.")


class Watch:
    """Collects what the processes listen on that this one starts: ``here``, in this network, and in any other."""

    def __init__(self) -> None:
        self.here: set[str] = set()
        self.elsewhere = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    @property
    def beyond_loopback(self) -> list[str]:
        return [address for address in self.here if not address.startswith(LOOPBACK)]

    def __enter__(self) -> Watch:
        self._before = {*psutil.Process().children(recursive=True)}
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        network = Path("/proc/self/ns/net").readlink()
        while not self._ended.wait(0.05):
            for process in {*psutil.Process().children(recursive=True)} - self._before:
                with contextlib.suppress(psutil.Error, OSError):
                    if Path(f"/proc/{process.pid}/ns/net").readlink() == network:
                        connections = process.net_connections("tcp")
                        self.here |= {each.laddr.ip for each in connections if each.status == psutil.CONN_LISTEN}
                    else:
                        tables = (Path(f"/proc/{process.pid}/net", name).read_text() for name in ("tcp", "tcp6"))
                        self.elsewhere = max(self.elsewhere, sum(table.count(" 0A ") for table in tables))


def watched(
    framework: str, strategy: str, twins: Path, programs: str, tmp_path: Path, patch: pytest.MonkeyPatch
) -> Watch:
    """What listened during a launch with two devices."""
    unproven(tmp_path, patch)
    cell = Cell("imdb_lstm", framework, batch=16, size="small", devices=2, strategy=strategy)
    data = folder_of(twins, specification(cell.workload).data, "synthetic")
    job = Job(cell, str(data), device="cpu", plan=Plan(0.02, 2, 0.2), programs=programs)
    with Watch() as watch:
        record = launch(job, tmp_path / "log", 400.0)
    assert record.outcome.ok, (record.outcome, record.log)
    return watch


real = [
    needs_frameworks,
    pytest.mark.launches,
    pytest.mark.skipif(len(own_cores()) < 2, reason="two ranks need two cores"),
]


# In every run `test_several_devices` looks at the same servers, without a launch.
@pytest.mark.parametrize("framework", [pytest.param(name, marks=[*real, pytest.mark.slow]) for name in FRAMEWORKS])
def test_two_devices_listen_on_loopback_at_most(
    twins: Path, programs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framework: str
) -> None:
    watch = watched(framework, "", twins, programs, tmp_path, monkeypatch)
    assert not watch.beyond_loopback
    assert bool(watch.here) == (framework != "tensorflow"), "whose usual strategy has no server"


@pytest.mark.parametrize("strategy", [pytest.param("multiworker", marks=real)])
def test_a_server_that_obeys_whoever_connects_listens_in_a_network_of_its_own(
    twins: Path, programs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    with contextlib.ExitStack() as until:
        network_of(JOB.cell, until)
    watch = watched("tensorflow", strategy, twins, programs, tmp_path, monkeypatch)
    assert not watch.here, "neither the server nor the ranks' own channel"
    assert watch.elsewhere


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a machine that lets nobody have a network."""
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2; exit 1\n")
    unshare.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.mark.usefixtures("refused")
@pytest.mark.launches
def test_without_a_network_of_its_own_the_server_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks, "usable_cores", lambda: 2)
    for strategy in ("multiworker", "synchronised"):
        cell = JOB.cell.but(strategy=strategy, workload="cifar100_resnet18")
        record = launch(replace(JOB, cell=cell), tmp_path / "log", 60.0)
        assert record.outcome.status == "unsupported"
        for words in (strategy, "all interfaces", "not permitted", "--strategy mirrored", "--trusted-network"):
            assert words in record.outcome.reason
        assert "\n" not in record.outcome.reason
    assert not (tmp_path / "log").exists(), "no worker was started"


@pytest.mark.usefixtures("refused")
def test_on_a_trusted_network_the_server_is_started_all_the_same() -> None:
    with contextlib.ExitStack() as until:
        assert ranks.network(replace(JOB, trusted_network=True), None, until) == []


def test_ranks_on_several_hosts_have_no_network_of_their_own() -> None:
    part = HostRanks(0, 1, 2, "10.0.0.1:7000", "10.0.0.1", "secret")
    with contextlib.ExitStack() as until:
        with pytest.raises(NamespaceError, match="several hosts cannot have"):
            ranks.network(JOB, part, until)
        assert ranks.network(replace(JOB, trusted_network=True), part, until) == []
        usual = Cell("imdb_lstm", "tensorflow", devices=2)
        for cell in (usual, *(Cell("imdb_lstm", name, devices=2) for name in ("pytorch", "jax"))):
            assert ranks.network(replace(JOB, cell=cell), part, until) == [], "no such server"

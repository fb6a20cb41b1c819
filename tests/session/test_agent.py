"""The process that an engine starts on a host, over real pipes, with stand-ins for the worker."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.plan.cell import Cell
from suite.record.record import Outcome
from suite.session.hosts.group import HostGroup, assign_ranks
from suite.session.hosts.remote import HostLostError, Pipe, Remote, StoppedError
from suite.session.launches.launch import LaunchError
from suite.session.launches.machine import LaunchCallbacks, code_digest
from tests.launches import JOB, StandIn
from tests.processes import alive, wait_until
from workloads.data.dataset import DataError

pytestmark = pytest.mark.launches

BEGIN = "send(progress='train', pids=[os.getpid()])\nprint('hello', flush=True)\n"
GOOD = BEGIN + "from tests import records\nsend_all(records.record('jax', job['launch'], workload='imdb_lstm'))"
ON_CPU = replace(JOB, device="cpu")

Start = Callable[..., Remote]


@pytest.fixture
def start(twins: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts hosts whose data is synthetic."""
    monkeypatch.setenv("SUITE_CACHE_DIR", str(twins))
    started: list[Remote] = []

    def make(name: str = "one", source: str = "synthetic") -> Remote:
        settings = {"device": "cpu", "source": source, "directory": None}
        remote = Remote(name, "127.0.0.1", Pipe(name), lambda _: None, settings)
        started.append(remote)
        remote.begin()
        return remote

    yield make
    for remote in started:
        remote.close()


def test_a_host_says_what_it_is_launches_and_sends_record_and_log(
    start: Start, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in(GOOD)
    host = start()
    assert host.about.name == "one"
    assert host.about.suite == code_digest()
    assert host.about.kind.endswith(f"{len(os.sched_getaffinity(0))} cores")
    host.prepare("imdb_lstm")
    assert len(host.data["imdb_lstm"]) == 64
    progress: list[dict[str, Any]] = []
    for launch in (0, 1):
        job = replace(ON_CPU, launch=launch)
        record = host.launch(job, tmp_path / f"{launch}.log", 60.0, LaunchCallbacks(progress.append))
        assert record.outcome.ok
        assert (record.launch, record.cell) == (launch, ON_CPU.cell)
        assert "host" in record.metrics, "it was watched"
        assert (tmp_path / f"{launch}.log").read_text() == "hello\n"
    assert [message["progress"] for message in progress] == ["train", "train"]


def test_what_fails_there_is_raised_here(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUITE_PYTHON_JAX", str(tmp_path / "none"))
    monkeypatch.setenv("SUITE_DATA_DIR", str(tmp_path))
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    host = start()
    with pytest.raises(LaunchError, match="SUITE_PYTHON_JAX is"):
        host.launch(ON_CPU, tmp_path / "log", 60.0, LaunchCallbacks())
    with pytest.raises(DataError, match="no real imdb"):
        start("two", "real").prepare("imdb_lstm")


def test_a_launch_that_is_stopped_leaves_nothing_and_the_host_goes_on(
    start: Start, stand_in: StandIn, tmp_path: Path
) -> None:
    stand_in(BEGIN + "time.sleep(60)")
    host, pids = start(), list[int]()

    def tick() -> None:
        if pids:
            raise StoppedError

    hear = LaunchCallbacks(lambda message: pids.extend(message["pids"]), tick)
    with pytest.raises(StoppedError):
        host.launch(ON_CPU, tmp_path / "log", 60.0, hear)
    assert not alive(pids[0])
    stand_in(GOOD)
    assert host.launch(ON_CPU, tmp_path / "log", 60.0, LaunchCallbacks()).outcome.ok


@pytest.mark.parametrize("by", ["kill", "close"])
def test_a_host_that_ends_takes_its_launch_with_it(start: Start, stand_in: StandIn, tmp_path: Path, by: str) -> None:
    stand_in(BEGIN + "subprocess.Popen(['sleep', '60'], start_new_session=True); time.sleep(60)")
    host, pids = start(), list[int]()
    assert isinstance(host.wire, Pipe)

    def end() -> None:
        wait_until(lambda: pids)
        assert isinstance(host.wire, Pipe)
        host.wire.process.kill() if by == "kill" else host.wire.process.stdin.close()  # type: ignore[union-attr]

    thread = threading.Thread(target=end)
    thread.start()
    with pytest.raises((HostLostError, StoppedError)):
        host.launch(ON_CPU, tmp_path / "log", 60.0, LaunchCallbacks(lambda message: pids.extend(message["pids"])))
    thread.join()
    wait_until(lambda: not alive(pids[0]))


RANK = "rank = int(os.environ['SUITE_RANK'])\nprint(f'rank {rank}', flush=True)\n"
TOLD = "send(progress=' '.join(os.environ[f'SUITE_{name}'] for name in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE')))\n"
OF_TWO = replace(ON_CPU, cell=Cell("imdb_lstm", "jax", devices=2))


def test_the_ranks_of_a_launch_are_on_two_hosts(start: Start, stand_in: StandIn, tmp_path: Path) -> None:
    stand_in(RANK + TOLD + GOOD.replace("workload='imdb_lstm'", "workload='imdb_lstm', devices=2"))
    site, heard = HostGroup([start("one"), start("two")], "spread"), list[dict[str, Any]]()
    record = site.launch(OF_TWO, tmp_path / "log.log", 60.0, LaunchCallbacks(heard.append))
    assert record.outcome.ok, record.outcome
    assert heard[0]["progress"] == "0 0 2", "that of rank 0 alone"
    assert record.metrics["hosts"] == 2
    assert (tmp_path / "log.log").read_text().startswith("rank 0\n")
    assert (tmp_path / "log.host1.log").read_text().startswith("rank 1\n")
    assert site.about.name == "one+two"


def test_a_rank_that_fails_on_one_host_is_named_and_the_other_host_is_ended(
    start: Start, stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("suite.session.hosts.group.GRACE_S", 1.0)
    stand_in(RANK + BEGIN + "os._exit(3) if rank else time.sleep(60)")
    site, began_s = HostGroup([start("one"), start("two")], "spread"), time.monotonic()
    record = site.launch(OF_TWO, tmp_path / "log.log", 60.0, LaunchCallbacks())
    assert record.outcome == Outcome("crashed", "rank 1 of 2 failed in train: ended with exit status 3 and no result")
    assert time.monotonic() - began_s < 20


def test_a_host_that_is_lost_is_no_result_of_a_launch(start: Start, stand_in: StandIn, tmp_path: Path) -> None:
    stand_in(RANK + BEGIN + "os.kill(os.getppid(), 9) if rank else time.sleep(60)")
    site = HostGroup([start("one"), start("two")], "spread")
    with pytest.raises(HostLostError, match="host two"):
        site.launch(OF_TWO, tmp_path / "log.log", 60.0, LaunchCallbacks())


@pytest.mark.parametrize(
    ("ranks", "devices", "placement", "counts"),
    [
        (1, [2, 2], "spread", [1]),
        (2, [2, 2], "pack", [2]),
        (2, [2, 2], "spread", [1, 1]),
        (3, [2, 2], "pack", [2, 1]),
        (3, [2, 2], "spread", [2, 1]),
        (4, [1, 1, 2], "spread", [1, 1, 2]),
        (4, [1, 1], "spread", [4]),
    ],
)
def test_ranks_are_dealt_to_hosts(ranks: int, devices: list[int], placement: str, counts: list[int]) -> None:
    assert assign_ranks(Cell("imdb_lstm", "jax", devices=ranks), devices, placement) == counts

"""A launch of several processes: the cores and addresses that each rank gets, and how it ends where one fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.record.job import HostRanks
from suite.record.parts.environment import own_cores, select_variables
from suite.record.record import Outcome, Record
from suite.session.launches import listener, ranks
from suite.session.launches.launch import launch
from suite.session.launches.ranks import interface_of, own_address, place, towards
from tests.launches import JOB, StandIn
from tests.processes import alive, wait_until

JOB_OF_TWO = replace(JOB, cell=Cell("imdb_lstm", "jax", devices=2), device="cpu")

needs_cores = pytest.mark.skipif(len(own_cores()) < 2, reason="two ranks need two cores")

#: Each rank tells where it is and what it was told; the last line is its own.
BEGIN = """
import time
rank = int(os.environ['SUITE_RANK'])
print(f'hello from rank {rank}', flush=True)
send(progress='train', pids=[os.getpid()], cores=os.environ['SUITE_CORES'])
"""


@pytest.fixture
def start(stand_in: StandIn, tmp_path: Path) -> Callable[..., tuple[Record, float, list[dict[str, Any]]]]:
    """Launches code as two ranks; the record, the seconds that it took, and rank 0's progress."""

    def started(code: str, deadline_s: float = 60.0) -> tuple[Record, float, list[dict[str, Any]]]:
        stand_in(BEGIN + code)
        progress: list[dict[str, Any]] = []
        began_s = time.monotonic()
        record = launch(JOB_OF_TWO, tmp_path / "log", deadline_s, progress.append)
        return record, time.monotonic() - began_s, progress

    return started


def own_processes() -> set[int]:
    return {each.pid for each in psutil.Process().children(recursive=True)}


@needs_cores
@pytest.mark.launches
def test_a_killed_rank_ends_the_launch_and_is_named_with_its_phase_and_last_lines(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "FAILED_GRACE_S", 0.5)
    before = own_processes()
    record, seconds, progress = start("os.kill(os.getpid(), 9) if rank else time.sleep(60)")
    assert record.outcome == Outcome("crashed", "rank 1 of 2 failed in train: ended by signal SIGKILL")
    assert record.log[-1] == "hello from rank 1"
    assert seconds < 20
    wait_until(lambda: not [pid for pid in progress[0]["pids"] if alive(pid)])
    assert len(own_processes() - before) <= 1, "the guardian alone may stay"


@needs_cores
@pytest.mark.launches
def test_a_rank_that_lost_another_is_not_the_cause(start: Any) -> None:
    lost = "send(part={'outcome': {'status': 'error', 'reason': 'RankLostError: another rank is gone (EOFError)'}})"
    record, *_ = start(f"time.sleep(0.5) if rank else {lost}\nos._exit(3 if rank else 0)")
    assert record.outcome.reason == "rank 1 of 2 failed in train: ended with exit status 3 and no result"


@needs_cores
@pytest.mark.launches
def test_a_stopped_rank_runs_into_the_deadline(start: Any) -> None:
    record, *_ = start("os.kill(os.getpid(), 19) if rank else time.sleep(60)", deadline_s=2.0)
    assert record.outcome.status == "timeout"
    assert record.outcome.reason == "no end after 2 s (rank 0 in train, rank 1 in train; stopped: rank 1)"


@needs_cores
@pytest.mark.launches
def test_an_interrupt_ends_all_ranks(stand_in: StandIn, tmp_path: Path) -> None:
    stand_in(BEGIN + f"open({str(tmp_path / 'pids')!r}, 'a').write(f'{{os.getpid()}} ')\ntime.sleep(60)")

    def interrupt() -> None:
        if len((tmp_path / "pids").read_text().split()) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(JOB_OF_TWO, tmp_path / "log", 60.0, tick=interrupt)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    wait_until(lambda: not any(map(alive, pids)))


@needs_cores
@pytest.mark.launches
def test_what_all_ranks_lack_is_said_once(start: Any) -> None:
    record, *_ = start("send(part={'outcome': {'status': 'unsupported', 'reason': 'no such thing'}})")
    assert record.outcome == Outcome("unsupported", "no such thing")


@needs_cores
@pytest.mark.launches
def test_a_port_that_is_taken_is_another_one_in_the_next_try(start: Any, tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    record, *_ = start(
        f"open({str(tries)!r}, 'a').write(str(rank))\n"
        "send(part={'outcome': {'status': 'error', 'reason': 'OSError: [Errno 98] Address already in use'}})"
    )
    assert record.outcome.status == "error"
    assert tries.read_text().count("0") == ranks.PORT_TRIES


def test_each_rank_gets_its_number_and_its_own_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "own_cores", lambda: [0, 1, 4, 5])
    monkeypatch.setattr(ranks, "usable_cores", lambda: 4)
    first, second = ranks.environments(JOB_OF_TWO.cell, "cpu")
    assert [each["SUITE_RANK"] for each in (first, second)] == ["0", "1"]
    assert [each["SUITE_CORES"] for each in (first, second)] == ["0,1", "4,5"]
    assert first["SUITE_COORDINATOR"] == second["SUITE_COORDINATOR"]
    assert first["SUITE_TOKEN"] == second["SUITE_TOKEN"]
    assert "CUDA_VISIBLE_DEVICES" not in first


def test_each_rank_sees_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "has_gpu", lambda: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert [each["CUDA_VISIBLE_DEVICES"] for each in ranks.environments(JOB_OF_TWO.cell, "auto")] == ["0", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,GPU-7")
    assert [each["CUDA_VISIBLE_DEVICES"] for each in ranks.environments(JOB_OF_TWO.cell, "auto")] == ["3", "GPU-7"]
    assert "shows 2" in ranks.impossible(Cell("imdb_lstm", "jax", devices=3), "auto")


def test_more_ranks_than_cores_are_unsupported(tmp_path: Path) -> None:
    job = replace(JOB_OF_TWO, cell=Cell("imdb_lstm", "jax", devices=4096))
    record = launch(job, tmp_path / "log")
    assert record.outcome.status == "unsupported"
    assert record.outcome.reason.startswith("4096 devices on a CPU need a core each, and ")
    assert not (tmp_path / "log").exists()


def test_a_part_has_its_own_ranks_alone_and_the_coordinator_of_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "own_cores", lambda: [0, 1, 4, 5])
    monkeypatch.setattr(ranks, "usable_cores", lambda: 4)
    cell = Cell("imdb_lstm", "jax", devices=6)
    part = HostRanks(first=4, count=2, world=6, coordinator="10.0.0.1:5000", address="10.0.0.2", token="secret")
    assert ranks.impossible(cell, "cpu") == "6 devices on a CPU need a core each, and 4 can be used here"
    assert not ranks.impossible(cell, "cpu", part=part)
    told = ranks.environments(cell, "cpu", part=part)
    assert [each["SUITE_RANK"] for each in told] == ["4", "5"]
    assert [each["SUITE_LOCAL_RANK"] for each in told] == ["0", "1"]
    assert [each["SUITE_CORES"] for each in told] == ["0,1", "4,5"]
    for each in told:
        assert (each["SUITE_WORLD_SIZE"], each["SUITE_COORDINATOR"]) == ("6", "10.0.0.1:5000")
        assert (each["SUITE_ADDRESS"], each["SUITE_TOKEN"]) == ("10.0.0.2", "secret")


def test_inference_on_several_devices_starts_no_process(tmp_path: Path) -> None:
    plan = Plan(phases=("train", "infer"), chosen=True)
    record = launch(replace(JOB_OF_TWO, plan=plan), tmp_path / "log")
    assert record.outcome.status == "unsupported"
    assert "on one device" in record.outcome.reason
    assert not (tmp_path / "log").exists()


#: The socket and the core of each hardware thread: two sockets of two cores, whose second threads come last.
MACHINE = [(0, 0), (0, 1), (1, 0), (1, 1), (0, 0), (0, 1), (1, 0), (1, 1)]
ALL = list(range(len(MACHINE)))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, (socket, core) in enumerate(MACHINE):
        folder = tmp_path / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "physical_package_id").write_text(f"{socket}\n")
        (folder / "core_id").write_text(f"{core}\n")
    monkeypatch.setattr(ranks, "TOPOLOGY", tmp_path)
    monkeypatch.setattr(ranks, "own_cores", lambda: ALL)
    monkeypatch.setattr(ranks, "usable_cores", lambda: len(ALL))
    monkeypatch.setattr(ranks, "has_gpu", lambda: False)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("bind", "count", "cores"),
    [
        ("", 0, ALL),
        ("compact", 0, [0, 4, 1, 5, 2, 6, 3, 7]),
        ("spread", 0, [0, 2, 1, 3]),
        ("spread", 4, [0, 2, 1, 3]),
        ("spread", 5, [0, 2, 1, 3, 4, 6, 5, 7]),
    ],
)
def test_cores_are_taken_in_order(bind: str, count: int, cores: list[int]) -> None:
    assert place(ALL, bind, count) == cores


def test_without_a_topology_each_core_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "TOPOLOGY", tmp_path)
    assert place([3, 1], "compact") == place([3, 1], "spread") == [1, 3]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("settings", "cores"),
    [
        ({}, [None]),
        ({"cores": 2}, ["0,1"]),
        ({"cores": 2, "bind": "compact"}, ["0,4"]),
        ({"cores": 2, "bind": "spread"}, ["0,2"]),
        ({"bind": "spread"}, ["0,2,1,3"]),
        ({"devices": 2, "cores": 2, "bind": "compact"}, ["0,4", "1,5"]),
        ({"devices": 2, "bind": "spread"}, ["0,2", "1,3"]),
    ],
)
def test_each_process_gets_its_cores(settings: dict[str, int | str], cores: list[str | None]) -> None:
    cell = Cell("imdb_lstm", "pytorch").but(**settings)
    assert [each.get("SUITE_CORES") for each in ranks.environments(cell, "cpu")] == cores


@pytest.mark.usefixtures("machine")
def test_more_cores_than_there_are_cannot_be_had() -> None:
    assert (
        ranks.impossible(Cell("imdb_lstm", "jax", cores=9), "cpu") == "the cell needs 9 cores, and 8 can be used here"
    )
    assert not ranks.impossible(Cell("imdb_lstm", "jax", cores=8), "cpu")


def test_the_interface_that_is_named_gives_the_address() -> None:
    assert own_address({"SUITE_INTERFACE": "lo", "SUITE_ADDRESS": "10.1.2.3"}) == "127.0.0.1"
    assert own_address({"SUITE_ADDRESS": "10.1.2.3", "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1"}) == "10.1.2.3"
    assert own_address({"SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1"}) == towards("127.0.0.1") == "127.0.0.1"


def test_an_interface_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(ValueError, match=r"SUITE_INTERFACE is 'ib7'; this host has .*lo"):
        own_address({"SUITE_INTERFACE": "ib7"})


def test_ranks_of_several_hosts_know_the_address_and_the_interface_of_their_own() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("10.255.255.254") == ""
    cell = Cell("imdb_lstm", "jax", devices=2)
    (own,) = ranks.environments(cell, "cpu", part=HostRanks(1, 1, 2, "10.0.0.1:7000", "127.0.0.1", "secret"))
    assert (own["SUITE_ADDRESS"], own["SUITE_INTERFACE"]) == ("127.0.0.1", "lo")
    first, _ = ranks.environments(cell, "cpu")
    assert (first["SUITE_ADDRESS"], first["SUITE_INTERFACE"]) == ("127.0.0.1", "lo")


def test_the_interface_is_no_difference_between_one_device_and_several() -> None:
    assert select_variables({"NCCL_SOCKET_IFNAME": "eth0", "NCCL_ALGO": "Ring"}) == {"NCCL_ALGO": "Ring"}

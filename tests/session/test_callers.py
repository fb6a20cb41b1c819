"""Hosts that call the controller, as pods do: here processes of this host."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from suite.plan.cell import Cell
from suite.record.order import Order
from suite.record.record import Outcome
from suite.session.engines import Hear, HostLostError, callers
from suite.session.engines.callers import Callers
from suite.session.engines.choice import sites
from suite.session.engines.dial import DialError, called, host_number
from suite.session.launch import LaunchError
from tests.launches import JOB, StandIn
from tests.processes import wait_until

ROOT = Path(__file__).parents[2]
CELL = Cell("imdb_lstm", "jax", devices=2)
SETTINGS = {"device": "cpu", "source": "synthetic", "directory": None}
TOKEN = "a secret of the tests"

Dial = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def dial(port: int, twins: Path) -> Iterator[Dial]:
    """Starts a host that calls."""
    with ExitStack() as started:

        def start(number: int, token: str = TOKEN) -> subprocess.Popen[str]:
            own = {"SUITE_CONTROLLER": f"127.0.0.1:{port}", "SUITE_TOKEN": token, "JOB_COMPLETION_INDEX": str(number)}
            own |= {"SUITE_CACHE_DIR": str(twins), "PYTHONPATH": str(ROOT)}
            process = subprocess.Popen(
                [sys.executable, "-m", "suite.session.engines.dial"], env=os.environ | own, cwd=ROOT,
                stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            started.enter_context(process)
            started.callback(process.kill)
            return process

        yield start


def answering(port: int, until: ExitStack, hosts: int = 2) -> Callers:
    variables = {"SUITE_CONTROLLER": f"here:{port}", "SUITE_TOKEN": TOKEN, "SUITE_HOSTS": str(hosts)}
    return Callers(SETTINGS, lambda _: None, until, variables)


@pytest.mark.launches
def test_pods_call_launch_together_and_go_home_when_the_run_is_over(
    dial: Dial, port: int, stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(callers, "HANDSHAKE_S", 1)
    stand_in("send(part={'outcome': {'status': 'unsupported', 'reason': f\"{os.environ['SUITE_WORLD_SIZE']} ranks\"}})")
    pods = [dial(number) for number in (0, 1)]
    with ExitStack() as until, socket.socket() as stranger:
        nodes = answering(port, until)
        stranger.connect(("127.0.0.1", port))  # says nothing, and keeps nobody out for long
        (site,) = sites(nodes, [CELL], "spread", lambda _: None)
        assert site.about.name == "host0000+host0001"
        site.prepare("imdb_lstm")
        order = Order(replace(JOB, cell=CELL, device="cpu"), 60.0)
        record = site.launch(order, tmp_path / "logs" / "launch.log", Hear())
        assert record.outcome == Outcome("unsupported", "2 ranks")
        stranger.close()
    assert [pod.wait(30) for pod in pods] == [0, 0]


@pytest.mark.launches
def test_a_pod_that_was_lost_calls_again(dial: Dial, port: int) -> None:
    pod = dial(3)
    with ExitStack() as until:
        nodes = answering(port, until, hosts=1)
        host = nodes.host("host0003")
        (process,) = (int(each) for each in Path(f"/proc/{pod.pid}/task/{pod.pid}/children").read_text().split())
        os.kill(process, signal.SIGKILL)
        with pytest.raises(HostLostError, match="host0003"):
            host.port()
        wait_until(lambda: "host0003" in nodes.nodes())
        assert nodes.host("host0003").port()
    assert pod.wait(30) == 0


@pytest.mark.launches
def test_another_secret_is_refused(dial: Dial, port: int) -> None:
    with ExitStack() as until:
        right = dial(0)
        wrong = dial(1, "another")
        answering(port, until, hosts=1)
        assert wrong.wait(30) == 1
        assert wrong.stderr
        assert "has another SUITE_TOKEN" in wrong.stderr.read()
    assert right.wait(30) == 0


def test_what_is_missing_is_named() -> None:
    with ExitStack() as until, pytest.raises(LaunchError, match=r"set SUITE_HOSTS .*clusters/kubernetes/cell\.yaml"):
        Callers(SETTINGS, lambda _: None, until, {})
    with pytest.raises(DialError, match="SUITE_CONTROLLER must be host:port"):
        called({})
    with pytest.raises(DialError, match="set SUITE_HOST_NUMBER"):
        host_number({})
    assert host_number({"SLURM_PROCID": "4"}) == 4

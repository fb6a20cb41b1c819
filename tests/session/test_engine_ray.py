"""A Ray cluster of several nodes on this machine: a matrix, a launch over two nodes, and what is lost on the way."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.processes import wait_until
from tests.ray_nodes import GOOD, REAL, Nodes, nodes_in
from tests.sessions import Done, Suite, records_of

pytest.importorskip("ray.cluster_utils", reason="Ray is not installed: tox run -e ray")

pytestmark = [pytest.mark.launches, pytest.mark.ray]

MATRIX = ("--workload", "imdb_lstm", "--framework", "jax,pytorch", "--batch", "16,32", "--no-control")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory, twins: Path) -> Iterator[Nodes]:
    """A head that takes no launches, and two nodes."""
    with nodes_in(tmp_path_factory.mktemp("nodes"), twins) as made:
        yield made


@pytest.fixture
def on_ray(suite: Suite, nodes: Nodes) -> Suite:
    suite.environment["RAY_ADDRESS"] = nodes.cluster.address
    return suite


def held(done: Done) -> list[Any]:
    """The records of the saved run and of the journal, each of them exactly once."""
    (saved,) = done.saved.values()
    found = records_of(saved)
    (journal,) = done.journals
    lines = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    keys = Counter((line["cell"]["framework"], line["cell"]["batch"], line["launch"]) for line in lines)
    assert set(keys.values()) == {1}
    assert len(keys) == len(found) == len({record.key for record in found})
    return found


def start(on_ray: Suite, *more: str) -> Any:
    return on_ray.start("suite/test_training.py", "--on", "ray", "--benchmark-save=x", *MATRIX, *more)


def test_a_node_that_is_killed_in_mid_matrix_costs_no_launch(on_ray: Suite, nodes: Nodes) -> None:
    nodes.does(GOOD, seconds=0.5)
    third = nodes.add()
    process = start(on_ray, "--launches", "6")
    wait_until(lambda: len({line[4] for line in nodes.launched}) == 3 and len(nodes.launched) > 5, 120)
    nodes.cluster.remove_node(third, allow_graceful=False)
    done = on_ray.end(process)
    assert done.status == 0, done.output
    found = held(done)
    assert len(found) == 24
    assert all(record.outcome.ok for record in found)
    by_block: dict[int, set[str]] = {}
    for record in found:
        by_block.setdefault(record.block, set()).add(record.host)
    assert len({host for each in by_block.values() for host in each}) == 3
    assert sum(len(each) > 1 for each in by_block.values()) <= 1, "only the block that lost its host is on two"
    assert "its launches run again" in done.output
    nodes.leave_nothing()


@pytest.mark.parametrize("victim", ["os.getppid()", "psutil.Process(os.getppid()).ppid()"], ids=["process", "actor"])
def test_a_host_whose_launcher_is_killed_goes_on(on_ray: Suite, nodes: Nodes, victim: str) -> None:
    once = f"""
    import psutil
    if not (folder / "killed").exists():
        (folder / "killed").touch()
        os.kill({victim}, 9)
        time.sleep(60)
    """
    nodes.does(dedent(once) + GOOD)
    (nodes.folder / "killed").unlink(missing_ok=True)
    done = on_ray.end(start(on_ray, "--launches", "2"))
    assert done.status == 0, done.output
    assert len(held(done)) == 8
    nodes.leave_nothing()


def test_a_launch_that_always_kills_its_host_is_a_result(on_ray: Suite, nodes: Nodes) -> None:
    nodes.does("if job['cell']['framework'] == 'jax': os.kill(os.getppid(), 9); time.sleep(60)" + GOOD)
    done = on_ray.end(start(on_ray, "--launches", "1", "--batch", "16"))
    assert done.status == 1, done.output
    found = {record.cell.framework: record.outcome for record in held(done)}
    assert found["pytorch"].ok
    assert (found["jax"].status, found["jax"].reason) == ("crashed", "its host was lost 3 times while it ran")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_controller_that_is_ended_leaves_nothing_and_resume_completes(
    on_ray: Suite, nodes: Nodes, number: signal.Signals
) -> None:
    nodes.does(GOOD, seconds=0.5)
    process = start(on_ray, "--launches", "2")
    wait_until(lambda: len(nodes.launched) > 3, 120)
    process.send_signal(number)
    ended = on_ray.end(process)
    assert "Traceback" not in ended.output
    for path in (on_ray.folder / "runs").rglob("*.json"):  # of the launches until then
        path.unlink()
    nodes.leave_nothing()
    done = on_ray.end(start(on_ray, "--launches", "2", "--resume"))
    assert done.status == 0, done.output
    assert len(held(done)) == 8


def test_the_ranks_of_a_launch_are_on_two_nodes(on_ray: Suite, nodes: Nodes) -> None:
    nodes.does(GOOD)
    more = ("--devices", "2", "--batch", "16", "--placement", "spread", "--launches", "1")
    done = on_ray.end(start(on_ray, *more))
    assert done.status == 0, done.output
    found = held(done)
    assert len(found) == 2
    assert all(record.metrics["hosts"] == 2 and record.host.count("+") == 1 for record in found)
    assert len({line[4] for line in nodes.launched}) == 2, "the processes of two hosts started them"
    nodes.leave_nothing()


def test_a_real_launch(on_ray: Suite, nodes: Nodes) -> None:
    pytest.importorskip("torch")
    nodes.does(REAL)
    done = on_ray.end(
        on_ray.start(
            "suite/test_training.py", "--on", "ray", "--benchmark-save=x", "--workload", "imdb_lstm", "--framework",
            "pytorch", "--size", "small", "--batch", "16", "--launches", "1", "--min-window", "0.02",
        )
    )  # fmt: skip
    assert done.status == 0, done.output
    (record,) = held(done)
    assert record.identity
    assert record.environment["variables"].get("OMP_NUM_THREADS") == os.environ.get("OMP_NUM_THREADS")
    assert "LD_PRELOAD" not in record.environment["variables"] or "LD_PRELOAD" in os.environ


def test_without_a_cluster_one_line_says_how_to_start_one(suite: Suite) -> None:
    suite.environment["RAY_ADDRESS"] = "127.0.0.1:1"
    done = suite("suite/test_training.py", "--on", "ray", "--benchmark-save", *MATRIX)
    assert done.status == 4
    (line,) = [line for line in done.output.splitlines() if "no Ray cluster" in line]
    assert "ray start --head" in line
    assert not done.saved

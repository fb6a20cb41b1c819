"""The nodes of an allocation of SLURM as hosts: by stand-ins for its commands, and by a real one where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.plan.cell import Cell
from suite.record.record import Outcome
from suite.session.engines.slurm import Node, Slurm, find_nodes, read_counts, step
from suite.session.hosts.cluster import group_hosts
from suite.session.hosts.group import HostGroup
from suite.session.hosts.remote import HostLostError
from suite.session.launches.launch import LaunchError
from suite.session.launches.machine import LaunchCallbacks
from tests.clusters import allocate
from tests.launches import JOB, StandIn
from tests.processes import alive, wait_until

CELL = Cell("imdb_lstm", "jax", devices=2)
SETTINGS = {"device": "cpu", "source": "synthetic", "directory": None}

BEGIN = """
rank = int(os.environ['SUITE_RANK'])
own = {name: os.environ.get(name) for name in ('SUITE_ADDRESS', 'SUITE_INTERFACE', 'SUITE_LOCAL_RANK')}
send(progress='train', pids=[os.getpid()], own=own)
"""


@pytest.fixture
def site(stand_in: StandIn, twins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostGroup]:
    """Two nodes, on which the ranks of a launch are spread; the second is killed."""
    stand_in(BEGIN + "os.kill(os.getpid(), 9) if rank else time.sleep(60)")
    monkeypatch.setenv("SUITE_CACHE_DIR", str(twins))
    monkeypatch.setattr("suite.session.hosts.group.GRACE_S", 1.0)
    allocate(monkeypatch, tmp_path)
    with ExitStack() as until:
        (found,) = group_hosts(Slurm(SETTINGS, lambda _: None, until), [CELL], "spread", lambda _: None)
        yield found


@pytest.mark.launches
def test_the_ranks_of_a_launch_are_on_two_nodes_and_a_killed_one_is_named(site: HostGroup, tmp_path: Path) -> None:
    assert [host.name for host in site.hosts] == ["node0000", "node0001"]
    site.prepare("imdb_lstm")
    told: list[dict[str, Any]] = []
    began_s = time.monotonic()
    job, log = replace(JOB, cell=CELL, device="cpu"), tmp_path / "logs" / "launch.log"
    record = site.launch(job, log, 60.0, LaunchCallbacks(told.append))
    assert record.outcome == Outcome("crashed", "rank 1 of 2 failed in train: ended by signal SIGKILL")
    assert time.monotonic() - began_s < 30
    assert told[0]["own"] == {"SUITE_ADDRESS": "127.0.0.1", "SUITE_INTERFACE": "lo", "SUITE_LOCAL_RANK": "0"}
    wait_until(lambda: not alive(told[0]["pids"][0]))


@pytest.mark.launches
def test_each_node_has_a_step_with_all_that_the_allocation_has_there(site: HostGroup, tmp_path: Path) -> None:
    first, second = sorted((tmp_path / "srun-said").read_text().splitlines())
    assert "--nodelist=one --cpus-per-task=2" in first
    assert "--nodelist=two --cpus-per-task=2" in second
    assert first.endswith("-m suite.session.hosts.agent")


@pytest.mark.launches
def test_a_step_that_srun_refuses_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allocate(monkeypatch, tmp_path, "import sys\nsys.exit('srun: error: no such node')")
    with ExitStack() as until:
        nodes = Slurm(SETTINGS, lambda _: None, until)
        with pytest.raises(HostLostError, match="host node0001 is lost: srun: error: no such node"):
            nodes.host(nodes.nodes()["node0001"])


@pytest.mark.parametrize(
    ("text", "numbers"), [("4(x2),1", [4, 4, 1]), ("16", [16]), ("2,3(x3)", [2, 3, 3, 3]), ("", [])]
)
def test_a_list_of_numbers(text: str, numbers: list[int]) -> None:
    assert read_counts(text) == numbers


def test_without_an_allocation_the_error_says_how_to_get_one() -> None:
    with pytest.raises(LaunchError, match=r"clusters/slurm/cell\.sbatch.*salloc"):
        find_nodes({})


def test_nodes_have_names_that_tell_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allocate(monkeypatch, tmp_path)
    assert find_nodes() == [Node("node0000", "one", 2), Node("node0001", "two", 2)]
    assert "--cpus-per-task=2" in step(find_nodes()[0])


def answers() -> bool:
    """Whether a SLURM answers here."""
    return (
        bool(shutil.which("sinfo")) and not subprocess.run(["sinfo", "-h"], capture_output=True, check=False).returncode
    )


@pytest.mark.slow
@pytest.mark.launches
def test_a_real_slurm_starts_the_hosts(tmp_path: Path, twins: Path) -> None:
    if not answers():
        pytest.skip("no SLURM answers here")
    root = Path(__file__).parents[2]
    words = (
        f"salloc --nodes=1 --exclusive {sys.executable} -m pytest {root / 'suite'} -c {root / 'pyproject.toml'} "
        f"--rootdir {root} -p no:cacheprovider --journals {tmp_path} --on slurm --devices 2 --workload imdb_lstm "
        "--framework pytorch --size small --batch 8 --launches 1 --min-window 0.02 --data synthetic --device cpu"
    )
    environment = os.environ | {"SUITE_CACHE_DIR": str(twins)}
    done = subprocess.run(
        words.split(), cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert "1 passed" in done.stdout, done.stdout + done.stderr

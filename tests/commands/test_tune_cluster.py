"""A search on a cluster: blocks side by side, each on one host, and the same answer as on one host."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from suite.plan.cell import Cell
from suite.record.job import Job
from suite.record.record import Outcome, Record
from suite.session import run as runs
from suite.session import storage
from suite.session.hosts.cluster import Cluster
from suite.session.journal import read
from suite.session.launches.machine import HostInfo, LaunchCallbacks
from suite.tune import show
from suite.tune.__main__ import main
from tests.tuning import Behaviour, Launcher, arguments, usual_rate


class Fake:
    """A host whose launches are a stand-in's."""

    def __init__(self, name: str, launcher: Launcher) -> None:
        self.name, self.about, self.launcher = name, HostInfo(name), launcher
        self.hosts, self.data = [self], dict.fromkeys(("imdb_lstm", "cifar100_cnn"), "digest")

    def prepare(self, workload: str) -> None: ...

    def launch(self, job: Job, log: Path, deadline_s: float, callbacks: LaunchCallbacks) -> Record:
        return self.launcher(job)


def searched(monkeypatch: pytest.MonkeyPatch, folder: Path, hosts: int, behave: Behaviour, *more: str) -> list[Record]:
    """What the journal of a search on so many hosts holds."""
    groups: list[Any] = [Fake(f"host{at}", Launcher(behave)) for at in range(hosts)]
    cluster = Cluster(pytest.fail, groups)  # type: ignore[arg-type] - none is lost
    monkeypatch.setattr(runs, "open_cluster", lambda *_: cluster)
    monkeypatch.setattr(show, "race_plot", lambda _: None)
    monkeypatch.setattr(storage.benchmarks, "pytest_benchmark_generate_machine_info", lambda: {"node": "here"})
    assert main(arguments(folder, "--on", "ray", *more)) == 0
    (journal,) = (folder / "journals").glob("*.jsonl")
    return read(journal)[1]


def recommended(folder: Path) -> list[str]:
    (race,) = json.loads((folder / "output" / "answer.json").read_text())["races"]
    return list(race["recommended"])


@pytest.mark.parametrize("hosts", [1, 3])
def test_a_search_on_a_cluster_recommends_the_same_and_keeps_blocks_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hosts: int
) -> None:
    found = searched(monkeypatch, tmp_path, hosts, usual_rate)
    assert recommended(tmp_path) == ["imdb_lstm-pytorch-bf16-b128-eager-tuned"]
    assert len({record.key for record in found}) == len(found), "none ran twice"
    by_block: dict[int, set[str]] = {}
    for record in found:
        by_block.setdefault(record.block, set()).add(record.host)
    assert all(len(each) == 1 for each in by_block.values()), by_block
    assert set().union(*by_block.values()) <= {f"host{at}" for at in range(hosts)}


def test_a_launch_that_crashed_is_tried_again_beside_its_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tries: Counter[tuple[Cell, int]] = Counter()

    def behave(cell: Cell, number: int) -> float | Outcome:
        tries[cell, number] += 1
        odd = (cell.framework, cell.batch, number) == ("jax", 32, 0)
        return Outcome("crashed", "why") if odd and tries[cell, number] == 1 else usual_rate(cell, number)

    found = searched(monkeypatch, tmp_path, 2, behave)
    again = [record for record in found if record.cell.framework == "jax" and record.block == 0]
    assert {record.outcome.status for record in again} == {"crashed", "ok"}
    assert len({record.host for record in again}) == 1


def test_no_launch_is_made_beyond_the_budget(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = searched(monkeypatch, tmp_path, 3, usual_rate, "--budget", "12launches")
    assert len(found) <= 12

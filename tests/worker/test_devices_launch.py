"""Launches with several devices: a training to the end, killed and gone on with, and a profile with communication."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from suite.plan.cell import REFERENCE_STRATEGY, Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.parts.environment import own_cores
from suite.record.record import Record
from suite.session.launches.launch import launch
from suite.worker.distributed.ranks import Ranks
from suite.worker.launch import training as training_loop
from tests.frameworks import needs_deepspeed, needs_frameworks
from tests.launches import network_of
from workloads.data.cache import folder_of
from workloads.spec import specification

needs_cores = pytest.mark.skipif(len(own_cores()) < 2, reason="two ranks need two cores")
real = [needs_frameworks, needs_cores, pytest.mark.launches, pytest.mark.slow]

TRAINED = [
    ("imdb_lstm", "pytorch", "ddp"),
    ("imdb_lstm", "pytorch", "fsdp"),
    ("imdb_lstm", "pytorch", "deepspeed"),
    ("imdb_lstm", "tensorflow", "multiworker"),
    ("imdb_lstm", "tensorflow", "mirrored"),
    ("imdb_lstm", "jax", "shard-map"),
    ("imdb_lstm", "jax", "jit"),
    ("imdb_lstm", "jax", "split"),
    ("cifar100_resnet18", "tensorflow", "synchronised"),
    ("cifar100_resnet18", "jax", "jit"),
]


def job(twins: Path, programs: str, cell: Cell, **settings: Any) -> Job:
    data = folder_of(twins, specification(cell.workload).data, "synthetic")
    return Job(cell, str(data), seed=3, device="cpu", plan=Plan(0.02, 2, 0.2), programs=programs, **settings)


def launched(asked: Job, tmp_path: Path) -> Record:
    with ExitStack() as until:
        network_of(asked.cell, until)
    record = launch(asked, tmp_path / "log", 400.0)
    assert record.outcome.ok, (record.outcome, record.log)
    return record


@pytest.mark.parametrize(
    ("workload", "framework", "strategy"),
    [pytest.param(*case, marks=[*real, needs_deepspeed] if "deepspeed" in case else real) for case in TRAINED],
)
def test_two_devices_train_to_the_end_as_one_does_and_go_on_from_a_checkpoint(
    twins: Path, programs: str, tmp_path: Path, workload: str, framework: str, strategy: str
) -> None:
    """Two devices of batch 8 and one of batch 16, by the same recipe; then two of three epochs, and the third."""
    cell = Cell(workload, framework, batch=8, size="small", recipe="linear", devices=2, strategy=strategy)
    asked = {"epochs": 2, "target": 0.999}
    path = str(tmp_path / "a.checkpoint")
    several = launched(job(twins, programs, cell, checkpoint=path, **asked), tmp_path)
    one = launched(job(twins, programs, cell.but(devices=1, batch=16), **asked), tmp_path)
    assert several.course is not None
    assert one.course is not None
    rounded = workload == "cifar100_resnet18"  # whose steps at this rate amplify the rounding of float32
    alike = 2 if rounded else len(one.course.curve)
    assert several.course.curve[:alike] == pytest.approx(one.course.curve[:alike], rel=1e-3)
    for mine, theirs in zip(several.course.epochs, one.course.epochs, strict=True):
        assert mine.test_loss == pytest.approx(theirs.test_loss, rel=0.5 if rounded else 1e-2)
        assert mine.steps == theirs.steps
    assert several.workload["digest"] == one.workload["digest"]
    assert several.ranks is not None
    assert (several.ranks.devices, several.ranks.skew) == (2, None)
    for record in (several, one):
        assert (record.identity.last.equal, record.identity.last.replayed) == (True, 0.0)
    if strategy != "deepspeed":  # which has no float64
        for record in (several, one):
            assert record.identity is not None
            assert record.identity.optimizer is not None
            assert record.identity.optimizer < 1e-9
        assert several.identity.evaluation.losses == pytest.approx(one.identity.evaluation.losses, rel=1e-9)

    again = launched(job(twins, programs, cell, checkpoint=path, **asked), tmp_path)
    assert again.course is not None
    assert again.course.resumed_at == (2,)
    assert again.course.epochs == several.course.epochs


@pytest.mark.parametrize(
    ("framework", "strategy"), [pytest.param(*case, marks=real) for case in REFERENCE_STRATEGY.items()]
)
def test_a_profile_of_two_devices_has_communication(
    twins: Path, programs: str, tmp_path: Path, framework: str, strategy: str
) -> None:
    cell = Cell("imdb_lstm", framework, batch=16, size="small", devices=2, strategy=strategy)
    record = launched(job(twins, programs, cell, profile=True, traces=str(tmp_path / "run" / "cell")), tmp_path)
    profile = record.profile
    assert profile, record.log
    assert profile.categories["communication"].seconds > 0
    assert profile.other < 0.05
    assert any(each.category == "communication" for each in profile.operations)
    assert record.settings["peak_bytes_per_s"] > 1e8
    assert (tmp_path / "run" / profile.trace).is_file()


def together(*calls: Any) -> list[Any]:
    """What functions return that wait for each other, each given its rank of all."""
    pipes = [Pipe() for _ in calls[1:]]
    ranks = [Ranks(0, len(calls), 0, _peers=[own for own, _ in pipes])]
    ranks += [Ranks(number, len(calls), number, _peers=[other]) for number, (_, other) in enumerate(pipes, 1)]
    found: list[Any] = [None] * len(calls)

    def run(number: int) -> None:
        found[number] = calls[number](ranks[number])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    for own, other in pipes:
        own.close()
        other.close()
    return found


def test_a_checkpoint_holds_once_what_all_ranks_share_and_by_rank_what_differs() -> None:
    shared = np.arange(6.0)
    arrays = [{"model/weight": shared, "random/cpu": np.array([rank, 7])} for rank in range(3)]
    all_of_them, *others = together(*(lambda ranks, own=own: training_loop.of_all(own, ranks) for own in arrays))
    assert all_of_them.keys() == {"model/weight", "random/cpu", "rank1/random/cpu", "rank2/random/cpu"}
    assert [each.keys() for each in others] == [arrays[0].keys()] * 2
    for rank, own in enumerate(arrays):
        back = training_loop.of_rank(all_of_them, rank)
        assert back.keys() == own.keys()
        assert all((back[name] == own[name]).all() for name in own)


def test_ranks_that_read_different_checkpoints_begin_anew(tmp_path: Path) -> None:
    from suite.worker.launch.training import Saved

    progress = {"epochs": [], "curve": [1.0], "resumed_at": []}
    key = {"of": "a test"}
    for name, epochs in (("a", progress), ("b", progress | {"curve": [2.0]})):
        training_loop.write_checkpoint(tmp_path / name, key, epochs, {"x": np.zeros(1)})

    def read(name: str, own: Any = key) -> Any:
        return lambda ranks: Saved(str(tmp_path / name), own, ranks).curve

    assert together(read("a"), read("a")) == [[1.0], [1.0]]
    assert together(read("a"), read("a", {"of": "rank 0's is taken"})) == [[1.0], [1.0]]
    assert together(read("a"), read("b")) == [[], []]
    assert together(read("a"), read("none")) == [[], []]

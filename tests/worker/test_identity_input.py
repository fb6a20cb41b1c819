"""What reaches the three models is the same, bit for bit: through every loader, over the end of an epoch."""

from __future__ import annotations

import multiprocessing
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from suite.plan.cell import Cell, Loader
from tests.frameworks import batches, each_framework, has_dali, needs_frameworks, training
from workloads.data import synthetic
from workloads.data.augment import epoch
from workloads.data.dataset import Array, DataSet, Split
from workloads.spec import specification

pytestmark = [needs_frameworks, pytest.mark.long]

SAMPLES, SEED = 2000, 5  # long enough that caches, queues and worker processes take many turns in an epoch
#: One workload per data set, of those that take it as it is: what is loaded depends on nothing else.
LOADED = ("cifar100_cnn", "imdb_lstm")
BATCHES = (64, 100)  # the first does not divide the samples: the last 16 of an epoch are dropped
SETTINGS = [
    (BATCHES[0], Loader()),
    (BATCHES[0], Loader("workers", 0)),
    (BATCHES[0], Loader("workers", 2)),
    (BATCHES[1], Loader("workers", 1)),
    (BATCHES[0], Loader("naive")),
    (BATCHES[0], Loader("resident")),
    (BATCHES[1], Loader(cache=True)),
    *([(BATCHES[1], Loader("dali"))] if has_dali else []),
]

Load = tuple[str, int, Loader]
LOADS: list[Load] = [(workload, batch, loader) for workload in LOADED for batch, loader in SETTINGS]


def quick(workload: str, batch: int, loader: Loader) -> bool:
    """Processes take seconds to start: images come through one of them, and reviews through two."""
    del batch
    return loader.kind != "workers" or not loader.workers or (loader.workers == 1) == (workload == "cifar100_cnn")


each_load = pytest.mark.parametrize(
    ("workload", "batch", "loader"),
    [
        pytest.param(*load, id=f"b{load[1]}-{load[2].id}-{load[0]}", marks=[] if quick(*load) else [pytest.mark.slow])
        for load in LOADS
    ],
)


@dataclass
class Delivery:
    """What a loader delivered, and which processes it had."""

    batches: list[tuple[Array, Array]]
    settings: dict[str, Any]
    processes: int
    left: list[str]


def count(batch: int) -> int:
    """A whole epoch and two batches more."""
    return SAMPLES // batch + 2


def deliver(framework: str, folder: Path, loads: list[Load]) -> dict[Load, Delivery]:
    """What a framework's loaders deliver."""
    loaders, found = import_module(f"suite.worker.loaders.{framework}"), {}
    there = {each.pid for each in children()}
    for workload in dict.fromkeys(name for name, *_ in loads):
        data, spec = opened(folder, workload), specification(workload, "small")
        with training(workload, framework, "fp32") as running:
            for batch, kind in [rest for name, *rest in loads if name == workload]:
                cell = Cell(workload, framework, batch=batch, loader=kind, size="small")
                loader = loaders.batches(cell, batches(spec, batch, SEED, data), "cpu", running.put)
                got = [running.get(next(loader)) for _ in range(count(batch))]
                started = [each for each in children() if each.pid not in there]
                loader.close()
                _, alive = psutil.wait_procs(started, timeout=20)
                left = [command(process) for process in alive]
                found[workload, batch, kind] = Delivery(got, loader.settings, len(started), left)
    return found


def delivered(framework: str, folder: Path, loads: list[Load]) -> dict[Load, Delivery]:
    """The same in a process of its own, as a worker does it; but for TensorFlow, whose loaders have threads only."""
    if framework == "tensorflow":
        with warnings.catch_warnings():  # as in a worker
            warnings.simplefilter("ignore")
            return deliver(framework, folder, loads)
    process = multiprocessing.get_context("spawn").Process(target=into_file, args=(framework, folder, loads))
    process.start()
    process.join(300)
    process.kill()
    process.join()
    assert process.exitcode == 0, f"{framework}: exit code {process.exitcode}"
    found: dict[Load, Delivery] = pickle.loads((folder / framework).read_bytes())
    return found


def children() -> list[psutil.Process]:
    """Processes that this one started and that run, but for Python's own helper, which lives as long as it does."""
    started = psutil.Process().children(recursive=True)
    return [each for each in started if command(each) and "resource_tracker" not in command(each)]


def command(process: psutil.Process) -> str:
    """The command line; empty where the process has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def opened(folder: Path, workload: str) -> DataSet:
    """Memory-mapped, as workers open them."""
    name = specification(workload).data
    split = Split(*(np.load(folder / f"{name}_{part}.npy", mmap_mode="r") for part in ("inputs", "labels")))
    return DataSet(name, "synthetic", "", split, split)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data")
    for name in ("cifar100", "imdb"):
        split = synthetic.generate(name, SAMPLES, 100).train
        np.save(path / f"{name}_inputs.npy", split.inputs)
        np.save(path / f"{name}_labels.npy", split.labels)
    return path


@pytest.fixture(scope="module")
def deliveries(folder) -> Callable[..., Delivery]:
    """What a loader delivered; all that are quick are asked for at once."""
    done: dict[tuple[str, Load], Delivery] = {}

    def of(framework: str, *load: Any) -> Delivery:
        if (framework, load) not in done:
            chosen = [each for each in LOADS if quick(*each)] if quick(*load) else [load]
            done.update({(framework, each): got for each, got in delivered(framework, folder, chosen).items()})
        return done[framework, load]

    return of


def into_file(framework: str, folder: Path, loads: list[Load]) -> None:
    (folder / framework).write_bytes(pickle.dumps(deliver(framework, folder, loads)))


@each_framework
@each_load
def test_as_many_workers_as_asked_deliver_the_reference_over_the_end_of_an_epoch(
    deliveries, folder, workload, framework, batch, loader
):
    reference = batches(specification(workload, "small"), batch, SEED, opened(folder, workload))
    assert reference.per_epoch < count(batch)
    for number, (inputs, labels) in enumerate(deliveries(framework, workload, batch, loader).batches):
        for what, got, expected in zip(("inputs", "labels"), (inputs, labels), reference[number], strict=True):
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape), f"{what} of batch {number}"
            assert got.tobytes() == expected.tobytes(), f"{what} of batch {number}"
    found = deliveries(framework, workload, batch, loader)
    if framework == "tensorflow":  # whose workers are threads
        assert found.processes == 0
        assert found.settings["workers"] == ("autotune" if loader.kind == "tuned" else loader.workers)
    else:
        assert found.processes == found.settings["workers"] == loader.workers
    assert found.left == [], "closing leaves no process behind"


@each_framework
def test_the_batch_size_does_not_change_what_is_done_to_a_sample(deliveries, framework):
    order = epoch(SEED, 0, SAMPLES).order
    by_sample = []
    for batch, loader in zip(BATCHES, (Loader(), Loader("workers", 1)), strict=True):
        got = deliveries(framework, "cifar100_cnn", batch, loader).batches[: SAMPLES // batch]
        images = np.concatenate([inputs for inputs, _ in got])
        by_sample.append(dict(zip(order[: len(images)].tolist(), images, strict=True)))
    small, large = by_sample
    assert len(small) == 1984
    assert len(large) == SAMPLES
    assert all(np.array_equal(small[sample], large[sample]) for sample in small)

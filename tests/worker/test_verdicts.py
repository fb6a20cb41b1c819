"""Verdicts and flags provoked for real: a loader slowed on purpose, a tiny batch, a busy neighbour."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from suite.analysis.bottlenecks.bottleneck import bottleneck
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.monitor.sampler import Monitor
from suite.plan.cell import Cell, Loader
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.record import Record
from suite.session.launches.launch import ROOT, launch
from tests.frameworks import needs_frameworks
from tests.launches import SITE
from workloads.data import cache as caches
from workloads.data import synthetic

pytestmark = [needs_frameworks, pytest.mark.alone]

CELL = Cell("imdb_lstm", "pytorch", batch=128, size="small")

#: Besides, there is no evidence before the windows, and reference batches take so many seconds longer, and ever more.
SLOWED = f"""{SITE}
    import os, time
    from workloads.data.augment import Batches
    def slowed(self, number, original=Batches.__getitem__):
        time.sleep(float(os.environ["SLOWED_S"]) + number * float(os.environ["GROWS_S"]))
        return original(self, number)
    Batches.__getitem__ = slowed
    Evidence.fingerprint = lambda self: {{}}
"""

Run = Callable[..., Record]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    caches.write(synthetic.generate("imdb", train=8192, test=16), folder)
    return caches.folder_of(folder, "imdb", "synthetic")


@pytest.fixture(scope="module")
def run(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Launches a cell under a monitor, its loader slowed by so many seconds a batch."""
    site = tmp_path_factory.mktemp("site")
    (site / "sitecustomize.py").write_text(SLOWED)

    def ran(
        cell: Cell = CELL, slowed_s: float = 0.0, grows_s: float = 0.0, limit: int | None = None,
        plan: Plan = Plan(min_window_s=0.1, windows=4, max_warmup_s=0.6),  # noqa: B008 - frozen
    ) -> Record:  # fmt: skip
        job = Job(cell, str(data), device="cpu", plan=plan, memory_limit=limit)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(site)]))
            patch.setenv("SLOWED_S", str(slowed_s))
            patch.setenv("GROWS_S", str(grows_s))
            patch.setenv("OMP_NUM_THREADS", "1")  # threads that wait for each other would make a neighbour costly
            record = launch(job, site / "log", watch=Monitor)
        assert record.outcome.ok or limit, record
        return record

    return ran


@pytest.fixture(scope="module")
def starved(run: Run) -> Record:
    """A launch whose loader is slower than its steps, and becomes ever slower."""
    # The first window of training finds a full queue; the longer it may be, the more slow batches the others have.
    return run(slowed_s=0.03, grows_s=0.003, plan=Plan(min_window_s=0.05, windows=4, max_warmup_s=0.3))


def verdict(*records: Record) -> str:
    """On the first of them, each taken for two launches: what one shows is tested here, not what two scatter."""
    twice = [replace(record, launch=launch) for record in records for launch in range(2)]
    (one,) = group([Launch(record, "run", "file") for record in twice])
    return bottleneck(next(row for row in one.rows if row.cell == records[0].cell), one).kind


def test_a_loader_slower_than_the_steps_is_named(run: Run, starved: Record) -> None:
    tries = (verdict(record or run(slowed_s=0.06)) for record in (starved, None, None))  # others may have the machine
    assert "input-bound" in tries


@pytest.mark.slow
def test_a_loader_that_does_not_overlap_is_named(run: Run, starved: Record) -> None:
    slowed_s = 0.5 * starved.phases["compute"].step_s
    tries = (verdict(run(slowed_s=slowed_s)) for _ in range(3))  # others may have the machine
    assert "poor overlap" in tries


@pytest.mark.slow
def test_data_on_the_device_leaves_the_steps_as_the_limit(run: Run) -> None:
    tries = (verdict(run(CELL.but(loader=Loader("resident")))) for _ in range(3))  # others may have the machine
    assert "compute-bound" in tries


def test_steps_that_take_ever_longer_are_unsteady(run: Run, starved: Record) -> None:
    """By more with each try, since beside other programs a step takes longer than it grows."""
    plan = Plan(min_window_s=0.05, windows=4, max_warmup_s=0.3)
    tries = (starved if not grows_s else run(slowed_s=0.03, grows_s=grows_s, plan=plan) for grows_s in (0, 0.01, 0.03))
    assert any("unsteady" in record.flags for record in tries)


@pytest.mark.slow
def test_a_tiny_batch_is_named(run: Run) -> None:
    tiny = CELL.but(framework="tensorflow", batch=2)
    tries = (verdict(run(tiny), run(tiny.but(batch=4))) for _ in range(3))  # others may have the machine
    assert "launch-bound" in tries


@pytest.mark.slow
def test_a_batch_that_no_larger_one_fits_beside_is_named(run: Run) -> None:
    fits = CELL.but(loader=Loader("resident"))
    more = run(fits.but(batch=20480), limit=2 << 30)
    assert more.outcome.status == "out-of-memory"
    tries = (verdict(run(fits, limit=2 << 30), more) for _ in range(3))  # others may have the machine
    assert "memory-limited" in tries


def test_a_busy_neighbour_is_named_and_what_the_worker_took_is_told_from_it(run: Run) -> None:
    cores = len(os.sched_getaffinity(0))
    neighbours = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range((cores + 1) // 2)]
    try:
        record = run(plan=Plan(min_window_s=1.2, windows=2, max_warmup_s=0.7))  # the host is sampled twice a second
    finally:
        for process in neighbours:
            process.kill()
            process.wait()
    assert "contaminated" in record.flags
    seen = record.metrics["host"]["phases"]["train"]
    assert seen["cpu_cores"]["median"] > 0.1
    assert seen["other_cpu_cores"]["median"] > 0.1
    assert record.metrics["gpus"] == []
    assert Record.from_json(record.to_json()) == record

"""The search for the largest batch: against a device of known size, and with real workers under a real limit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from suite.plan.cell import AUTO, Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.record import Outcome, Record
from suite.session.launches.batch_finder import PLAN, START, Fit, Try, fits_by_cell, largest
from suite.session.launches.launcher import Launcher
from suite.session.launches.machine import HostInfo, LaunchCallbacks
from suite.session.launches.settings import Settings
from tests.frameworks import needs_frameworks

ROOT = Path(__file__).parents[2]
CELL = Cell("imdb_lstm", "jax", batch=AUTO)


def attempt(batch: int, most: int, status: str = "out-of-memory") -> Record:
    """A launch on a device that holds ``most`` samples."""
    fits = batch <= most
    return Record(
        CELL.but(batch=batch), Outcome("ok" if fits else status, "" if fits else "too large"),
        memory={"rss_peak_bytes": batch}, phases={},
    )  # fmt: skip


@pytest.mark.parametrize("status", ["out-of-memory", "crashed", "timeout"])
@pytest.mark.parametrize("most", [1, 2, 3, 7, 31, 32, 33, 63, 64, 100, 1000, 1024, 5000, 49999])
def test_what_is_found_fits_and_little_more_would_not(most: int, status: str) -> None:
    fit = largest(lambda batch: attempt(batch, most, status))
    assert fit.batch is not None
    assert fit.batch <= most < fit.batch + max(8, fit.batch / 16) + 1
    assert len({each.batch for each in fit.tries}) == len(fit.tries) <= 20
    assert fit.tries[0].batch == START


def test_where_nothing_fits_the_last_reason_stays() -> None:
    fit = largest(lambda batch: attempt(batch, 0))
    assert fit.batch is None
    assert [each.batch for each in fit.tries] == [32, 16, 8, 4, 2, 1]
    assert fit.outcome == Outcome("out-of-memory", "not even batch 1 ran: too large")


@pytest.mark.parametrize("status", ["unsupported", "error", "diverged"])
def test_an_end_that_says_nothing_about_memory_ends_the_search(status: str) -> None:
    fit = largest(lambda batch: attempt(batch, 0, status))
    assert (fit.batch, len(fit.tries), fit.outcome.status) == (None, 1, status)


def test_a_batch_beyond_the_data_set_does_not_fit() -> None:
    fit = largest(lambda batch: attempt(batch, 200, "unsupported"))
    assert fit.batch == 200


def test_a_record_knows_the_batch_that_was_found_and_a_resumed_run_finds_it_there() -> None:
    fit = Fit(96, (Try(32, "ok", "", {"rss_peak_bytes": 5}), Try(128, "out-of-memory", "full", {})))
    cell = CELL.but(accumulate=2)
    record = fit.annotate(Record(cell.but(batch=96), Outcome("crashed")), cell)
    record = Record.from_json(json.loads(json.dumps(record.to_json())))
    assert (record.cell, record.effective_batch) == (cell, 192)
    assert fits_by_cell([record]) == {cell: fit}


@pytest.mark.parametrize("tried", [5, {}, {"batch": "32", "status": "ok", "reason": "", "memory": {}}])
def test_a_search_that_no_search_can_have_written_is_made_again(tried: object) -> None:
    record = replace(Record(CELL, Outcome("crashed")), settings={"batch_search": [tried], "effective_batch": 96})
    assert fits_by_cell([record]) == {}


def test_a_launch_that_does_not_fit_after_all_leaves_the_next_smaller_batch() -> None:
    fit = largest(lambda batch: attempt(batch, 1000))
    assert fit.batch == 992
    less = fit.less(attempt(992, 0))
    assert less.batch == max(each.batch for each in fit.tries if each.batch < 992 and each.status == "ok")
    assert less.tries[-1] == Try(992, "out-of-memory", "too large", {"rss_peak_bytes": 992})


@dataclass
class Ending:
    """A host whose launches hold as many samples as fit at first, and then end as they are told."""

    ends: list[str]
    about: HostInfo = field(default_factory=lambda: HostInfo("", free_bytes=1 << 30))

    def launch(self, job: Job, log: Path, deadline_s: float, hear: LaunchCallbacks) -> Record:
        trial = job.plan == PLAN
        assert job.full_evidence != trial, "tries are not kept, so the first launch after them has all evidence"
        status = ("ok" if job.cell.batch <= 64 else "out-of-memory") if trial else self.ends.pop(0)
        return Record(job.cell, Outcome(status), job.launch, phases={})


@pytest.mark.parametrize(
    ("ends", "kept", "batch"),
    [
        (["ok"], "ok", 64),
        (["crashed"], "crashed", 64),
        (["timeout"], "timeout", 64),
        (["out-of-memory", "ok"], "ok", 32),
    ],
)
def test_after_the_search_only_memory_makes_the_batch_smaller(
    ends: list[str], kept: str, batch: int, tmp_path: Path
) -> None:
    """A crash has other reasons too, and a row of two batches would be none."""
    settings = Settings("smoke", 1, Plan(), device="cpu", journals=tmp_path)
    said: list[str] = []
    launcher = Launcher(settings, {"id": "x"}, Ending(ends), said.append, said.append, lambda *_: None, {})
    record, _ = launcher.launch(CELL, 0, "1/1", 0)
    assert (record.outcome.status, record.effective_batch, ends) == (kept, batch, [])


@pytest.mark.slow
@needs_frameworks
def test_a_worker_under_a_real_limit_finds_what_fits_and_the_file_holds_every_try(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "pytest", "suite", "--size=small", "--batch=auto", "--memory-limit=0.4", "--launches=1",
        "--min-window=0.01", "--data=synthetic", "--device=cpu", "--max-time=120", "-k", "cifar100_cnn and pytorch",
        f"--journals={tmp_path / 'journals'}", "--benchmark-json", str(tmp_path / "saved.json"),
    ]  # fmt: skip
    left = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment = left | {"SUITE_CACHE_DIR": str(tmp_path / "cache"), "SUITE_DATA_DIR": ""}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    saved = json.loads((tmp_path / "saved.json").read_text())
    records = [Record.from_json(each["extra_info"]["record"]) for each in saved["benchmarks"]]
    records += [Record.from_json(each) for each in saved["suite"]["failed"]]
    (record,) = records
    tries = record.settings["batch_search"]
    assert record.cell.batch == AUTO, done.stdout
    assert record.effective_batch in [each["batch"] for each in tries if each["status"] == "ok"]
    assert any(each["status"] == "out-of-memory" for each in tries), "the limit was never reached"
    assert all(each["memory"]["rss_peak_bytes"] for each in tries if each["status"] == "ok")

"""A profile in a launched worker: after all windows, in a record that can be published, and not a byte without it."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.plan.cell import Cell
from suite.record.job import Job
from suite.worker.profilers import profiling as table
from suite.worker.profilers.profiling import Recording
from tests.frameworks import needs_frameworks
from tests.launches import Launches, launched_cells
from tests.processes import assert_public
from workloads.spec import specification

pytestmark = [needs_frameworks, pytest.mark.last]


@launched_cells(profile=False)
def test_without_the_option_nothing_of_profiling_is_imported(launches: Launches, workload: str, framework: str) -> None:
    plain = launches(workload, framework)
    assert plain.record.outcome.ok
    assert plain.record.profile is None
    assert "peak_bytes_per_s" not in plain.record.settings
    assert "suite.worker.process" in plain.modules
    assert not {name for name in plain.modules if name.startswith("suite.worker.profil")}


@launched_cells(profile=True)
def test_no_timed_window_is_profiled(launches: Launches, workload: str, framework: str) -> None:
    record = launches(workload, framework).record
    windows = [span for phase in record.phases.values() for span in phase.spans]
    assert record.profile
    assert record.profile.span
    assert record.profile.span[0] > max(end for _, end in windows)


#: Categories in which a step of the workload spends time.
CATEGORIES = {
    "cifar100_cnn": {
        "convolution forward", "convolution input gradient", "convolution weight gradient", "matrix product",
        "element-wise", "reduction and pooling", "random numbers and dropout", "optimizer", "input pipeline",
    },
    "imdb_lstm": {"matrix product", "element-wise", "optimizer", "input pipeline"},
}  # fmt: skip


@launched_cells(profile=True)
def test_a_profile_says_where_the_time_of_a_step_goes(launches: Launches, workload: str, framework: str) -> None:
    launched = launches(workload, framework)
    record, folder = launched.record, launched.folder
    assert record.outcome.ok, (record.outcome, record.log)
    profile = record.profile
    assert profile
    assert profile.other < 0.05
    assert profile.categories.keys() >= CATEGORIES[workload]
    moving = {"convolution forward", "matrix product"} & CATEGORIES[workload]
    assert all(profile.categories[name].bytes for name in moving)
    total = sum(share.seconds for share in profile.categories.values())
    assert total == pytest.approx(profile.step_s, rel=0.01)
    assert profile.note or profile.covered == pytest.approx(1, abs=0.11)
    assert record.settings["peak_bytes_per_s"] > 1e8
    if workload == "cifar100_cnn":  # counters miss an LSTM; here they may add padding and element-wise work
        counted = specification(workload, "small").training_flops_per_sample * record.cell.batch
        assert profile.counted_flops == pytest.approx(counted, rel=0.2)
    text = json.dumps(record.to_json()["profile"])
    assert len(text) < 5500
    assert_public(text)
    trace = json.loads(gzip.decompress((folder / "run" / profile.trace).read_bytes()))
    assert sum(row["ph"] == "X" for row in trace["traceEvents"]) > 50
    if framework == "pytorch":  # in eager mode, with no profile page's file and no compiler
        assert not profile.files
    else:
        assert (folder / "run" / "plugins" / "profile" / "cell" / "host.xplane.pb").stat().st_size > 1000
        assert [(folder / "run" / name).stat().st_size > 500 for name in profile.files] == [True]


@needs_frameworks("pytorch")
def test_a_profiler_that_fails_costs_the_launch_nothing_but_the_profile(capsys: pytest.CaptureFixture[str]) -> None:
    sent: list[dict[str, Any]] = []
    job = Job(Cell("cifar100_cnn", "pytorch"), "", profile=True)
    table.profile(job, None, iter(()), 0.1, lambda **message: sent.append(message))
    assert sent == [{"progress": "profile"}]
    assert "Traceback" in capsys.readouterr().err


def test_a_large_trace_is_kept_for_the_first_launch_only(tmp_path: Path) -> None:
    large = Recording([], trace=b"x" * (table.LARGE_BYTES + 1), extra={"code.gz": b"code"})
    job = Job(Cell("cifar100_cnn", "jax"), "", traces=str(tmp_path / "a-launch0"))
    assert table.keep_files(job, large, tmp_path, large.extra) == (
        "a-launch0.trace.json.gz",
        ("a-launch0.code.gz",),
    )
    later = replace(job, launch=1, traces=str(tmp_path / "a-launch1"))
    assert table.keep_files(later, large, tmp_path, {}) == ("", ())
    assert table.keep_files(later, Recording([], b"small"), tmp_path, {})[0] == "a-launch1.trace.json.gz"
    assert table.keep_files(replace(job, traces=""), large, tmp_path, {}) == ("", ())


@pytest.mark.parametrize(("timed_s", "steps"), [(5.0, 2), (0.1, 3), (0.001, 10)])
def test_the_number_of_steps_keeps_a_profile_short(timed_s: float, steps: int) -> None:
    assert table.steps_for(timed_s) == steps

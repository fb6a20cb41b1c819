"""Events become shares of the wall clock: on made events, whose figures can be counted by hand."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.plan.cell import Cell
from suite.record.job import Job
from suite.record.parts.profile import Profile
from suite.worker.profilers import profiling as table
from suite.worker.profilers.profiling import Recording, chrome_trace, profile_of, shorten
from suite.worker.profilers.timeline import IDLE, INPUT, OVERHEAD, STEPS, Event, pieces, shares
from tests.frameworks import needs_frameworks
from tests.launches import Launches, launched_cells
from tests.processes import assert_public
from workloads.spec import specification


def event(
    name: str, start: int, end: int, category: str = "element-wise", thread: str = "main", **more: object
) -> Event:
    return Event(name, start, end, thread, category)._replace(**more)


def spent(events: list[Event], end: int = 100) -> dict[str, float]:
    found = shares(events, 0, end)
    assert sum(each.nanoseconds for each in found.spent.values()) == pytest.approx(end), "the parts are the whole"
    return {name: each.nanoseconds for (name, *_), each in found.spent.items() if each.nanoseconds}


def test_an_events_own_time_is_what_its_inner_ones_leave() -> None:
    nested = [event("outer", 0, 100), event("inner", 10, 30), event("innermost", 15, 20), event("second", 50, 60)]
    assert spent(nested) == {"outer": 70, "inner": 15, "innermost": 5, "second": 10}


def test_the_order_of_events_says_nothing_and_one_that_outlasts_its_outer_one_is_cut() -> None:
    events = [event("late", 90, 130), event("outer", 0, 100)]
    assert [(piece.start, piece.end, piece.event.name) for piece in pieces(events)] == [
        (0, 90, "outer"), (90, 100, "late"),
    ]  # fmt: skip


def test_threads_that_work_at_once_share_the_moment() -> None:
    events = [event("one", 0, 100), event("two", 50, 100, thread="other")]
    assert spent(events) == {"one": 75, "two": 25}
    assert shares(events, 0, 100).threads == 2
    assert shares(events[:1], 0, 100).threads == 1


def test_what_no_operation_fills_is_overhead_and_waiting_for_a_batch_is_the_input_pipelines() -> None:
    events = [event("operation", 20, 60), event("loading", 50, 90, INPUT, "python")]
    assert spent(events) == {"operation": 40, "loading": 30, "(no operation ran)": 30}
    found = shares(events, 0, 100)
    assert {category for _, category, *_ in found.spent} == {"element-wise", INPUT, OVERHEAD}
    assert found.idle is None, "on a CPU the device is the host"


def test_only_what_lies_between_the_moments_counts() -> None:
    assert spent([event("before", -50, 10), event("after", 90, 300)]) == {
        "before": 10, "after": 10, "(no operation ran)": 80,
    }  # fmt: skip


def test_kernels_hide_the_host_and_a_gap_is_idle_only_if_the_host_did_nothing() -> None:
    """Made by hand: nothing here was recorded on a GPU."""
    events = [
        event("aten::mm", 0, 30, "matrix product", "host"),
        event("cudaLaunchKernel", 40, 50, OVERHEAD, "host"),
        event("gemm", 20, 40, "matrix product", "stream 7", device="cuda"),
        event("relu", 60, 90, "element-wise", "stream 7", device="cuda"),
    ]
    found = shares(events, 0, 100)
    times = {category: each.nanoseconds for (_, category, *_), each in found.spent.items()}
    assert times == {"matrix product": 20, "element-wise": 30, OVERHEAD: 30, IDLE: 20}
    assert found.idle == 0.5
    assert found.gap_s == 20e-9, "between 0 and 20, and between 40 and 60"


def test_a_call_that_goes_on_elsewhere_is_one_call() -> None:
    events = [
        event("convolution", 0, 10, bytes=8),
        event("convolution", 10, 90, thread="pool", bytes=8, continues=True),
    ]
    ((_, found),) = [item for item in shares(events, 0, 90).spent.items() if item[1].calls]
    assert (found.calls, found.nanoseconds, found.bytes) == (1, 90, 8)


def made(step: float = 1.0, bare: float = 1.0) -> Profile:
    second = 10**9
    events = [
        event(STEPS, 0, 2 * second, ""),
        event("mm", 0, second, "matrix product", bytes=100),
        event("mm", second, 3 * second // 2, "matrix product", bytes=100),
        event("strange", 3 * second // 2, 8 * second // 5, "other"),
    ]
    return profile_of(Recording(events), 2, (1 / step, bare / step), "t.json.gz")


def test_a_profile_is_per_step_in_the_order_of_the_categories() -> None:
    profile = made()
    assert list(profile.categories) == ["matrix product", OVERHEAD, "other"]
    assert profile.categories["matrix product"].seconds == pytest.approx(0.75)
    assert profile.categories["matrix product"].calls == 1
    assert profile.categories["matrix product"].bytes == 100
    assert (profile.cost, profile.covered) == (pytest.approx(1), pytest.approx(1))
    assert profile.other == pytest.approx(0.05)
    assert not profile.note
    assert [each.name for each in profile.operations] == ["mm", "(no operation ran)", "strange"]


def test_a_sum_that_is_off_the_timed_step_says_why() -> None:
    assert "took 1.50 times as long as the timed one" in made(1.5, 1.0).note
    assert "profiling itself cost 50 %" in made(1.5, 1.0).note
    assert "the machine, not the profiler" in made(1.5, 1.5).note


@pytest.mark.parametrize("events", [[], [event("mm", 0, 5)], [event(STEPS, 0, 5, "")]])
def test_a_profiler_that_saw_nothing_gives_no_profile(events: list[Event]) -> None:
    with pytest.raises(ValueError, match="the profiler"):
        profile_of(Recording(events), 1, (1.0, 1.0))


def test_a_short_copy_to_the_host_is_kept() -> None:
    events = [Event(STEPS, 0, 100_000, "main", "")]
    events += [Event(f"k{at}", 5_000 * at, 5_000 * at + 4_000, "1", "element-wise", "cuda") for at in range(19)]
    events.append(Event("Memcpy DtoH (Device -> Pageable)", 99_000, 99_001, "1", "copy and layout change", "cuda"))
    profile = profile_of(Recording(events), 1, (1e-4, 1e-4))
    assert any("DtoH" in each.name for each in profile.operations)


def test_a_profile_of_many_operations_stays_small() -> None:
    events = [event(STEPS, 0, 100_000, "")]
    events += [
        event(f"a/long/scope/{'x' * 200}/{at}\x1b[31m", at * 1000, at * 1000 + 999, holds=("held",) * 40)
        for at in range(100)
    ]
    profile = profile_of(Recording(events), 1, (1e-4, 1e-4))
    assert len(json.dumps([vars(each) for each in profile.operations])) < 5000
    assert all(each.name.isprintable() for each in profile.operations)
    assert shorten("x" * 100 + "end").endswith("end")


def test_a_trace_for_a_browser_holds_the_events_with_their_categories() -> None:
    trace = json.loads(gzip.decompress(chrome_trace([event("mm", 1000, 3000), event("relu", 4000, 4500)], "JAX")))
    rows = [row for row in trace["traceEvents"] if row["ph"] == "X"]
    assert [(row["name"], row["ts"], row["dur"], row["cat"]) for row in rows] == [
        ("mm", 0, 2, "element-wise"), ("relu", 3, 0.5, "element-wise"),
    ]  # fmt: skip


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

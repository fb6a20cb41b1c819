"""`pytest suite` as it is typed, in a process of its own; stand-ins for the worker say at once what it may measure."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import termios
from importlib.util import find_spec

import pytest

from suite.plan.cell import FRAMEWORKS
from suite.plan.matrix import matrix
from suite.plan.measuring import FIRST_LOOK, LAST_LOOK
from suite.session.journal import read
from tests.processes import assert_public
from tests.sessions import ROOT, Suite, records_of, refused

SMOKE = matrix("smoke")
WORKLOADS = {cell.workload for cell in SMOKE.cells}


def test_as_it_stands_the_whole_smoke_matrix_is_saved_under_an_automatic_name(suite: Suite) -> None:
    done = suite("suite", "--benchmark-save")
    assert done.status == 0, done.output
    assert list(done.saved) == ["0001_smoke.json"]
    saved = done.saved["0001_smoke.json"]
    assert len({record.key for record in records_of(saved)}) == len(done.launched) == len(SMOKE.cells) * FIRST_LOOK
    assert saved["suite"]["run"]["matrix"] == "smoke"
    assert saved["suite"]["failed"] == []
    assert "Compare with: training-suite compare\n" in done.output
    run, journalled, _ = read(*done.journals)
    assert run | {"planned": len(done.launched)} == saved["suite"]["run"]
    assert sorted(journalled, key=lambda r: r.key) == sorted(records_of(saved), key=lambda r: r.key)
    assert [record.run["position"] for record in journalled] == list(range(len(done.launched)))
    first_block = {record.run["block"] for record in journalled[: len(SMOKE.cells)]}
    assert first_block == {0}, "blocks run one after the other"


def test_the_samples_saved_are_the_step_times_of_the_windows(suite: Suite) -> None:
    done = suite("suite", "--launches=1", "--benchmark-save=mine", "-k", "jax and imdb")
    assert done.status == 0, done.output
    (entry,) = done.saved["0001_mine.json"]["benchmarks"]
    (record,) = records_of(done.saved["0001_mine.json"])
    times = record.phases["train"].step_times_s
    assert entry["stats"]["data"] == pytest.approx(times, rel=1e-9)
    assert entry["stats"]["rounds"] == len(times)
    assert entry["group"] == "imdb_lstm"
    assert entry["params"] == {"launch_id": "imdb_lstm-jax-fp32-b32-compile-tuned-launch0"}
    assert done.launched == ["imdb_lstm jax full 0"]


def test_what_is_saved_names_no_host_user_or_path(suite: Suite) -> None:
    done = suite("suite", "--launches=1", "--benchmark-save", jax="crash", pytorch="unsupported")
    text = json.dumps(done.saved["0001_smoke.json"])
    assert_public(text)
    assert str(ROOT) not in text
    assert str(suite.folder) not in text


def test_the_size_can_be_chosen_and_shows_in_every_id(suite: Suite) -> None:
    done = suite("suite", "--size=small", "--launches=1", "--benchmark-save")
    assert done.status == 0, done.output
    assert {line.split()[2] for line in done.launched} == {"small"}
    names = [entry["name"] for entry in done.saved["0001_sweep-small.json"]["benchmarks"]]
    assert all(name.endswith("-small-launch0]") for name in names)


def test_a_sweep_has_a_name_of_its_own_and_goes_on_with_resume(suite: Suite) -> None:
    arguments = ["suite", "--framework=jax", "--workload=imdb_lstm", "--batch=8,16", "--benchmark-save"]
    done = suite(*arguments, "--launches=1")
    assert done.status == 0, done.output
    (saved,) = done.saved.values()
    assert list(done.saved) == ["0001_sweep-imdb_lstm-jax-b8+b16.json"]
    assert {entry["name"].split("-")[3] for entry in saved["benchmarks"]} == {"b8", "b16"}
    run = saved["suite"]["run"]
    assert (run["matrix"], run["sweep"]) == (
        "sweep-imdb_lstm-jax-b8+b16",
        "workload imdb_lstm framework jax batch 8,16",
    )
    (hint,) = [
        line for line in done.output.splitlines() if line.startswith("Test which differences are significant with")
    ]
    assert hint.endswith(f"--launches=1 --resume={run['id']} --launches=6")
    more = suite(*arguments, "--launches=6", f"--resume={run['id']}")
    assert more.status == 0, more.output
    assert "2 launches are in its journal" in more.output
    left = [line for line in more.output.splitlines() if line.endswith(" left")]
    assert left[0].startswith("[ 3/12] "), "two launches were there, and one more is enough for an estimate"
    assert len(left) == 12 - 2 - 1, "a run that was begun without a control has none"
    assert "significant with" not in more.output


def test_progress_of_the_data_reaches_the_log_of_a_run(suite: Suite) -> None:
    (suite.folder / "eager.py").write_text("from workloads.data import progress\nprogress.QUIET_S = 0.0\n")
    suite.first = f"import sys; sys.path.insert(0, {str(suite.folder)!r})"
    done = suite("suite", "-p", "eager", "--launches=1", "-k", "jax and imdb")
    assert done.status == 0, done.output
    assert re.search(r"^imdb: hashing: \d+ of \d+ MiB$", done.output, re.MULTILINE), "pytest's capture kept it"


def test_failed_launches_are_saved_with_their_reason_and_stop_nothing(suite: Suite) -> None:
    done = suite("suite", "--launches=1", "--benchmark-save", jax="crash", tensorflow="unsupported")
    assert done.status == 1
    each = len(WORKLOADS)
    assert f"{each} failed, {each} passed, {each} skipped" in done.output
    assert "at .../stand_in.py" in done.output
    found = {(r.cell.framework, r.outcome.status) for r in records_of(done.saved["0001_smoke.json"])}
    assert found == {("pytorch", "ok"), ("jax", "crashed"), ("tensorflow", "unsupported")}
    (crashed, *_) = [r for r in records_of(done.saved["0001_smoke.json"]) if r.outcome.status == "crashed"]
    assert crashed.outcome.reason == "ended with exit status 5 and no result"
    assert crashed.log == ("at .../stand_in.py",)
    assert crashed.environment["machine"]["cores"] >= 1


@pytest.mark.parametrize(("how", "status"), [("crash", 1), ("unsupported", 5)])
def test_a_run_of_which_no_launch_succeeded_is_saved_too(suite: Suite, how: str, status: int) -> None:
    json_too = suite.folder / "too.json"
    arguments = ["suite", "--launches=1", "--benchmark-save", f"--benchmark-json={json_too}"]
    done = suite(*arguments, **dict.fromkeys(FRAMEWORKS, how))
    assert done.status == status, done.output
    assert "Traceback" not in done.output
    saved = done.saved["0001_smoke.json"]
    assert saved["benchmarks"] == []
    assert len(records_of(saved)) == len(SMOKE.cells)
    assert saved["machine_info"].keys() >= {"cpu", "machine"}
    assert len(json.loads(json_too.read_text())["suite"]["failed"]) == len(SMOKE.cells)


def test_runs_that_end_at_once_save_side_by_side(suite: Suite) -> None:
    running = [suite.start("suite", "--launches=1", "-k", "jax and imdb", "--benchmark-save=same") for _ in range(3)]
    ended = [suite.end(process) for process in running]
    assert [done.status for done in ended] == [0, 0, 0], [done.output for done in ended]
    saved = ended[0].saved
    assert sorted(saved) == ["0001_same.json", "0002_same.json", "0003_same.json"]
    assert len({content["suite"]["run"]["id"] for content in saved.values()}) == 3


def test_a_terminal_shows_progress_on_one_line_of_its_width(suite: Suite) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    suite.environment |= {"TERM": "xterm", "BEHAVIOUR": "{}"}
    suite.environment.pop("COLUMNS", None)
    process = suite.start("suite", "--launches=1", "--color=no", "-k", "jax and imdb", output=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # how the end of a terminal is told
        while received := os.read(ours, 1 << 16):
            shown += received
    os.close(ours)
    assert process.wait(timeout=60) == 0
    passing = [part for part in shown.decode().split("\r") if part.startswith("[1/1]") and "samples/s " not in part]
    assert any("imdb_lstm-jax-fp32" in part for part in passing)
    assert max(len(part.rstrip()) for part in passing) < 60
    assert "[1/1] imdb_lstm-jax-fp32-b32-compile-tuned  501 samples/s" in shown.decode()


def test_collecting_and_other_tests_are_left_alone(suite: Suite) -> None:
    done = suite("suite", "--collect-only", "-q", "--benchmark-save")
    assert done.status == 0, done.output
    assert done.output.count("::test_training[") == len(SMOKE.cells) * LAST_LOOK
    assert not done.launched
    assert not done.journals


# With the failures in `test_failures` one is measured and saved too.
@pytest.mark.slow
def test_a_small_cell_is_really_measured_and_saved(suite: Suite) -> None:
    if not find_spec("torch"):
        pytest.skip("PyTorch is not installed here")
    del suite.environment["SUITE_PYTHON_PYTORCH"]
    chosen = ["-k", "pytorch and imdb"]
    done = suite("suite", "--size=small", "--launches=1", "--min-window=0.02", "--benchmark-save", *chosen)
    assert done.status == 0, done.output
    (record,) = records_of(done.saved["0001_sweep-small.json"])
    assert record.cell.size == record.workload["size"] == "small"
    assert record.identity
    assert record.run["position"] == 0
    assert suite.folder.name not in json.dumps(done.saved)


#: A stand-in for a plugin of the user's: pytest-timeout, or one that warns while pytest starts, as pytest-asyncio does.
TIMEOUT = """
def pytest_addoption(parser):
    parser.addoption("--timeout", type=float)
    parser.addini("timeout", "seconds")
"""
WARNS = """
import warnings
def pytest_configure(config): warnings.warn("a scope is not set", DeprecationWarning)
"""


def with_plugin(suite: Suite, name: str, code: str) -> None:
    (suite.folder / f"{name}.py").write_text(code)
    suite.first = f"import sys; sys.path.insert(0, {str(suite.folder)!r})"


@pytest.mark.parametrize(
    ("how", "arguments"),
    [
        ("PYTEST_TIMEOUT", {"PYTEST_TIMEOUT": "60"}), ("--timeout", ["--timeout=60"]),
        ("the setting timeout", ["-o", "timeout=60"]),
    ],
)  # fmt: skip
def test_a_limit_for_tests_is_none_for_launches(suite: Suite, how: str, arguments: dict[str, str] | list[str]) -> None:
    with_plugin(suite, "pytest_timeout", TIMEOUT)
    more = [] if isinstance(arguments, dict) else arguments
    suite.environment |= arguments if isinstance(arguments, dict) else {}
    refused(suite("suite", "-p", "pytest_timeout", *more), f"{how} lets pytest-timeout end launches after 60")


def test_without_pytest_benchmark_it_says_what_keeps_it_out(suite: Suite) -> None:
    suite.environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    refused(suite("suite"), "unset PYTEST_DISABLE_PLUGIN_AUTOLOAD, or add -p pytest_benchmark.plugin")
    del suite.environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"]
    refused(suite("suite", "-p", "no:benchmark"), "leave out -p no:benchmark")


def test_a_warning_ends_no_session_of_a_users(suite: Suite) -> None:
    """Neither while pytest starts, nor at the end, where its cache cannot be written."""
    with_plugin(suite, "warning", WARNS)
    (suite.folder / "file").touch()
    cache = ["-p", "cacheprovider", "-o", f"cache_dir={suite.folder / 'file' / 'cache'}"]
    done = suite("suite", "-p", "warning", *cache, "--launches=1", "-k", "jax and imdb", "--benchmark-save")
    assert done.status == 0, done.output
    assert "Traceback" not in done.output
    assert len(done.saved) == 1

"""`pytest suite` as it is typed, in a process of its own; stand-ins for the worker say at once what it may measure."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from conftest import StandIn
from test_launch import alive, assert_public, wait_until

from suite.cell import FRAMEWORKS
from suite.journal import Journal, read
from suite.matrix import blocks, matrix
from suite.record import Record

ROOT = Path(__file__).parent.parent
SMOKE = matrix("smoke")
WORKLOADS = {cell.workload for cell in SMOKE.cells}

#: Answers with a record of the job's cell, or does what BEHAVIOUR says for its framework.
WORKER = """
from tests import records
cell = job["cell"]
open(os.environ["LAUNCHED"], "a").write(f"{cell['workload']} {cell['framework']} {cell['size']} {job['launch']}\\n")
send(progress="train", samples_per_s=1234.5)
does = json.loads(os.environ.get("BEHAVIOUR", "{}")).get(cell["framework"], "")
if does == "crash":
    print("at", __file__, flush=True); os._exit(5)
elif does == "unsupported":
    send(part={"outcome": {"status": "unsupported", "reason": "no such mode"}})
elif does == "hang":
    Path(os.environ["HANGS"]).write_text(f"{os.getpid()}\\n"); time.sleep(600)
else:
    send_all(records.record(cell["framework"], job["launch"], workload=cell["workload"]))
"""


@dataclass
class Done:
    """A finished session: its status, what it said, and what it saved."""

    status: int
    output: str
    folder: Path

    @property
    def saved(self) -> dict[str, dict[str, Any]]:
        """The content of the saved files by name."""
        return {path.name: json.loads(path.read_text()) for path in (self.folder / "runs").rglob("*.json")}

    @property
    def journals(self) -> list[Path]:
        return sorted((self.folder / "journals").glob("*.jsonl"))

    @property
    def launched(self) -> list[str]:
        """``workload framework size launch`` of all that was started, in order."""
        path = self.folder / "launched"
        return path.read_text().splitlines() if path.exists() else []


@dataclass
class Suite:
    """Runs ``pytest suite`` with everything it writes in a folder of the test's own."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def start(self, *arguments: str, data: str = "synthetic", output: int = subprocess.PIPE) -> subprocess.Popen[str]:
        # As a command in the background may have it, an interrupt could be ignored from the start.
        code = (
            "import signal, sys, pytest; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "sys.exit(pytest.main(sys.argv[1:]))"
        )
        apart = ["-p", "no:cacheprovider", f"--benchmark-storage={self.folder / 'runs'}"]
        apart += [f"--journals={self.folder / 'journals'}", "--data", data, "--device", "cpu"]
        return subprocess.Popen(
            [sys.executable, "-c", code, *apart, *arguments],
            cwd=ROOT, env=self.environment, text=True, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def __call__(self, *arguments: str, data: str = "synthetic", **behaviour: str) -> Done:
        self.environment["BEHAVIOUR"] = json.dumps(behaviour)
        return self.end(self.start(*arguments, data=data))

    def end(self, process: subprocess.Popen[str]) -> Done:
        output, _ = process.communicate(timeout=120)
        return Done(process.returncode, output, self.folder)


@pytest.fixture
def suite(tmp_path: Path, stand_in: StandIn, twins: Path) -> Suite:
    stand_in(WORKER)
    left = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "SUITE_DATA"))}
    told = {"SUITE_CACHE_DIR": twins, "LAUNCHED": tmp_path / "launched", "HANGS": tmp_path / "hangs"}
    # Nobody answers there, so that a download fails at once and none is ever begun.
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY"), "http://127.0.0.1:1") | {"no_proxy": ""}
    hidden = {"CUDA_VISIBLE_DEVICES": "", "NO_PROXY": ""}
    return Suite(tmp_path, left | {name: str(path) for name, path in told.items()} | nowhere | hidden)


def records_of(saved: dict[str, Any]) -> list[Record]:
    """All launches of a saved file, those that failed last."""
    held = [entry["extra_info"]["record"] for entry in saved["benchmarks"]] + saved["suite"]["failed"]
    return [Record.from_json(record) for record in held]


def test_as_it_stands_the_whole_smoke_matrix_is_saved_under_an_automatic_name(suite: Suite) -> None:
    done = suite("suite", "--benchmark-save")
    assert done.status == 0, done.output
    assert list(done.saved) == ["0001_smoke.json"]
    saved = done.saved["0001_smoke.json"]
    assert len({record.key for record in records_of(saved)}) == len(done.launched) == len(SMOKE.cells) * SMOKE.launches
    assert saved["suite"]["run"]["matrix"] == "smoke"
    assert saved["suite"]["failed"] == []
    assert "compare with: python -m suite.compare\n" in done.output
    run, journalled, _ = read(*done.journals)
    assert run == saved["suite"]["run"]
    assert sorted(journalled, key=lambda r: r.key) == sorted(records_of(saved), key=lambda r: r.key)
    assert [record.run["position"] for record in journalled] == list(range(len(done.launched)))
    first_block = {record.run["block"] for record in journalled[: len(SMOKE.cells)]}
    assert first_block == {0}, "blocks run one after the other"


def test_the_samples_saved_are_the_step_times_of_the_windows(suite: Suite) -> None:
    done = suite("suite", "--launches=1", "--benchmark-save=mine", "-k", "jax and imdb")
    assert done.status == 0, done.output
    (entry,) = done.saved["0001_mine.json"]["benchmarks"]
    record = Record.from_json(entry["extra_info"]["record"])
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
    names = [entry["name"] for entry in done.saved["0001_smoke.json"]["benchmarks"]]
    assert all(name.endswith("-small-launch0]") for name in names)


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


@pytest.mark.parametrize(("how", "status"), [("crash", 1), ("unsupported", 0)])
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


def refused(done: Done, words: str) -> None:
    """Asserts that the session ended with one line, before any launch and with nothing saved."""
    assert done.status == 4, done.output
    assert "Traceback" not in done.output
    (line,) = [line for line in done.output.splitlines() if words in line]
    assert line.startswith(("ERROR: ", "! "))
    assert not done.launched
    assert not done.saved
    assert "compare with" not in done.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--benchmark-save", "suite"], "--benchmark-save took 'suite' for a name: put it last"),
        (["suite", "--matrix=nix", "--benchmark-save"], "unknown matrix 'nix'; there are: smoke, cpu, default"),
        (["suite", "--benchmark-only"], "--benchmark-only would skip every launch: `pytest suite` runs nothing else"),
        (["suite", "--matrix", "accuracy", "--epochs=0"], "--epochs is 0; it must be at least 1"),
        (
            ["suite", "--matrix", "accuracy", "--target=86"],
            "--target is 86; it is an accuracy, more than 0 and at most 1",
        ),
        (["suite", "--launches=0"], "--launches is 0; it must be at least 1"),
        (["suite", "--min-window=0"], "--min-window is 0; it must be more than 0 seconds"),
        (["suite", "--min-window=nan"], "--min-window is nan"),
        (["suite", "--max-time=-1"], "--max-time is -1; it must be more than 0 seconds"),
    ],
)
def test_wrong_options_are_refused_in_one_line(suite: Suite, arguments: list[str], words: str) -> None:
    refused(suite(*arguments), words)


def test_a_choice_that_is_none_is_refused_with_the_choices(suite: Suite) -> None:
    done = suite("suite", "--size=tiny")
    assert done.status == 4
    assert "choose from" in done.output
    assert not done.launched


def test_real_data_that_is_not_to_be_had_ends_the_session_before_any_launch(suite: Suite) -> None:
    (suite.folder / "empty").mkdir()
    suite.environment |= {"SUITE_CACHE_DIR": str(suite.folder / "cache"), "SUITE_DATA_DIR": str(suite.folder / "empty")}
    refused(suite("suite", "--benchmark-save", data="real"), "no real cifar100 in the cache or in")


def test_an_interpreter_that_is_none_ends_the_session_before_any_launch(suite: Suite) -> None:
    suite.environment["SUITE_PYTHON_JAX"] = "/nowhere/python"
    refused(suite("suite", "--benchmark-save"), "SUITE_PYTHON_JAX is '/nowhere/python', which is no program")
    done = suite("suite", "--launches=1", "-k", "pytorch")
    assert done.status == 0, "cells that do not need it run"


def test_an_interpreter_that_cannot_be_started_ends_the_session_in_one_line(suite: Suite) -> None:
    broken = suite.folder / "broken"
    broken.write_bytes(b"\x7fELF no more")
    broken.chmod(0o755)
    suite.environment["SUITE_PYTHON_JAX"] = str(broken)
    refused(suite("suite", "--benchmark-save", "-k", "jax"), "cannot start ")


def test_a_journal_that_cannot_be_written_ends_the_session_in_one_line(suite: Suite) -> None:
    """The kernel's limit on the size of a file stands in for a full disk."""
    code = (
        "import resource, sys, pytest\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, resource.RLIM_INFINITY))\n"
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    journals = suite.folder / "journals"
    command = [sys.executable, "-c", code, "-p", "no:cacheprovider", "suite", f"--journals={journals}"]
    command += ["--data=synthetic", "--launches=9", "--device=cpu", "-k", "jax and imdb"]
    environment = suite.environment
    done = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, check=False, timeout=120)
    assert done.returncode == 4, done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout
    assert len(re.findall(r"^! .*cannot write .*: File too large; what was there is kept", done.stdout, re.M)) == 1
    _, records, _ = read(*journals.glob("*.jsonl"))
    assert 0 < len(records) < 9
    assert f"{9 - len(records)} launches did not run; the others are in " in done.stdout


def test_a_disk_that_fills_while_saving_leaves_no_half_file_and_says_where_the_launches_are(suite: Suite) -> None:
    """What is saved is larger than its journal; a limit between the two stands in for a full disk."""
    arguments = ["suite", "--launches=2", "-k", "jax and imdb"]
    (journal,) = suite(*arguments).journals
    limit = round(1.2 * journal.stat().st_size)
    code = (
        "import resource, sys, pytest\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))\n"
        "sys.exit(pytest.main(sys.argv[1:]))"
    )
    again = Suite(suite.folder / "again", suite.environment)
    command = [sys.executable, "-c", code, "-p", "no:cacheprovider", f"--benchmark-storage={again.folder / 'runs'}"]
    command += [f"--journals={again.folder / 'journals'}", "--data=synthetic", "--device=cpu", *arguments]
    done = subprocess.run(
        [*command, "--benchmark-save"],
        cwd=ROOT, env=suite.environment, text=True, capture_output=True, check=False, timeout=120,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert done.returncode == 4, said
    assert "INTERNALERROR" not in said
    assert "Traceback" not in said
    assert said.count("File too large; make room; all launches are in ") == 1
    assert list((again.folder / "runs").rglob("*.json")) == []
    (kept,) = (again.folder / "journals").glob("*.jsonl")
    assert len(read(kept)[1]) == 2


def test_runs_that_end_at_once_save_side_by_side(suite: Suite) -> None:
    running = [suite.start("suite", "--launches=1", "-k", "jax and imdb", "--benchmark-save=same") for _ in range(3)]
    ended = [suite.end(process) for process in running]
    assert [done.status for done in ended] == [0, 0, 0], [done.output for done in ended]
    saved = ended[0].saved
    assert sorted(saved) == ["0001_same.json", "0002_same.json", "0003_same.json"]
    assert len({content["suite"]["run"]["id"] for content in saved.values()}) == 3


def test_an_interrupted_run_keeps_what_it_measured_and_resumes(suite: Suite) -> None:
    def order(seed: int) -> list[str]:
        return [c.framework for c, _ in blocks(SMOKE.cells, 1, seed) if c.workload == "imdb_lstm"]

    seed = next(seed for seed in range(100) if order(seed)[1] == "jax")
    arguments = ("suite", "--launches=1", "--benchmark-save=cut", f"--seed={seed}", "-k", "imdb")
    suite.environment["BEHAVIOUR"] = json.dumps({"jax": "hang"})
    process = suite.start(*arguments)
    hangs = suite.folder / "hangs"
    wait_until(lambda: hangs.exists() and hangs.read_text().endswith("\n"))
    process.send_signal(signal.SIGINT)
    cut = suite.end(process)
    assert cut.status == 2
    assert "INTERNALERROR" not in cut.output
    assert not alive(int(hangs.read_text()))
    assert f"2 launches did not run; the others are in {cut.journals[0]}: go on with --resume" in cut.output
    assert read(*cut.journals)[1] == records_of(cut.saved["0001_cut.json"])
    assert [r.cell.framework for r in read(*cut.journals)[1]] == order(seed)[:1]

    done = suite(*arguments, "--resume")
    assert done.status == 0, done.output
    assert done.journals == cut.journals, "the run goes on in its own journal"
    assert [line.split()[1] for line in done.launched] == [*order(seed)[:2], *order(seed)[1:]]
    saved = records_of(done.saved["0002_cut.json"])
    assert [record.cell.framework for record in saved] == order(seed)
    assert {record.run["id"] for record in saved} == {cut.journals[0].stem}
    assert [record.run["position"] for record in saved] == [0, 1, 2]


def test_a_finished_run_is_resumed_without_a_launch(suite: Suite) -> None:
    first = suite("suite", "--launches=1", "-k", "jax")
    again = suite("suite", "--launches=1", "-k", "jax", "--resume", "--benchmark-save")
    assert again.status == 0, again.output
    assert again.launched == first.launched
    assert {r.key for r in records_of(again.saved["0001_smoke.json"])} == {r.key for r in read(*first.journals)[1]}


def test_a_run_with_other_settings_is_not_resumed_and_the_difference_is_named(suite: Suite) -> None:
    first = suite("suite", "--launches=1", "-k", "jax and imdb")
    (suite.folder / "launched").unlink()
    for option, difference in (("--seed=5", "seed 0, not 5"), ("--size=small", "size None, not small")):
        done = suite("suite", "--launches=1", "-k", "jax and imdb", "--resume", option)
        refused(done, f"the newest, {first.journals[0].name}, has {difference}")
    assert len(done.journals) == 1


def test_a_journal_that_a_kill_left_empty_does_not_stand_in_the_way(suite: Suite) -> None:
    first = suite("suite", "--launches=1", "-k", "jax and imdb")
    (suite.folder / "journals" / "99990101T000000-1.jsonl").touch()
    again = suite("suite", "--launches=1", "-k", "jax and imdb", "--resume")
    assert again.status == 0, again.output
    assert again.launched == first.launched


def test_a_run_in_progress_is_not_resumed_by_another(suite: Suite) -> None:
    first = suite("suite", "--launches=1", "-k", "jax and imdb")
    (suite.folder / "launched").unlink()
    held = Journal(first.journals[0], {})
    refused(
        suite("suite", "--launches=1", "-k", "jax and imdb", "--resume", "--benchmark-save"), "is in use by another"
    )
    held.close()


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
    assert "[1/1] imdb_lstm-jax-fp32-b32-compile-tuned  496 samples/s" in shown.decode()


def test_collecting_and_other_tests_are_left_alone(suite: Suite) -> None:
    done = suite("suite", "--collect-only", "-q", "--benchmark-save")
    assert done.status == 0, done.output
    assert done.output.count("::test_training[") == len(SMOKE.cells) * SMOKE.launches
    assert not done.launched
    assert not done.journals


def test_a_small_cell_is_really_measured_and_saved(suite: Suite) -> None:
    if not find_spec("jax"):
        pytest.skip("JAX is not installed here")
    del suite.environment["SUITE_PYTHON_JAX"]
    done = suite("suite", "--size=small", "--launches=1", "--min-window=0.02", "--benchmark-save", "-k", "jax and imdb")
    assert done.status == 0, done.output
    (record,) = records_of(done.saved["0001_smoke.json"])
    assert record.cell.size == record.workload["size"] == "small"
    assert record.identity
    assert record.run["position"] == 0
    assert suite.folder.name not in json.dumps(done.saved)

"""Launches in real processes that go wrong in every way, with stand-ins for the worker."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from suite.record.record import PHASES
from suite.session.launches.launch import LaunchError, launch
from tests.launches import JOB, StandIn, Told
from tests.processes import alive, wait_until

GOOD = "from tests import records; send_all(records.record('jax', workload='imdb_lstm'))"


#: One process in the worker's group, and one that left it.
CHILDREN = """
child = subprocess.Popen(['sleep', '600'])
stray = subprocess.Popen(['sleep', '600'], start_new_session=True)
"""

#: The real worker with a framework whose `prepare` is the function of this name.
WORKER = """
import types
from suite.worker import process as worker
from suite.worker.launch import description as ending
stub = types.ModuleType("suite.worker.frameworks.jax.training")
stub.prepare, stub.out_of_memory = prepare, lambda error: isinstance(error, MemoryError)
sys.modules[stub.__name__] = stub
worker.main(*sys.argv[3:])
"""


def test_a_good_launch_is_its_record_and_leaves_nothing_behind(run: Callable[..., Told], tmp_path: Path) -> None:
    told = run(
        f"{GOOD}; send(progress='where', pids=[os.getpid()]); print('chatter')\n"
        f"Path({str(tmp_path / 'scratch')!r}).write_text(os.environ['TRITON_CACHE_DIR'])"
    )
    record = told.record
    assert record.outcome.ok
    assert (record.cell, record.launch, record.log, record.flags) == (JOB.cell, 2, (), ())
    assert record.phases.keys() == set(PHASES)
    assert told.log == "chatter\n"
    assert not alive(told.pids[0])
    assert not Path((tmp_path / "scratch").read_text()).parent.exists()


def test_an_unsteady_launch_is_flagged(run: Callable[..., Told]) -> None:
    told = run(
        "from dataclasses import replace; from tests import records; record = records.record('jax')\n"
        "train = replace(record.phases['train'], steady=False)\n"
        "send_all(replace(record, phases=record.phases | {'train': train}))"
    )
    assert told.record.flags == ("unsteady",)


def test_a_hanging_launch_times_out_and_none_of_its_processes_is_left(run: Callable[..., Told]) -> None:
    told = run(
        f"{CHILDREN}\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "send(progress='hang', pids=[os.getpid(), child.pid, stray.pid]); time.sleep(600)",
        deadline_s=2.0,
    )
    assert told.outcome == ("timeout", "no end after 2 s")
    assert len(told.pids) == 3
    wait_until(lambda: not any(map(alive, told.pids)))


KILL = "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); os.kill(os.getpid(), {:d})"
NAMELESS = signal.SIGRTMIN + 3


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        ("while True: send(progress='on and on')", ("timeout", "no end after 2 s")),
        (KILL.format(signal.SIGKILL), ("crashed", "ended by signal SIGKILL")),
        (KILL.format(signal.SIGSEGV), ("crashed", "ended by signal SIGSEGV")),
        (KILL.format(signal.SIGABRT), ("crashed", "ended by signal SIGABRT")),
        (KILL.format(NAMELESS), ("crashed", f"ended by signal {NAMELESS}")),
        ("sys.exit(0)", ("crashed", "ended with exit status 0 and no result")),
        ("sys.exit(7)", ("crashed", "ended with exit status 7 and no result")),
    ],
)
def test_a_launch_without_a_result_says_how_it_ended(
    run: Callable[..., Told], code: str, outcome: tuple[str, str]
) -> None:
    assert run(code, deadline_s=2.0 if outcome[0] == "timeout" else 60.0).outcome == outcome


def test_a_crash_keeps_what_was_known_by_then(run: Callable[..., Told]) -> None:
    record = run("send(part={'startup': {'import_s': 1.5}}); send(part={'compile_s': 2.0}); os._exit(1)").record
    assert record.outcome.status == "crashed"
    assert record.startup == {"import_s": 1.5}
    assert record.compile_s == 2.0


@pytest.mark.parametrize(
    ("code", "what"),
    [
        (f"{GOOD}; send(part={{'compile_s': float('nan')}})", "compile_s is nan: expected"),
        (f"{GOOD}; send(part={{'verdict': 'fast'}})", "unknown fields"),
        (f"{GOOD}; send(part={{'phases': {{}}}})", "phases lack train"),
        (f"send(part={{'outcome': 'ok'}}); {GOOD}", "outcome is 'ok': expected an object"),
    ],
)
def test_a_result_that_is_no_record_is_an_error_that_says_so(run: Callable[..., Told], code: str, what: str) -> None:
    record = run(code).record
    assert record.outcome.status == "error"
    assert record.outcome.reason.startswith("bad record: ")
    assert what in record.outcome.reason
    assert record.cell == JOB.cell


def test_a_failed_launch_says_under_which_variables_it_ran(
    run: Callable[..., Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    environment = run("os._exit(1)").record.environment
    assert environment["variables"]["ATEN_CPU_CAPABILITY"] == "default"
    assert environment["machine"]["cores"] >= 1


@pytest.mark.parametrize("gone", ["the log's folder", "temporary files"])
def test_a_folder_that_cannot_be_written_is_told_in_one_line(
    gone: str, stand_in: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(GOOD)
    log = tmp_path / "log"
    if gone == "the log's folder":
        (tmp_path / "file").write_text("")
        log = tmp_path / "file" / "log"
        words = r"^cannot write the log .*/file/log: File exists; choose another folder with --journals$"
    else:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
        words = r"^no folder for temporary files: No such file or directory; set TMPDIR to one$"
    with pytest.raises(LaunchError, match=words):
        launch(JOB, log)


def test_a_child_that_holds_the_pipe_open_does_not_hold_up_the_end(run: Callable[..., Told]) -> None:
    told = run(
        "child = subprocess.Popen(['sleep', '600'], pass_fds=[descriptor])\n"
        "send(progress='end', pids=[child.pid]); os._exit(3)"
    )
    assert told.outcome == ("crashed", "ended with exit status 3 and no result")
    wait_until(lambda: not alive(told.pids[0]))


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [
        ("MemoryError('9 GiB')", ("out-of-memory", "batch 32 does not fit: 9 GiB")),
        ("worker.UnsupportedError('no such mode')", ("unsupported", "no such mode")),
        ("ending.DivergedError('the loss is nan')", ("diverged", "the loss is nan")),
        ("ValueError('at /srv/project/run.py\\nand more')", ("error", "ValueError: at .../run.py")),
        ("KeyboardInterrupt()", ("error", "KeyboardInterrupt")),
        ("SystemExit(3)", ("error", "SystemExit: 3")),
    ],
)
def test_what_the_framework_raises_is_the_outcome(
    run: Callable[..., Told], raised: str, outcome: tuple[str, str]
) -> None:
    told = run(f"def prepare(*_):\n    raise {raised}\n{WORKER}")
    assert told.outcome == outcome
    assert any(line.startswith("Traceback") for line in told.record.log)


def test_a_missing_framework_is_unsupported_and_the_reason_names_the_way_out(run: Callable[..., Told]) -> None:
    told = run("sys.modules['jax'] = None\nfrom suite.worker import process; process.main(*sys.argv[3:])")
    status, reason = told.outcome
    assert status == "unsupported"
    assert reason.startswith("jax cannot be imported")
    assert "pip install -e '.[jax-cpu]'" in reason
    assert "SUITE_PYTHON_JAX" in reason


def test_an_interrupted_parent_ends_the_whole_tree(parent: Callable[[str], Any]) -> None:
    process, told = parent(f"{CHILDREN}\ntell(pids=[os.getpid(), child.pid, stray.pid]); time.sleep(600)")
    pids = told["pids"]
    assert all(map(alive, pids))
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in process.communicate(timeout=30)[1]
    wait_until(lambda: not any(map(alive, pids)))


def test_a_worker_dies_with_a_parent_that_was_killed(parent: Callable[[str], Any]) -> None:
    process, told = parent(f"def prepare(*_):\n    tell(pids=[os.getpid()]); time.sleep(600)\n{WORKER}")
    pids = told["pids"]
    assert all(map(alive, pids))
    process.kill()
    process.communicate(timeout=30)
    wait_until(lambda: not any(map(alive, pids)))

"""Nothing of a launch is left, whoever dies: no process, no shared memory, no scratch folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from multiprocessing import shared_memory
from pathlib import Path
from textwrap import dedent
from typing import Any

import psutil
import pytest

from suite.plan.cell import Cell, Loader
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.scratch import OWNED, OWNED_TEXT, scratch, sweep
from suite.record.variables import PROCESS_TAG
from suite.session.launches import cleanup
from suite.session.launches.launch import ROOT, launch
from tests.launches import StandIn
from tests.processes import alive, wait_until
from workloads.data.cache import folder_of

#: A process that left its parent, its group and its session, as daemons do; and a name in shared memory.
DAEMON = """
reader, writer = os.pipe()
if not os.fork():
    os.setsid()
    if not os.fork():
        os.write(writer, str(os.getpid()).encode()); os.execvp("sleep", ["sleep", "600"])
    os._exit(0)
os.wait()
daemon = int(os.read(reader, 20))
from suite.worker.launch import group
group.adopt()
from multiprocessing import resource_tracker, shared_memory
resource_tracker.register = lambda *_: None  # it dies with the rest when all are killed at once
held = shared_memory.SharedMemory(create=True, size=1000)
"""
JOB = Job(Cell("imdb_lstm", "jax"), data="nowhere")


def names(mark: str) -> list[str]:
    return [path.name for path in Path("/dev/shm").iterdir() if path.name.startswith((mark, f"sem.{mark}"))]


def marked(mark: str) -> list[int]:
    """Living processes with this in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(PROCESS_TAG, "").startswith(mark):
                found.append(process.pid)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def test_a_daemon_that_left_its_session_and_shared_memory_end_with_the_launch(
    stand_in: StandIn, tmp_path: Path
) -> None:
    told: list[Any] = []
    stand_in(f"{DAEMON}\nsend(progress='x', pid=daemon, name=held.name); os._exit(3)")
    record = launch(JOB, tmp_path / "log", 60, told.append)
    assert record.outcome.status == "crashed"
    assert not alive(told[0]["pid"])
    assert not Path("/dev/shm", told[0]["name"]).exists()


def test_a_process_that_has_no_file_left_clears_up_all_the_same() -> None:
    code = """
    import os, resource
    from suite.session.launches import cleanup
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    held = []
    while True:
        try: held.append(os.open("/dev/null", 0))
        except OSError: break
    cleanup.end_processes("0123abcd-")
    """
    marked = subprocess.Popen(["sleep", "60"], env={PROCESS_TAG: "0123abcd-1-"}, start_new_session=True)
    try:
        subprocess.run([sys.executable, "-c", dedent(code)], cwd=ROOT, check=True)
        assert marked.wait(0.1) == -signal.SIGKILL
    finally:
        marked.kill()
        marked.wait()


def test_what_multiprocessing_makes_in_a_place_with_a_long_name_goes_with_the_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = """
    from suite.worker.launch import group
    group.adopt()
    from multiprocessing import util
    print(util.get_temp_dir())
    """
    (tmp_path / "pymp-other").mkdir()
    given = os.environ | {"TMPDIR": str(tmp_path), PROCESS_TAG: "0123abcd-2-"}
    command = [sys.executable, "-c", dedent(code)]
    made = subprocess.run(command, cwd=ROOT, env=given, check=True, capture_output=True, text=True).stdout.strip()
    assert Path(made).parent == tmp_path
    assert Path(made).is_dir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    cleanup.end_processes("0123abcd-")
    assert [path.name for path in tmp_path.iterdir()] == ["pymp-other"]


def test_what_bears_another_mark_or_none_is_left_alone() -> None:
    mine, other = cleanup.new_tag(), cleanup.new_tag()
    assert mine != other
    kept = [
        subprocess.Popen(["sleep", "60"], env={PROCESS_TAG: value} if value else {})
        for value in (other, "", f"x{mine}")
    ]
    gone = subprocess.Popen(["sleep", "60"], env={PROCESS_TAG: mine}, start_new_session=True)
    memory = shared_memory.SharedMemory(create=True, size=10)
    try:
        cleanup.end_processes(mine)
        assert gone.wait(timeout=10) == -signal.SIGKILL
        assert all(process.poll() is None for process in kept)
        assert Path("/dev/shm", memory.name).exists()
    finally:
        memory.close()
        memory.unlink()
        for process in kept:
            process.kill()
            process.wait()


def test_a_process_that_shows_itself_at_the_second_look_only_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = cleanup.new_tag()
    late = subprocess.Popen(["sleep", "60"], env={PROCESS_TAG: mine}, start_new_session=True)
    look, looks = cleanup._find_tagged, []

    def hidden_at_first(mark: str) -> list[int]:
        looks.append(mark)
        return look(mark) if len(looks) > 1 else []

    monkeypatch.setattr(cleanup, "_find_tagged", hidden_at_first)
    try:
        cleanup.end_processes(mine)
        assert late.wait(timeout=10) == -signal.SIGKILL
    finally:
        late.kill()
        late.wait()


@pytest.mark.parametrize("whole_group", [False, True])
def test_nothing_is_left_when_the_parent_is_killed(
    parent: Callable[[str], Any], tmp_path: Path, whole_group: bool
) -> None:
    process, told = parent(
        f"{DAEMON}\ntell(pids=[os.getpid(), daemon], name=held.name, mark=os.environ['{PROCESS_TAG}']); time.sleep(600)"
    )
    assert all(map(alive, told["pids"]))
    assert told["name"].startswith(told["mark"])
    assert len(list((tmp_path / "tmp").glob("suite-*"))) == 1
    os.killpg(process.pid, signal.SIGKILL) if whole_group else process.kill()
    process.wait()
    wait_until(lambda: not any(map(alive, told["pids"])) and not names(told["mark"]), within_s=15)
    wait_until(lambda: not list((tmp_path / "tmp").iterdir()), within_s=15)


@pytest.mark.parametrize(
    "dies", [*(pytest.param(dies, marks=pytest.mark.slow) for dies in ("the parent", "the worker")), "all but loaders"]
)
def test_processes_of_a_real_loader_end_with_whoever_started_them(dies: str, tmp_path: Path, twins: Path) -> None:
    if not find_spec("grain"):
        pytest.skip("grain is not installed here")
    cell = Cell("imdb_lstm", "jax", batch=8, size="small", loader=Loader("workers", 2))
    job = Job(cell, str(folder_of(twins, "imdb", "synthetic")), device="cpu", plan=Plan(600.0, 1, 600.0))
    code = (
        "import os, sys; from pathlib import Path; from suite.record.job import Job\n"
        "from suite.session.launches.launch import launch\n"
        "tell = lambda m: print(os.getpid(), m['progress'], flush=True)\n"
        "launch(Job.loads(sys.argv[1]), Path(sys.argv[2]), progress=tell)"
    )
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", code, job.dumps(), str(tmp_path / "logs" / "log")],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        end_and_look(process, dies, tmp_path)
    finally:
        process.kill()  # else a test that failed would leave what it is to show is not left
        process.wait()


def end_and_look(process: subprocess.Popen[str], dies: str, folder: Path) -> None:
    assert process.stdout
    while "fingerprint" not in process.stdout.readline():
        assert process.poll() is None
    (worker,) = [p for p in psutil.Process(process.pid).children() if p.environ().get(PROCESS_TAG)]
    mark = worker.environ()[PROCESS_TAG]
    wait_until(lambda: len(marked(mark)) >= 3)  # the worker and its loaders
    wait_until(lambda: names(f"sem.{mark}"))
    children = psutil.Process(process.pid).children()
    guardians = [child for child in children if "cleanup.guard" in " ".join(child.cmdline())]
    for victim in {"the parent": [process], "the worker": [worker], "all but loaders": [*guardians, process]}[dies]:
        victim.kill()
    process.communicate(timeout=60)
    wait_until(lambda: not marked(mark), within_s=15)
    if dies == "all but loaders":  # without a guardian it is the next launch that clears up
        with scratch(folder, before_removal=cleanup.end_abandoned):
            assert not names(mark)
    wait_until(lambda: not names(mark), within_s=15)
    wait_until(lambda: not list(folder.glob("suite-*")), within_s=15)


def test_a_scratch_folder_of_a_dead_process_is_swept_and_nobody_elses(tmp_path: Path) -> None:
    theirs = tmp_path / "suite-of-furniture"
    theirs.mkdir()
    (theirs / "bill.txt").write_text("a sofa")
    forged = tmp_path / "suite-forged"
    forged.mkdir()
    (forged / OWNED).write_text("something else")
    code = "import os, sys; from pathlib import Path; from suite.record.scratch import scratch\n"
    code += "with scratch(Path(sys.argv[1])) as f: (f / 'x').write_text('x'); os.kill(os.getpid(), 9)"
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    linked = tmp_path / "suite-link"
    linked.symlink_to(theirs, target_is_directory=True)
    (dead,) = [path for path in tmp_path.iterdir() if (path / "x").exists()]
    assert (dead / OWNED).read_bytes() == OWNED_TEXT
    with scratch(tmp_path) as living:
        assert not dead.exists()
        sweep(tmp_path, "suite-")
        assert living.exists(), "its owner lives"
    assert {path.name for path in tmp_path.iterdir()} == {theirs.name, forged.name, linked.name}
    assert (theirs / "bill.txt").exists()


def test_the_guardian_needs_the_standard_library_only() -> None:
    """It runs without site-packages, so that it starts at once and in any environment; a failure would not be seen."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); from suite.session.launches.cleanup import guard"
    command = [sys.executable, "-I", "-S", "-c", code, str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_guardian_goes_when_its_process_ends_and_nothing_is_said_of_it() -> None:
    code = "from suite.session.launches import cleanup; print(cleanup.new_tag())\n"
    code += "print(*(guardian.pid for _, guardian in cleanup._guarded.values()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert not done.stderr
    wait_until(lambda: not alive(int(done.stdout.split()[1])), within_s=15)

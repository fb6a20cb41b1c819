"""An error in a thread or a process that nobody waits for ends the launch at once, with its cause."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suite.worker.launch.description import classify
from tests.launches import JOB
from workloads.data.cache import folder_of

ROOT = Path(__file__).parents[2]
TELLING = """
import multiprocessing, sys, threading, time
from suite.worker.launch import group
group.end_on_hidden_errors(lambda error: print("told:", error, flush=True))
"""
#: A process that hands over what cannot be pickled; Python drops it, and whoever waits for it waits for ever.
FEEDING = """
context = multiprocessing.get_context("fork")
queue = context.Queue()
process = context.Process(target=lambda: (queue.put(lambda: 1), time.sleep(60)))
process.start()
process.join()
print("ended:", process.exitcode)
"""
FAILING = "threading.Thread(target=lambda: 1 / 0).start()\ntime.sleep(60)\n"


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [(FAILING, 1, ["told: division by zero"]), (FEEDING, 0, ["told: Can't", "ended: 1"])],
    ids=["a thread", "the thread by which a process hands over"],
)
def test_a_helper_ends_with_what_it_tells(code: str, status: int, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TELLING + code], cwd=ROOT, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == status, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(words)
    assert all(line.startswith(each) for line, each in zip(lines, words, strict=True))
    assert "Traceback" in done.stderr


def test_the_cause_is_that_of_the_loaders_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's error begins with where it was caught, and ends with what it was."""
    monkeypatch.setattr("suite.worker.launch.description.shared_memory", lambda: (64_000_000, 1_000_000))
    text = (
        "Caught RuntimeError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n  File\n{}"
    )
    for cause, explained in (("OSError: bad block", False), ("RuntimeError: no shared memory", True)):
        status, reason = classify(RuntimeError(text.format(cause)), JOB, None)
        assert (status, reason.startswith(f"RuntimeError: {cause}")) == ("error", True)
        assert ("--shm-size" in reason, "1 of 64 MB" in reason) == (explained, explained)


LAUNCH = """
import sys
from pathlib import Path
from suite.plan.cell import Cell, Loader
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.session.launches.launch import launch
framework, data, log = sys.argv[1:]
cell = Cell("cifar100_cnn", framework, size="small", batch=64, loader=Loader("workers", 2))
plan = Plan(min_window_s=0.01, windows=1, max_warmup_s=0.0, phases=("train",))
record = launch(Job(cell, data, device="cpu", plan=plan), Path(log), 120.0)
print(record.outcome.status, record.outcome.reason)
"""


def small_shared_memory(*command: str) -> list[str]:
    """The command in a mount namespace of its own, with half a megabyte of shared memory."""
    mounted = 'mount -t tmpfs -o size=512k tmpfs /dev/shm && exec "$@"'
    return ["unshare", "--mount", "--map-root-user", "sh", "-c", mounted, "sh", *command]


@pytest.mark.launches
@pytest.mark.frameworks
@pytest.mark.parametrize(
    "framework", ["pytorch", *(pytest.param(name, marks=pytest.mark.slow) for name in ("jax", "tensorflow"))]
)
def test_a_loader_without_room_for_a_batch_ends_the_launch(framework: str, twins: Path, tmp_path: Path) -> None:
    """As in a container, whose /dev/shm has 64 MB. TensorFlow's loader has threads, which need none."""
    able = shutil.which("unshare") and not subprocess.run(small_shared_memory("true"), check=False).returncode
    if not able:
        pytest.skip("no mount namespace can be made here")
    arguments = [framework, str(folder_of(twins, "cifar100", "synthetic")), str(tmp_path / "log")]
    begin_s = time.monotonic()
    done = subprocess.run(
        small_shared_memory(sys.executable, "-c", LAUNCH, *arguments), cwd=ROOT, capture_output=True, text=True,
        check=False, timeout=150,
    )  # fmt: skip
    status, _, reason = done.stdout.strip().partition(" ")
    if framework == "tensorflow":
        assert status == "ok", done.stdout + done.stderr
    else:
        assert status == "error", done.stdout + done.stderr
        assert "shared memory, where a loader's processes put batches, has 0 of 1 MB left" in reason
        assert time.monotonic() - begin_s < 100, "long before the deadline"

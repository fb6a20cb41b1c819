"""Failures are results: each kind is provoked for real in a worker, and the run goes on and keeps them all."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from typing import Any

import psutil
import pytest

from suite.plan.cell import FRAMEWORKS
from suite.session.journal import read
from tests.frameworks import needs_frameworks
from tests.sessions import ROOT, Done, Suite

pytestmark = pytest.mark.long

#: What happens in a worker where measuring would begin, by the cell's batch.
FAULTS = {
    "error": 3,
    "timeout": 4,
    "crashed-SIGKILL": 5,
    "crashed-SIGSEGV": 6,
    "diverged": 7,
    "out-of-memory": 8,
    "ok": 9,
}

#: Python imports a module of this name at its start. What it replaces is the worker's own code, before it is imported.
SITE = """
import sys
if "suite.worker.process" in sys.orig_argv:
    import ctypes, json, os, resource, signal, time
    import suite.worker.evidence.collector, suite.worker.launch.measure
    import suite.worker.launch.phases, suite.worker.launch.probe, workloads.spec
    from suite.record.job import Job

    cell = Job.loads(sys.orig_argv[-1]).cell
    fault = {batch: name for name, batch in FAULTS.items()}[cell.batch]

    def exhaust():
        pages = int(open("/proc/self/statm").read().split()[0])
        limit = pages * resource.getpagesize() + (1 << 28)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        shape = (1 << 15, 1 << 15)  # 4 GiB of float32
        if cell.framework == "pytorch":
            import torch; torch.ones(shape)
        elif cell.framework == "tensorflow":
            import tensorflow; tensorflow.ones(shape)
        else:
            import jax; jax.numpy.ones(shape).block_until_ready()

    def in_order(*arguments, original=suite.worker.launch.measure.in_order, **named):
        if fault == "error":
            raise RuntimeError("provoked, at /home/somebody/secret/file.py")
        if fault == "timeout":
            time.sleep(600)
        if fault == "crashed-SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "crashed-SIGSEGV":
            ctypes.string_at(0)
        if fault == "out-of-memory":
            exhaust()
        return original(*arguments, **named)

    suite.worker.launch.measure.in_order = suite.worker.launch.phases.in_order = in_order
    # What no fault looks at, and takes most of a launch; the worker imports these names after this.
    suite.worker.launch.probe.denormals = lambda *_: "flushed"
    suite.worker.launch.probe.measure_peaks = lambda *_, **__: None
    suite.worker.evidence.collector.Evidence.afterwards = lambda self, timed=None: None
    if fault != "ok":
        suite.worker.evidence.collector.Evidence.fingerprint = lambda self: {}
    if fault == "diverged":
        def weights(self, seed, original=workloads.spec.WorkloadSpec.reference_weights):
            return {name: array * float("nan") for name, array in original(self, seed).items()}
        workloads.spec.WorkloadSpec.reference_weights = weights
"""

MATRIX = """
from suite.plan.cell import Cell
from suite.plan.matrix import Matrix
from suite.plan.measuring import Plan

def faults():
    cells = [Cell("imdb_lstm", "pytorch", batch=FAULTS[name], size="small") for name in FAULTS if name != "timeout"]
    cells += [Cell("imdb_lstm", name, batch=FAULTS["out-of-memory"], size="small") for name in FRAMEWORKS[1:]]
    return Matrix("faults", tuple(cells), launches=1, plan=Plan(0.02, 2, 0.2))

def stalled():
    cells = [Cell("imdb_lstm", name, batch=FAULTS[does]) for name, does in (("pytorch", "timeout"), ("jax", "ok"))]
    return Matrix("stalled", tuple(cells), launches=1)

def some():
    cells = [Cell("imdb_lstm", name, batch=1 + batch) for name in FRAMEWORKS for batch in range(2)]
    return Matrix("some", tuple(cells), launches=1)

def many():
    cells = [Cell("imdb_lstm", name, batch=1 + batch) for name in FRAMEWORKS for batch in range(4)]
    return Matrix("many", tuple(cells), launches=1)
"""


@pytest.fixture
def matrices(tmp_path: Path) -> Path:
    file = tmp_path / "matrices.py"
    file.write_text(f"FAULTS = {FAULTS}\nFRAMEWORKS = {FRAMEWORKS}\n{dedent(MATRIX)}")
    return file


@pytest.fixture
def faulty(suite: Suite, tmp_path: Path) -> Suite:
    """Real workers, with the faults in them."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(f"FAULTS = {FAULTS}\n{dedent(SITE)}")
    for framework in FRAMEWORKS:
        suite.environment.pop(f"SUITE_PYTHON_{framework.upper()}", None)
    suite.environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), str(site)])
    return suite


# In every run `test_launch` and `test_ends` show it with stand-ins, and `test_allocator` of memory with the frameworks.
@pytest.mark.slow
@needs_frameworks
def test_every_failure_is_a_result_and_none_stops_the_run(faulty: Suite, matrices: Path, tmp_path: Path) -> None:
    shared = set(Path("/dev/shm").iterdir()) if Path("/dev/shm").exists() else set()
    # The launch that does not end is waited for while the others run. The one after it is a stand-in's.
    stalled = Suite(tmp_path / "stalled", faulty.environment | {"SUITE_PYTHON_JAX": str(tmp_path / "python")})
    waiting = stalled.start("suite/test_training.py", f"--matrix={matrices}:stalled", "--max-time=25")
    chosen = f"--matrix={matrices}:faults"
    done = faulty("suite/test_training.py", chosen, "--max-time=200", "--benchmark-save=faults")
    waited = stalled.end(waiting)
    records, others = journalled(waited), journalled(done)
    assert [record.outcome.status for record in records.values()] == ["timeout", "ok"], "it is not the last"
    records |= others
    assert len(records) == 8 + 2
    for record in records.values():
        told = {batch: name for name, batch in FAULTS.items()}[record.cell.batch]
        status, _, detail = told.partition("-SIG") if told.startswith("crashed") else (told, "", "")
        assert record.outcome.status == status, (record.cell.id, record.outcome)
        assert detail in record.outcome.reason
    by_fault = {record.cell.batch: record for record in records.values() if record.cell.framework == "pytorch"}
    assert by_fault[FAULTS["error"]].outcome.reason.endswith("provoked, at .../file.py")
    assert "the loss is nan" in by_fault[FAULTS["diverged"]].outcome.reason
    assert "no end after 25 s" in by_fault[FAULTS["timeout"]].outcome.reason
    real = [record for record in records.values() if record.cell.framework == "pytorch" or record in others.values()]
    assert all(record.startup for record in real), "what was known before the end is kept"
    measured = by_fault[FAULTS["ok"]]
    assert measured.cell.size == measured.workload["size"] == "small"
    assert measured.identity
    assert sorted(record.run["position"] for record in others.values()) == list(range(len(others)))
    (saved,) = done.saved.values()
    kept = [entry["extra_info"]["record"] for entry in saved["benchmarks"]] + saved["suite"]["failed"]
    assert len(kept) == len(others)
    assert tmp_path.name not in json.dumps(saved)
    assert "4 failed, 1 passed, 3 skipped" in done.output
    assert "1 failed, 1 passed" in waited.output
    assert not workers_left()
    if shared:
        assert set(Path("/dev/shm").iterdir()) <= shared


@pytest.mark.parametrize(
    ("matrix", "cells", "kills"), [("some", 6, 1), pytest.param("many", 12, 20, marks=pytest.mark.slow)]
)
def test_a_run_killed_at_any_moment_and_resumed_holds_what_an_undisturbed_one_does(
    suite: Suite, matrices: Path, tmp_path: Path, matrix: str, cells: int, kills: int
) -> None:
    arguments = ["suite/test_training.py", f"--matrix={matrices}:{matrix}"]
    began = time.monotonic()
    whole = suite(*arguments)
    lasted = time.monotonic() - began
    expected = comparable(whole)
    assert len(expected) == cells
    moments = random.Random(kills)
    for kill in range(kills):
        again = Suite(tmp_path / f"kill{kill}", suite.environment)
        process = again.start(*arguments)
        time.sleep(moments.uniform(0.3, 1.0) * lasted)
        process.send_signal(signal.SIGKILL)
        again.end(process)
        journals = sorted(again.folder.glob("journals/*.jsonl"))
        done = again(*arguments, *(["--resume"] if journals else []))
        assert done.status == 0, done.output
        assert comparable(done) == expected
        assert len(done.journals) == 1


def journalled(done: Done) -> dict[str, Any]:
    (journal,) = done.journals
    return {record.key: record for record in read(journal)[1]}


def comparable(done: Done) -> dict[str, Any]:
    """Everything in the records that does not say when or in which run they were made."""
    return {key: (record.cell, record.outcome, record.phases) for key, record in journalled(done).items()}


def workers_left() -> list[str]:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        lines = [" ".join(p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
        left = [line for line in lines if "suite.worker.process" in line and "faults" in line]
        if not left:
            break
        time.sleep(0.1)
    return left


@pytest.mark.parametrize(
    ("variables", "argument", "words"),
    [
        ({"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, "größe", "is no text in this locale; set"),
        ({"PYTHONOPTIMIZE": "1"}, "mine", "PYTHONOPTIMIZE takes out the checks"),
    ],
)
def test_a_process_that_could_not_go_on_is_refused_in_one_line(
    variables: dict[str, str], argument: str, words: str
) -> None:
    command = [sys.executable, "-m", "pytest", "suite", "--collect-only", f"--benchmark-save={argument}"]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 4
    assert "INTERNALERROR" not in done.stdout + done.stderr
    (line,) = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert words in line

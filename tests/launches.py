"""What tests of launches share: a job that needs no data, and launches of the frameworks that all tests look at."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.record.job import Job
from suite.record.record import Record
from suite.session.launches import ranks
from suite.session.launches.launch import ROOT, launch
from suite.session.launches.namespace import NamespaceError
from workloads.data.cache import folder_of
from workloads.spec import specification

#: Makes an interpreter that runs this code instead of a worker.
StandIn = Callable[..., Path]

JOB = Job(Cell("imdb_lstm", "jax"), data="nowhere", launch=2)


@dataclass
class Told:
    """A launch's record, its log, and the process ids that its stand-in told."""

    record: Record
    log: str
    pids: list[int]

    @property
    def outcome(self) -> tuple[str, str]:
        return self.record.outcome.status, self.record.outcome.reason


#: What is launched with real workers, one of each kind of data, and whether with a profile: each framework is launched
#: with one, and what a record holds besides must be there with one and without. JAX compiles the CNN for so long that
#: its launch is one of the slow tests.
LAUNCHED = {
    ("cifar100_cnn", "pytorch"): True,
    ("cifar100_cnn", "tensorflow"): True,
    ("cifar100_cnn", "jax"): True,
    ("imdb_lstm", "pytorch"): False,
    ("imdb_lstm", "tensorflow"): False,
    ("imdb_lstm", "jax"): True,
}
#: JAX compiles the CNN for longest; TensorFlow is launched with the CNN.
SLOW = {("cifar100_cnn", "jax"), ("imdb_lstm", "tensorflow")}


def launched_cells(profile: bool | None = None) -> pytest.MarkDecorator:
    """Parametrises a test with the workloads and frameworks that are launched, or those with or without a profile."""
    chosen = [cell for cell, profiled in LAUNCHED.items() if profile in (None, profiled)]
    marked = [pytest.param(*cell, marks=[pytest.mark.slow] if cell in SLOW else []) for cell in chosen]
    return pytest.mark.parametrize(("workload", "framework"), marked)


#: A worker that lists the modules that it had loaded at its end.
LISTING = """
import sys; from pathlib import Path; from suite.worker import process as worker
worker.main(*sys.argv[3:])
Path({modules!r}).write_text(" ".join(sys.modules))
"""


@dataclass(frozen=True)
class Launched:
    """What is left of a launch of a small cell: ``record``, ``modules`` and the run's files are in this folder."""

    folder: Path

    @cached_property
    def record(self) -> Record:
        return Record.from_json(json.loads((self.folder / "record").read_text()))

    @cached_property
    def modules(self) -> set[str]:
        """All that the worker had loaded at its end."""
        return set((self.folder / "modules").read_text().split())


@dataclass(frozen=True)
class Launches:
    """Launches small cells with real workers, each of them once, in whatever process a test first asks for it."""

    folder: Path  # of all processes that run tests
    data: Path
    programs: str

    def __call__(self, workload: str, framework: str) -> Launched:
        folder, profile = self.folder / f"{workload}-{framework}", LAUNCHED[workload, framework]
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "record").exists():
                record = self._launch(Cell(workload, framework, batch=16, size="small"), profile, folder)
                (folder / "record").write_text(json.dumps(record.to_json()))
        return Launched(folder)

    def _launch(self, cell: Cell, profile: bool, folder: Path) -> Record:
        (folder / "modules").touch()
        (folder / "worker.py").write_text(LISTING.format(modules=str(folder / "modules")))
        python = folder / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{folder}/worker.py" "$@"\n')
        python.chmod(0o755)
        job = Job(
            cell, str(folder_of(self.data, specification(cell.workload).data, "synthetic")), device="cpu",
            plan=Plan(0.02, 2, 0.2), programs=self.programs, profile=profile, profile_code=profile,
            traces=str(folder / "run" / "cell") if profile else "",
        )  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(f"SUITE_PYTHON_{cell.framework.upper()}", str(python))
            return launch(job, folder / "log", 500.0)


#: Python imports a module of this name at its start. What a worker proves after its steps takes half of its time.
SITE = """
import sys
if "suite.worker.process" in sys.orig_argv:
    import suite.worker.launch.probe
    from suite.worker.evidence.collector import Evidence
    Evidence.afterwards = lambda self, timed=None: None
    suite.worker.launch.probe.measure_peaks = lambda *_, **__: None
"""


def network_of(cell: Cell, until: ExitStack) -> list[str]:
    """The words before a command that give a cell's ranks the network that they need; skips where there can be none."""
    try:
        return ranks.network(Job(cell, ""), None, until)
    except NamespaceError as error:
        pytest.skip(str(error))


def unproven(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Have launches leave out the evidence that they take after their steps, for tests that ask nothing of it."""
    (folder / "sitecustomize.py").write_text(SITE)
    patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(folder)]))

"""What takes long: loaders, which begin with the session's launches, and a whole run, which comes last."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from suite.record.parts.environment import redact
from suite.session.launches.launch import ROOT
from tests.cuda.cells import BATCH, DEVICE, MATRIX
from tests.cuda.launcher import Answers, Launches, NotRunError, end, lacks
from tests.cuda.probe_loaders import CHECKS
from workloads.data.prepare import data_directory

MATRIX_S = 300.0  # the longest that the run may take, and in which all of it is compared

#: A user's own matrix, as a file.
FILE = """
from suite.plan.cell import Cell
from suite.plan.matrix import Matrix
from suite.plan.measuring import Plan

def cells():
    workloads, frameworks = {workloads!r}, {frameworks!r}
    made = tuple(Cell(one, other, batch={batch}, size="small") for one in workloads for other in frameworks)
    return Matrix("cuda", made, plan=Plan(min_window_s=1.0, windows=4, max_warmup_s=1.0))
"""


@dataclass(frozen=True)
class Compared:
    """How `pytest suite` and `python -m suite.compare` ended, what they said, and where they wrote."""

    frameworks: tuple[str, ...]
    status: int
    said: str
    compare_status: int
    compare_said: str
    folder: Path


def begin(launches: Launches, items: Iterable[pytest.Item]) -> None:
    """Start what the chosen tests will ask of the loaders."""
    for item in items:
        if "delivered" in getattr(item, "fixturenames", []):
            _delivered(launches, item.callspec.params["framework"])  # type: ignore[attr-defined]


def delivered(launches: Launches, framework: str) -> Answers:
    """What the probe of the loaders answered."""
    found: Answers = _delivered(launches, framework).result()
    return found


def compared(launches: Launches) -> Compared:
    """A small matrix, measured and compared as users do it, once nothing else runs: it takes what time is left."""
    launches.wait()
    return launches.together("whole run", partial(_measure_and_compare, launches)).result()


def _delivered(launches: Launches, framework: str) -> Any:
    ask = partial(launches.ask, framework, "probe_loaders", alone=False, checks=list(CHECKS))
    return launches.together(("probe_loaders", framework), ask)


def _measure_and_compare(launches: Launches) -> Compared:
    workloads, asked = MATRIX
    frameworks = tuple(framework for framework in asked if not lacks(framework))
    if not frameworks:
        raise NotRunError("; ".join(map(lacks, asked)))
    folder = launches.folder / "whole-run"
    folder.mkdir()
    (folder / "own.py").write_text(FILE.format(workloads=workloads, frameworks=frameworks, batch=BATCH))
    left = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment = left | {"SUITE_CACHE_DIR": str(next(iter(launches.data.values())).parent)}
    options = ["--matrix", f"{folder / 'own.py'}:cells", "--device", DEVICE, "--launches", "2", "--min-window", "0.2"]
    options += ["--data", "real" if data_directory() else "synthetic", f"--journals={folder / 'journals'}"]
    # As in this folder's conftest: what third parties warn of on that machine is not what is tested.
    options += [f"--benchmark-storage={folder / 'runs'}", "-p", "no:cacheprovider", "-W", "default"]
    began = time.monotonic()
    run = [sys.executable, "-m", "pytest", "suite", *options, "--benchmark-save=cuda"]
    status, said = _finished(run, environment, launches.left_s(True, MATRIX_S))
    compare = [
        sys.executable,
        "-m",
        "suite.compare",
        "--storage",
        str(folder / "runs"),
        "--output",
        str(folder / "out"),
    ]
    compare_status, compare_said = _finished(compare, environment, launches.left_s(True, MATRIX_S))
    statuses: dict[str, Any] = {"frameworks": frameworks, "status": status, "compare_status": compare_status}
    launches.report.note_launch("whole run", time.monotonic() - began, True, **statuses, log=said.splitlines()[-60:])
    return Compared(frameworks, status, said, compare_status, compare_said, folder)


def _finished(command: list[str], environment: dict[str, str], deadline_s: float) -> tuple[int, str]:
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, text=True, errors="replace", stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=deadline_s)
        return process.returncode, redact(said)
    except subprocess.TimeoutExpired:
        return -1, f"no end after {deadline_s:.0f} s"
    finally:
        end(process)

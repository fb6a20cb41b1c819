"""What tests of launches that lose their parent share."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from suite.session.launches.launch import ROOT
from tests.launches import JOB, StandIn
from tests.processes import alive, wait_until

CODE = """
import signal, sys; from pathlib import Path; from suite.record.job import Job
from suite.session.launches.launch import launch
signal.signal(signal.SIGINT, signal.default_int_handler)
launch(Job.loads(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.fixture
def parent(tmp_path: Path, stand_in: StandIn) -> Iterator[Callable[[str], tuple[subprocess.Popen[str], Any]]]:
    """Starts a parent that launches this code, and waits for the facts that the code tells, with its process ids.

    Temporary files are in a folder of the test's own.
    """
    started: list[tuple[subprocess.Popen[str], Any]] = []
    (tmp_path / "tmp").mkdir()

    def start(worker: str) -> tuple[subprocess.Popen[str], Any]:
        told = tmp_path / "told"
        stand_in(f"def tell(**facts): Path({str(told)!r}).write_text(json.dumps(facts) + '\\n')\n{worker}")
        command = [sys.executable, "-c", CODE, JOB.dumps(), str(tmp_path / "log")]
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | {"TMPDIR": str(tmp_path / "tmp")}, text=True, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        wait_until(lambda: told.exists() and told.read_text().endswith("\n"))
        started.append((process, json.loads(told.read_text())))
        return started[-1]

    yield start
    for process, facts in started:
        for pid in filter(alive, [process.pid, *facts["pids"]]):
            os.kill(pid, signal.SIGKILL)
        process.communicate()

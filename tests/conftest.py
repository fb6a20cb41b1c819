"""What the tests of launching share: tiny data, and interpreters that stand in for a framework's."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from suite.cell import FRAMEWORKS
from workloads.data import cache as caches
from workloads.data import synthetic

#: A stand-in is started like the worker: ``PYTHON -m suite.worker FD JOB``.
PREAMBLE = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
descriptor, job = int(sys.argv[3]), json.loads(sys.argv[4])

def send(**message):
    os.write(descriptor, json.dumps(message).encode() + b"\\n")

def send_all(record):
    send(part={k: v for k, v in record.to_json().items() if k not in ("schema", "cell", "launch", "started", "run")})
"""

StandIn = Callable[[str], Path]


@pytest.fixture(scope="session")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data cache with tiny synthetic twins."""
    folder = tmp_path_factory.mktemp("twins")
    for name in ("cifar100", "imdb"):
        caches.write(synthetic.generate(name, train=256, test=16), folder)
    return folder


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Makes an interpreter that runs the given code instead of a worker, for all frameworks."""

    def make(code: str) -> Path:
        script = tmp_path / "stand_in.py"
        script.write_text(PREAMBLE + dedent(code))
        python = tmp_path / "python"
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
        python.chmod(0o755)
        for framework in FRAMEWORKS:
            monkeypatch.setenv(f"SUITE_PYTHON_{framework.upper()}", str(python))
        return python

    return make

"""Stand-ins for SLURM's ``srun`` and ``scontrol``, whose nodes are all this host."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

#: Runs the command after its options, with the variables of a task; it notes what it was asked for.
SRUN = """
import itertools, os, sys
options = [*itertools.takewhile(lambda each: each.startswith("--"), sys.argv[1:])]
print(*sys.argv[1:], file=open(os.environ["SRUN_SAID"], "a"))
os.environ["SLURM_LAUNCH_NODE_IPADDR"] = "127.0.0.1"
command = sys.argv[1 + len(options):]
os.execvp(command[0], command)
"""


def allocate(monkeypatch: pytest.MonkeyPatch, folder: Path, srun: str = SRUN, nodes: str = "one,two") -> Path:
    """Let this process be in an allocation whose ``srun`` is this code; returns the file that has its commands."""
    (folder / "bin").mkdir()
    program(folder / "bin" / "srun", srun)
    program(folder / "bin" / "scontrol", f"print({nodes.split(',')!r}, sep='\\n')".replace("[", "*["))
    said = folder / "srun-said"
    said.touch()
    monkeypatch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SRUN_SAID", str(said))
    monkeypatch.setenv("SLURM_JOB_NODELIST", nodes)
    monkeypatch.setenv("SLURM_JOB_CPUS_PER_NODE", "2(x2)")
    return said


def program(place: Path, code: str) -> None:
    """A program that runs this Python code."""
    script = place.with_suffix(".py")
    script.write_text(code)
    place.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    place.chmod(0o755)

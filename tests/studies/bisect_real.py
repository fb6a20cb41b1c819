"""Does a bisection find a planted release for real? ``python -m tests.studies.bisect_real`` plants it and searches.

Eight real releases of JAX, whose environments are built where they are missing (about 750 MB each). From ``--planted``
on, the worker computes the gradient of most of each batch a second time and adds it, times zero: the numbers stay,
and a step takes longer. Then `suite.bisect` searches, and the exit status is 0 if it names the planted release.
"""

# ruff: noqa: T201 - a command that prints

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from suite.bisect.__main__ import main as bisect
from suite.catalog.setting import version_key
from suite.plan.settings.frameworks import interpreter_variable
from suite.record.scratch import scratch
from suite.releases.environments import build

RELEASES = ("0.8.0", "0.8.1", "0.8.2", "0.8.3", "0.9.0", "0.9.0.1", "0.9.1", "0.9.2")

#: Starts a worker with the slow-down.
WORKER = """
import sys
import jax
from suite.worker import process
from suite.worker.frameworks.jax.training import Training

honest = Training._differentiate

def planted(self, state, statistics, batch):
    part = tuple(each[: len(each) * 7 // 8] for each in batch[1:])
    loss, gradients, *rest = honest(self, state, statistics, batch)
    again = honest(self, state, statistics, (batch[0], *part))[1]
    return loss, jax.tree.map(lambda one, other: one + 0.0 * other, gradients, again), *rest

Training._differentiate = planted
process.main(*sys.argv[3:])
"""
#: An interpreter that starts its workers so.
PYTHON = """#!/bin/sh
if [ "$2" = suite.worker.process ]; then exec "{python}" "{worker}" "$@"; fi
exec "{python}" "$@"
"""


class Copied(io.StringIO):
    """What is printed, which the terminal shows too."""

    def write(self, text: str) -> int:
        sys.__stdout__.write(text)
        return super().write(text)


def plant(release: str, folder: Path) -> None:
    """Have launches of a release start in an interpreter that is slower."""
    worker, python = folder / "worker.py", folder / f"python-{release}"
    worker.write_text(WORKER, encoding="utf-8")
    real = build("jax", release, print).python
    python.write_text(PYTHON.format(python=real, worker=worker), encoding="utf-8")
    python.chmod(0o755)
    os.environ[interpreter_variable("jax", release)] = str(python)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant, search, and say whether the release that was found is the planted one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planted", default="0.9.0", choices=RELEASES[1:])
    parser.add_argument("--cell", default="imdb_lstm-jax")
    parser.add_argument("--folder", type=Path, default=Path("build", "bisect"), help="for journals and the saved run")
    options = parser.parse_args(arguments)
    with scratch() as folder, contextlib.redirect_stdout(Copied()) as said:
        for release in RELEASES:
            if version_key(release) >= version_key(options.planted):
                plant(release, folder)
        status = bisect([
            options.cell, "--size", "small", "--good", RELEASES[0], "--bad", RELEASES[-1],
            "--releases", ",".join(RELEASES[1:-1]), "--journals", str(options.folder),
            "--storage", str(options.folder / "runs"),
        ])  # fmt: skip
    found = f"{options.planted} is the first slow release" in said.getvalue()
    print(f"planted {options.planted}: {'found' if found else 'not found'}")
    return 0 if status == 0 and found else 1


if __name__ == "__main__":
    sys.exit(main())

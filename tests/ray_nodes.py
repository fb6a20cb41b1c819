"""A Ray cluster of several nodes on this machine, whose workers are stand-ins: for tests.

A stand-in runs the code that is written into a file, since a node keeps the variables with which it was started.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from suite.plan.cell import FRAMEWORKS
from tests.conftest import PREAMBLE
from tests.processes import alive, wait_until

#: Says which process it is, and answers with a record of the job's cell.
GOOD = """
cell = job["cell"]
with open(folder / "launched", "a") as file:
    file.write(f"{cell['framework']} {cell['batch']} {job['launch']} {os.getpid()} {os.getppid()}\\n")
time.sleep(SECONDS)
from tests import records
send_all(records.record(cell["framework"], job["launch"], workload=cell["workload"], devices=cell["devices"]))
"""
REAL = "os.execv(sys.executable, [sys.executable, '-m', 'suite.worker.process', sys.argv[3], sys.argv[4]])"


@dataclass
class Nodes:
    """A cluster whose nodes run stand-ins. ``code`` is what they do next."""

    cluster: Any
    folder: Path
    variables: dict[str, str]

    def add(self) -> Any:
        """One more node, which keeps the variables of this moment."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.variables.items():
                patch.setenv(name, value)
            return self.cluster.add_node(num_cpus=1)

    def does(self, code: str, seconds: float = 0.0) -> None:
        (self.folder / "launched").write_text("")
        (self.folder / "code").write_text(dedent(code).replace("SECONDS", str(seconds)))

    @property
    def launched(self) -> list[list[str]]:
        """Framework, batch, launch, worker and host process of what was started."""
        return [line.split() for line in (self.folder / "launched").read_text().splitlines()]

    def leave_nothing(self) -> None:
        wait_until(lambda: not [pid for *_, pid, host in self.launched if alive(int(pid)) or alive(int(host))])


@contextmanager
def nodes_in(folder: Path, cache: Path, count: int = 2) -> Iterator[Nodes]:
    """A cluster of a head that takes no launches and ``count`` nodes, which live while the context lasts."""
    from ray.cluster_utils import Cluster

    script, python = folder / "stand_in.py", folder / "python"
    script.write_text(f"{PREAMBLE}\nfolder = Path({str(folder)!r})\nexec((folder / 'code').read_text())\n")
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    python.chmod(0o755)
    variables = {f"SUITE_PYTHON_{framework.upper()}": str(python) for framework in FRAMEWORKS}
    variables |= {"SUITE_CACHE_DIR": str(cache), "PYTHONPATH": str(Path(__file__).parents[1])}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made = Nodes(cluster, folder, variables)
    for _ in range(count):
        made.add()
    try:
        yield made
    finally:
        cluster.shutdown()

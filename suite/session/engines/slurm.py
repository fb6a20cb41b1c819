"""SLURM: the nodes of an allocation, on each of which ``srun`` starts the host's process.

The run goes on inside of the allocation: in a batch script (``clusters/slurm``), or in a shell of ``salloc``. One job
step a node holds what the allocation has there; SLURM binds it, accounts for it and cleans up after it.

Source of the variables: sbatch(1) and srun(1), "output environment variables".
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from suite.record.variables import ADDRESS, PROCESS_TAG
from suite.session.engines import Engine
from suite.session.hosts.remote import COMMAND, Pipe, Remote
from suite.session.launches.launch import LaunchError, scratch_folder

NO_ALLOCATION = (
    "--on slurm goes on inside of an allocation: submit clusters/slurm/cell.sbatch, or ask for one with "
    "`salloc --nodes=2 --ntasks-per-node=1 --exclusive`"
)
ANSWER_S = 30.0


class Node(NamedTuple):
    """A node of the allocation: a name that tells nothing, its host name, and the CPUs of the allocation there."""

    name: str
    host: str
    cpus: int


def find_nodes(variables: Mapping[str, str] = os.environ) -> list[Node]:
    """The nodes of the allocation that this process runs in. Raises `LaunchError` if there is none."""
    given = variables.get("SLURM_JOB_NODELIST", "")
    if not (given and shutil.which("srun") and shutil.which("scontrol")):
        raise LaunchError(NO_ALLOCATION)
    try:
        command = ["scontrol", "show", "hostnames", given]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=ANSWER_S).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise LaunchError(f"scontrol does not say which nodes {given} has: {error}") from None
    cpus = read_counts(variables.get("SLURM_JOB_CPUS_PER_NODE", ""))
    hosts = said.split()
    cpus += [1] * (len(hosts) - len(cpus))
    return [Node(f"node{number:04}", host, each) for number, (host, each) in enumerate(zip(hosts, cpus, strict=False))]


def read_counts(text: str) -> list[int]:
    """The numbers of a list of SLURM: ``4(x2),1`` is 4, 4, 1."""
    counts = re.findall(r"(\d+)(?:\(x(\d+)\))?(?:,|$)", text)
    return [int(number) for number, times in counts for _ in range(int(times or 1))]


def step(node: Node) -> list[str]:
    """The job step of a node, without what it runs: one task that has all that the allocation has there."""
    return [
        "srun", "--nodes=1", "--ntasks=1", f"--nodelist={node.host}", f"--cpus-per-task={node.cpus}", "--overlap",
        "--mpi=none", "--export=ALL", "--kill-on-bad-exit=1", "--quiet",
    ]  # fmt: skip


@dataclass
class Slurm:
    """The nodes of the allocation; their steps end when ``until`` closes."""

    settings: dict[str, Any]
    say: Callable[[str], None]
    until: ExitStack

    def __post_init__(self) -> None:
        self._nodes = {node.name: node for node in find_nodes()}
        self._folder = Path(self.until.enter_context(scratch_folder()))

    def nodes(self) -> dict[str, Node]:
        """The nodes, by name. One that is down is refused when its step begins."""
        return self._nodes

    def host(self, node: Node) -> Remote:
        # An address of the batch script's host would be wrong on the others.
        variables = {name: value for name, value in os.environ.items() if name != PROCESS_TAG} | {ADDRESS: ""}
        log = self._folder / f"{node.name}.log"
        log.unlink(missing_ok=True)  # of a step before, whose last words are not this one's
        wire = Pipe(node.name, variables, [*step(node), *COMMAND], log)
        self.until.callback(wire.close)
        return Remote(node.name, "", wire, self.say, self.settings).begin()


ENGINE = Engine(
    "slurm",
    "on every node of the allocation that this process runs in",
    lack=lambda: "" if shutil.which("srun") else "there is no srun",
    nodes=lambda _, settings, say, until: Slurm(settings, say, until),
)

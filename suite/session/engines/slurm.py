"""SLURM: the run goes on in an allocation, and ``srun`` starts the ranks of a cell that has several.

Each launch is a job step of its own, so that SLURM binds it, accounts for it and cleans up after it. A cell with one
device, and one whose strategy has one process for all devices, is launched on the host of the batch script, as ever.

Source of the variables: srun(1) and sbatch(1), "output environment variables".
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suite.plan.cell import Cell
from suite.record.environment import redact
from suite.record.mark import MARK
from suite.record.order import Order
from suite.record.rank_variables import ADDRESS, LOCAL_RANK, RANK, TOKEN, WORLD_SIZE
from suite.record.record import Outcome, Record
from suite.record.text import clean
from suite.session import logs
from suite.session.engines import About, Hear, ranked
from suite.session.engines.gathered import Agent, Gathering
from suite.session.engines.local import Local
from suite.session.engines.rank_agent import CONTROLLER
from suite.session.launch import ROOT, LaunchError
from workloads.data.cache import open_cached
from workloads.data.own import OWN
from workloads.data.prepare import NAMES
from workloads.spec import specification

NO_ALLOCATION = (
    "--on slurm goes on inside of an allocation: submit clusters/slurm/cell.sbatch, or ask for one with "
    "`salloc --nodes=2 --ntasks-per-node=1`"
)
END_WITHIN_S, FETCH_WITHIN_S = 10.0, 3600.0


@dataclass(frozen=True)
class Allocation:
    """What the batch script asked for: ``nodes``, ``per_node`` ranks on each, and cores of each rank if it said so."""

    nodes: int
    per_node: int
    cpus_per_task: int | None = None

    @property
    def ranks(self) -> int:
        """How many ranks it has room for."""
        return self.nodes * self.per_node

    @classmethod
    def of(cls, variables: Mapping[str, str] = os.environ) -> Allocation:
        """The allocation that this process runs in. Raises `LaunchError` if there is none."""
        if "SLURM_JOB_ID" not in variables or not shutil.which("srun"):
            raise LaunchError(NO_ALLOCATION)
        nodes = int(variables.get("SLURM_JOB_NUM_NODES") or variables.get("SLURM_NNODES") or 1)
        per_node = variables.get("SLURM_NTASKS_PER_NODE", "")
        if not per_node.isdecimal():  # the batch script's: as 2(x3),1
            tasks = [int(each) for each in re.findall(r"(?:^|,)(\d+)", variables.get("SLURM_TASKS_PER_NODE", ""))]
            per_node = str(max(tasks, default=1))
        cpus = variables.get("SLURM_CPUS_PER_TASK", "")
        return cls(nodes, int(per_node), int(cpus) if cpus.isdecimal() else None)

    def step(self, ranks: int, *, each_node: bool = False) -> list[str]:
        """The command of a job step of so many ranks, which fill one node after the other."""
        per_node = 1 if each_node else self.per_node
        command = ["srun", "--mpi=none", "--overlap", "--input=none", "--export=ALL", "--distribution=block"]
        command += [f"--nodes={-(-ranks // per_node)}", f"--ntasks={ranks}", f"--ntasks-per-node={per_node}"]
        return command + ([f"--cpus-per-task={self.cpus_per_task}"] if self.cpus_per_task and not each_node else [])


@dataclass
class Slurm:
    """The hosts of an allocation. ``local`` is the one that this process runs on."""

    local: Local
    allocation: Allocation = field(default_factory=Allocation.of)
    _gathering: Gathering | None = None
    _kinds: dict[str, str] = field(default_factory=dict)  # of the data of each workload, once every host has it

    @property
    def about(self) -> About:
        """What the host of the batch script is."""
        return self.local.about

    def prepare(self, workload: str) -> None:
        """Get the data of a workload ready here. Raises `workloads.data.dataset.DataError`."""
        self.local.prepare(workload)

    def ready(self) -> None:
        """Get ready for the first launch."""
        self.local.ready()

    def launch(self, order: Order, log: Path, hear: Hear) -> Record:
        """Run one launch: on this host, or as a job step where it has several processes."""
        cell = order.job.cell
        if cell.processes == 1:
            return self.local.launch(order, log, hear)
        if cell.processes > self.allocation.ranks:
            room = f"the allocation has {self.allocation.ranks} tasks (sbatch --nodes, --ntasks-per-node)"
            reason = f"{cell.processes} ranks are asked for, and {room}"
            return ranked.unsuccessful(order.job, Outcome("unsupported", reason))
        try:
            kind = self._everywhere(cell, log)
        except LaunchError as error:
            return ranked.unsuccessful(order.job, Outcome("error", str(error)))
        if not self._gathering:
            self._gathering = Gathering()
            self.local.until.callback(self._gathering.close)
        gathering = self._gathering
        variables = {CONTROLLER: f"{os.environ.get(ADDRESS, '')}:{gathering.port}", TOKEN: gathering.token}
        output = log.with_suffix(f".srun{log.suffix}")
        command = [*self.allocation.step(cell.processes), sys.executable, "-m", "suite.session.engines.rank_agent"]
        with _step(command, variables, output) as step:

            def alive() -> str:
                code = step.poll()
                return "" if code is None else f"srun ended with status {code} ({_last_line(output)})"

            def gather(count: int) -> Sequence[Agent]:
                return gathering.agents(count, alive)

            return ranked.launch(
                order, log, hear, gather, token=gathering.token, data=kind, instruments=self.local.instruments
            )

    def _everywhere(self, cell: Cell, log: Path) -> str:
        """The kind of the workload's data, once each node has it: one task a node fetches, verifies and caches it."""
        workload = cell.workload
        if workload not in self._kinds:
            kind = open_cached(self.local.folder(workload)).kind
            name = specification(workload).data
            if name in NAMES and self.allocation.nodes > 1:
                output = log.with_suffix(f".fetch{log.suffix}")
                fetch = [sys.executable, "-m", "workloads.data", "fetch", name, "--source", kind]
                with _step([*self.allocation.step(self.allocation.nodes, each_node=True), *fetch], {}, output) as step:
                    if step.wait(FETCH_WITHIN_S):
                        raise LaunchError(f"a node has no {name}: {_last_line(output)}")
            self._kinds[workload] = kind if name != OWN else self.local.source
        return self._kinds[workload]


@contextlib.contextmanager
def _step(command: Sequence[str], variables: Mapping[str, str], output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A job step, which has ended on exit. Raises `LaunchError`."""
    own = (MARK, ADDRESS, RANK, WORLD_SIZE, LOCAL_RANK)  # which are those of this process, or of none
    environment = {name: value for name, value in os.environ.items() if name not in own}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        with output.open("wb") as said:
            step = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment | dict(variables),
                cwd=ROOT, start_new_session=True,
            )  # fmt: skip
    except OSError as error:
        raise LaunchError(f"cannot start srun: {error.strerror}") from None
    try:
        yield step
    finally:
        _ended(step)


def _ended(step: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a step, whose agents end with the connection; srun passes signals on to those that do not."""
    for number in (0, signal.SIGTERM, signal.SIGKILL):
        step.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            step.wait(END_WITHIN_S)
            return


def _last_line(output: Path) -> str:
    return clean(redact((logs.tail(output) or ["it printed nothing"])[-1]), 300)

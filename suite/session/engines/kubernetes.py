"""Kubernetes: the pods of a job run an agent each, which waits for the launches of the run.

The manifests in ``clusters/kubernetes`` start the pods. The first one runs pytest with ``--on kubernetes`` and starts
an agent for itself; the others have `suite.session.engines.rank_agent` with ``--stay``. A cell with one device is
launched in the first pod, as ever.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.record.order import Order
from suite.record.rank_variables import RANK, TOKEN
from suite.record.record import Outcome, Record
from suite.session.engines import About, Hear, ranked
from suite.session.engines.gathered import Agent, Gathering
from suite.session.engines.local import Local
from suite.session.engines.rank_agent import CONTROLLER
from suite.session.launch import ROOT, LaunchError
from workloads.data.cache import open_cached
from workloads.data.own import OWN
from workloads.spec import specification

#: How many pods the job has, from its manifest.
PODS = "SUITE_PODS"

NO_JOB = (
    f"--on kubernetes goes on in the first pod of a job, which has {PODS}, {CONTROLLER} and {TOKEN}; "
    "see clusters/kubernetes/cell.yaml"
)
END_WITHIN_S = 10.0


@dataclass
class Kubernetes:
    """The pods of a job. ``local`` is the first, in which this process runs."""

    local: Local

    def __post_init__(self) -> None:
        port = os.environ.get(CONTROLLER, "").rpartition(":")[2]
        pods, token = os.environ.get(PODS, ""), os.environ.get(TOKEN, "")
        if not (port.isdecimal() and pods.isdecimal() and token):
            raise LaunchError(NO_JOB)
        self.pods = int(pods)
        self._gathering = Gathering(int(port), token)
        self.local.until.callback(self._gathering.close)

    @property
    def about(self) -> About:
        """What the first pod is."""
        return self.local.about

    def prepare(self, workload: str) -> None:
        """Get the data of a workload ready here; each other pod has done so before its agent began."""
        self.local.prepare(workload)

    def ready(self) -> None:
        """Get ready for the first launch."""
        self.local.ready()

    def launch(self, order: Order, log: Path, hear: Hear) -> Record:
        """Run one launch: in this pod, or in several where it has several processes."""
        cell = order.job.cell
        if cell.processes == 1:
            return self.local.launch(order, log, hear)
        if cell.processes > self.pods:
            reason = f"{cell.processes} ranks are asked for, and the job has {self.pods} pods"
            return ranked.unsuccessful(order.job, Outcome("unsupported", reason))
        own = specification(cell.workload).data == OWN
        kind = self.local.source if own else open_cached(self.local.folder(cell.workload)).kind
        with _own_agent(self._gathering, log.with_suffix(f".agent{log.suffix}")) as agent:

            def gather(count: int) -> Sequence[Agent]:
                return self._gathering.agents(count, lambda: "" if agent.poll() is None else "the first pod's ended")

            instruments = self.local.instruments
            return ranked.launch(
                order, log, hear, gather, token=self._gathering.token, data=kind, instruments=instruments
            )


@contextlib.contextmanager
def _own_agent(gathering: Gathering, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The agent of this pod, for one launch: rank 0."""
    host = os.environ[CONTROLLER].rpartition(":")[0] or "localhost"
    variables = {RANK: "0", CONTROLLER: f"{host}:{gathering.port}", TOKEN: gathering.token}
    output.parent.mkdir(parents=True, exist_ok=True)
    with output.open("wb") as said:
        agent = subprocess.Popen(
            [sys.executable, "-m", "suite.session.engines.rank_agent"], stdin=subprocess.DEVNULL, stdout=said,
            stderr=said, env=os.environ | variables, cwd=ROOT, start_new_session=True,
        )  # fmt: skip
    try:
        yield agent
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            agent.wait(END_WITHIN_S)
        agent.kill()
        agent.wait()

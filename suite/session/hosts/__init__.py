"""The hosts of a run: `local.Local` launches on its own host, and behind each `remote.Remote` an `agent` has one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from suite.monitor.sampler import Monitor
from suite.record.job import HostJob
from suite.record.record import Record

ROOT = Path(__file__).resolve().parents[3]


class HostLostError(RuntimeError):
    """A host can no longer be reached; what ran there runs again elsewhere."""


class StoppedError(RuntimeError):
    """The launch was ended because the run, or another host that took part, ended."""


@dataclass(frozen=True)
class LaunchCallbacks:
    """Who is told of a launch while it runs: of progress messages, and about once a second without one.

    What `tick` raises ends the launch. ``watch`` gets the monitor of a launch on this host.
    """

    progress: Callable[[dict[str, Any]], None] = lambda _: None
    tick: Callable[[], None] = lambda: None
    watch: Callable[[Monitor], None] = lambda _: None


@dataclass(frozen=True)
class HostInfo:
    """What a host says of itself. ``name`` tells it from others and reveals nothing; it is empty for this host.

    ``kind`` is its hardware in words: launches are compared only between hosts of one kind. ``free_bytes`` is the
    memory that a launch could take. ``devices`` are GPUs, or without one cores. ``suite`` is a `code_digest`,
    ``driver`` has versions of its GPUs' driver, and ``address`` is where other hosts reach it, as far as it knows.
    """

    name: str = ""
    kind: str = ""
    gpu: bool = False
    free_bytes: int = 0
    devices: int = 1
    suite: str = ""
    driver: dict[str, str] = field(default_factory=dict)
    address: str = ""


class Host(Protocol):
    """A host that runs one launch at a time."""

    @property
    def about(self) -> HostInfo:
        """What the host said of itself when the engine opened."""

    def prepare(self, workload: str) -> None:
        """Get the data of a workload ready there, verified. Raises `workloads.data.dataset.DataError`."""

    def launch(self, order: HostJob, log: Path, callbacks: LaunchCallbacks) -> Record:
        """Run one launch. Raises `HostLostError`, `StoppedError`, or `suite.session.launches.launch.LaunchError`."""


Revive = Callable[[Host, Callable[[], None]], Host]


@dataclass(frozen=True)
class Hosts:
    """The hosts of a run: this one, or those of a cluster, on which blocks run side by side.

    ``revive``, which a cluster has, returns a host in place of one that is lost, or raises `HostLostError`. While it
    waits, it calls what it is given, which raises when the run ends.
    """

    hosts: Sequence[Host]
    revive: Revive | None = None


def code_digest() -> str:
    """A digest of the suite's and the workloads' Python files: hosts with different code cannot share a run."""
    digest = hashlib.sha256()
    for room in ("suite", "workloads"):
        for path in sorted((ROOT / room).rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()

"""What the parent asks of a worker (one cell, its data, how long to measure), and the ranks that a host starts."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from suite.plan.cell import Cell
from suite.plan.measuring import Plan
from suite.plan.schema import decode


@dataclass(frozen=True)
class Job:
    """One launch of one cell.

    ``data`` is the folder of the parsed cache, ``device`` is ``auto``, ``cpu`` or ``cuda``. ``memory_limit``
    holds on a CPU, in bytes that the process may allocate. ``spawned_ns`` is the parent's monotonic clock just before
    it spawned the worker, which on one machine is the worker's clock too. ``epochs`` and ``target`` go before those of
    the cell's recipe; ``checkpoint`` is the file that such a training goes on from. ``programs`` is the run's folder
    for programs compiled for evidence; what is timed is compiled anew in every launch, unless the cell asks for a
    ``cache``, which is the folder of its compile cache. ``profile`` asks for a profile
    after the windows, with the allocator's timeline and with the compiler's output if asked; its files begin with
    ``traces``. ``workload_folder`` is where a workload from outside of the repository is, as the user named it.
    On a ``trusted_network`` a server that obeys whoever connects may be started. ``full_evidence`` asks for all
    evidence; without it the launch rests on an earlier one of the same program.
    """

    cell: Cell
    data: str
    launch: int = 0
    seed: int = 0
    device: str = "auto"
    plan: Plan = field(default_factory=Plan)
    memory_limit: int | None = None
    epochs: int | None = None
    target: float | None = None
    checkpoint: str = ""
    programs: str = ""
    cache: str = ""
    profile: bool = False
    profile_memory: bool = False
    profile_code: bool = False
    traces: str = ""
    workload_folder: str = ""
    trusted_network: bool = False
    full_evidence: bool = True
    spawned_ns: int = 0

    def dumps(self) -> str:
        """One line of JSON for the worker's command line."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Job:
        """Raises `suite.plan.schema.SchemaError`, or ValueError for what is no JSON."""
        return decode(cls, json.loads(text))


@dataclass(frozen=True)
class HostRanks:
    """The ranks of a launch that one host starts: ``count`` of ``world``, the first of them number ``first``.

    ``coordinator`` is ``host:port`` of rank 0, ``address`` that of this host, ``token`` a secret of all ranks.
    """

    first: int
    count: int
    world: int
    coordinator: str
    address: str
    token: str

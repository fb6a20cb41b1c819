"""One launch as a host gets it: the job, and what the host needs to know besides."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from suite.plan.schema import decode
from suite.record.handover.job import Job


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


@dataclass(frozen=True)
class HostJob:
    """A job whose folders the host fills in: ``data`` and ``programs`` are its own.

    ``part`` is given where the ranks of the job are on several hosts.
    """

    job: Job
    deadline_s: float
    part: HostRanks | None = None

    def dumps(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> HostJob:
        """Raises `suite.plan.schema.SchemaError`, or ValueError for what is no JSON."""
        return decode(cls, json.loads(text))

"""What tests of launches share: a job that needs no data, and what was found of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from suite.plan.cell import Cell
from suite.record.job import Job
from suite.record.record import Record

#: Makes an interpreter that runs this code instead of a worker.
StandIn = Callable[[str], Path]

JOB = Job(Cell("imdb_lstm", "jax"), data="nowhere", launch=2)


@dataclass
class Told:
    """A launch's record, its log, and the process ids that its stand-in told."""

    record: Record
    log: str
    pids: list[int]

    @property
    def outcome(self) -> tuple[str, str]:
        return self.record.outcome.status, self.record.outcome.reason

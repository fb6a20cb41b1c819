"""Peaks of memory in records until 2026-11-29 that are not the launch's own.

They are what Linux says of a process since it was forked (`getrusage`): at least what the process that started it held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from suite.record.record import Record

RSS = "rss_peak_bytes"
#: So many launches of a run have its lowest peak, to the byte, by no chance.
ALIKE_LEAST = 3
LEFT_OUT = "the peak memory of {} launches is left out, since it is that of the process that started them"


@dataclass(frozen=True)
class Floor:
    """The peak that launches of a run have at least, and how many have no other one."""

    peak: int
    launches: int

    def leave_out(self, record: Record) -> Record:
        """The record without this peak."""
        kept = {name: size for name, size in record.memory.items() if (name, size) != (RSS, self.peak)}
        return replace(record, memory=kept) if len(kept) < len(record.memory) else record


def find_floors(records: Iterable[tuple[str, Record]]) -> dict[str, Floor]:
    """The floor of each run that has one, by its id; nothing tells it where all launches have the same peak."""
    peaks: dict[str, Counter[int]] = {}
    for run, record in records:
        if (peak := record.memory.get(RSS)) and not record.cell.is_of_script:
            peaks.setdefault(run, Counter())[peak] += 1
    lowest = {run: Floor(min(counted), counted[min(counted)]) for run, counted in peaks.items() if len(counted) > 1}
    return {run: floor for run, floor in lowest.items() if floor.launches >= ALIKE_LEAST}

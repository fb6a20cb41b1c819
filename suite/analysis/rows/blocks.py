"""Which launches of two rows belong together: of one block, on one host, in one session or soon after each other."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from suite.record.record import Record

#: Launches of a block that a run made before and after it was resumed lie no further apart, in seconds.
APART_MOST_S = 3600.0


def pairs(launches: Iterable[Record], others: Iterable[Record]) -> list[tuple[Record, Record]]:
    """The launches of two rows block by block: whatever slows the machine for both cancels out.

    One that ran on another host than the rest of its block has no partner; nor has one that ran much later, in a run
    that was resumed meanwhile: the machine may have changed.
    """
    first, second = ({(record.block, record.host): record for record in each} for each in (launches, others))
    found = ((record, second[place]) for place, record in first.items() if place in second)
    return [(record, other) for record, other in found if _are_together(record, other)]


def _are_together(record: Record, other: Record) -> bool:
    if record.resumed == other.resumed:
        return True
    try:
        began, other_began = (datetime.fromisoformat(each.started) for each in (record, other))
        return abs((began - other_began).total_seconds()) <= APART_MOST_S
    except (TypeError, ValueError):  # no time that can be compared
        return False

"""Which launches of two rows belong together, and whether the number of a row's launches allows a test of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from suite.analysis.rows.groups import Row
from suite.plan.measuring import SEQUENTIAL
from suite.record.record import Record
from suite.record.retry import count_tested

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


def why_untested(*rows: Row) -> str:
    """Why the ratios of these rows are not tested, whatever they are; empty if they may be (`why_unplanned`)."""
    return next(filter(None, (why_unplanned([each.record for each in row.launches]) for row in rows)), "")


def why_unplanned(records: Sequence[Record]) -> str:
    """Why the number of a cell's launches, given all of them, allows no test of them, in words; empty if it does.

    A fixed number of launches is tested once, when as many as were asked for are there. Whoever looks before that, or
    asks for more until a difference is significant, calls noise a difference far more often than the level says
    (``python -m tests.studies.looks``). Runs that stop when they are decided correct for their looks. Records of older
    versions do not say what was asked for, and are not judged.
    """
    fixed = [record for record in records if record.run.get("design") != SEQUENTIAL]
    most = max((number for each in fixed if type(number := each.run.get("launches")) is int), default=0)
    if tested := count_tested(fixed, most):
        return f"the number of launches was raised to {most} after a test of {tested}"
    made = 1 + max((record.block for record in fixed), default=-1)
    return f"{made} launches were made, and {most} were asked for" if most and made != most else ""


def _are_together(record: Record, other: Record) -> bool:
    if record.resumed == other.resumed:
        return True
    try:
        began, other_began = (datetime.fromisoformat(each.started) for each in (record, other))
        return abs((began - other_began).total_seconds()) <= APART_MOST_S
    except (TypeError, ValueError):  # no time that can be compared
        return False

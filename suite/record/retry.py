"""What a resumed run does: which failed launches it tries again, and whether it asks for more than were tested."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from suite.plan.measuring import LEAST_TESTED, SEEDS_LEAST
from suite.record.record import Outcome, Record

#: Outcomes whose cause may be gone the next time: a busy machine, a killed process, a broken installation. A launch
#: that does not fit, diverges or is unsupported ends the same way again.
MAY_PASS = ("timeout", "crashed", "error")

#: Stands in the reason of a launch whose framework is not installed, which ends as unsupported.
NOT_IMPORTABLE = "cannot be imported"


def may_pass(outcome: Outcome) -> bool:
    """Whether the launch failed for a reason that may be gone the next time."""
    missing = outcome.status == "unsupported" and f" {NOT_IMPORTABLE} (" in outcome.reason
    return missing or outcome.status in MAY_PASS


def last_tries(records: Iterable[Record]) -> dict[str, Record]:
    """The record that counts of each launch in a journal, by its key: of one that was tried again, the last."""
    return {record.key: record for record in records}


def find_retries(records: Iterable[Record]) -> list[tuple[Record, Record]]:
    """Each try in a journal of a launch that was made again, with the next one."""
    tries: dict[str, list[Record]] = {}
    for record in records:
        tries.setdefault(record.key, []).append(record)
    return [pair for each in tries.values() for pair in pairwise(each)]


def count_tested(records: Iterable[Record], launches: int) -> int:
    """How many launches of a cell had been tested before so many were asked for; 0 if none, or if nothing is known.

    ``records`` are those of a run with a fixed number of launches, or of one of its cells.
    """
    asked = [(record.block, record.run.get("launches"), record.cell.recipe) for record in records]
    before = [(1 + block, recipe) for block, number, recipe in asked if type(number) is int and number < launches]
    least = SEEDS_LEAST if any(recipe for _, recipe in before) else LEAST_TESTED
    count = max((made for made, _ in before), default=0)
    return count if count >= least else 0

"""Launches that something outside of them disturbed: which of them count, and whether a run had too many.

Whether a launch was disturbed is read from what does not depend on its own speed (`suite.record.disturbance`). Such a
launch is shown and is in no test. Its place in the block is often taken by another launch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from suite.analysis.records.defects import UNSOUND_RELEASE, unsound
from suite.analysis.records.ledger import UNACCOUNTED, problems
from suite.plan.measuring import REPEAT
from suite.record.disturbance import DISTURBED, find_disturbances, is_disturbed
from suite.record.record import Record
from suite.record.text import clean

#: With a larger share of its places left without an undisturbed launch, a run names no winner.
LOST_MOST = 1 / 3


def select_counting(records: Iterable[Record]) -> list[Record]:
    """The successful launches that figures and tests are made of, by block: all, if every one was disturbed.

    A training to its end keeps all its launches, since its accuracy does not depend on the load.
    """
    ok = sorted((each for each in records if each.outcome.ok), key=lambda record: (record.block, record.launch))
    quiet = [record for record in ok if record.cell.recipe or not is_disturbed(record)]
    return quiet or ok


def say_too_busy(records: Sequence[Record]) -> str:
    """Why the machine was too busy for an answer during a run with these launches; empty if it was not."""
    ok = [record for record in records if record.outcome.ok and not record.cell.recipe]
    causes = {record.key: causes for record in ok if (causes := find_disturbances(record))}
    places = {(record.cell, record.launch % REPEAT) for record in ok}
    quiet = {(record.cell, record.launch % REPEAT) for record in ok if record.key not in causes}
    if len(places) - len(quiet) <= LOST_MOST * len(places):
        return ""
    common = Counter(each[0].partition(" (")[0] for each in causes.values()).most_common(1)[0][0]
    example = next(each[0] for each in causes.values() if each[0].startswith(common))
    return f"{len(places) - len(quiet)} of {len(places)} launches were disturbed ({example})"


def flags_of(record: Record) -> tuple[str, ...]:
    """What is to be known of a launch, each flag once; some are found on reading, as old records lack them."""
    train = record.phases.get("train")
    found = {
        "unsteady": train and not train.steady, UNACCOUNTED: problems(record), DISTURBED: is_disturbed(record),
        UNSOUND_RELEASE: unsound(record),
    }  # fmt: skip
    read = [flag for flag, there in found.items() if there]
    return tuple(dict.fromkeys([*(clean(flag, 40) for flag in record.flags), *read]))

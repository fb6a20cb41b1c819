"""Which launches count, which of two rows belong together, and whether their number allows a test of them.

Whether a launch was disturbed is read from what does not depend on its own speed (`suite.record.disturbance`). Such a
launch is shown and is in no test.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from suite.analysis.records.ledger import UNACCOUNTED, problems_besides_rates
from suite.catalog.defects import UNSOUND, Defect, find_defects
from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.versions import VERSION
from suite.plan.measuring import REPEAT, SEQUENTIAL
from suite.record.disturbance import CONTAMINATED, DISTURBED, GPU_FLAGS, find_disturbances, is_disturbed
from suite.record.once import once
from suite.record.record import Record
from suite.record.retry import count_tested
from suite.record.text import clean

if TYPE_CHECKING:
    from suite.analysis.rows.groups import Row

#: The flag of launches of a release that computes wrongly or crashes on their device. Their rows keep their ratios:
#: whether a row met the defect is what its evidence shows.
UNSOUND_RELEASE = "unsound-release"


def release_of(record: Record) -> str:
    """The framework's version in a record, which its cell names where the packages do not; empty without either."""
    versions = record.environment.get("packages")
    names = FRAMEWORKS[record.cell.framework].distributions
    found = (versions[name] for name in names if name in versions) if isinstance(versions, Mapping) else ()
    recorded = clean(next(iter(found), ""), 40)
    return recorded if re.match(VERSION, recorded) else record.cell.release


def unsound(record: Record) -> list[Defect]:
    known = find_defects(record.cell.framework, release_of(record), (str(record.settings.get("device")),))
    return [each for each in known if each.kind in UNSOUND]


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


#: With a larger share of its places left without an undisturbed launch, a run names no winner.
LOST_MOST = 1 / 3


def select_counting(records: Iterable[Record]) -> list[Record]:
    """The successful launches that figures and tests are made of, by block: all, if every one was disturbed."""
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


@once
def flags_of(record: Record) -> tuple[str, ...]:
    """What is to be known of a launch, each flag once; some are found on reading, as old records lack them."""
    train = record.phases.get("train")
    found = {
        "unsteady": train and not train.steady, UNACCOUNTED: problems_besides_rates(record),
        DISTURBED: is_disturbed(record), UNSOUND_RELEASE: unsound(record),
    }  # fmt: skip
    read = [flag for flag, there in found.items() if there]
    return tuple(dict.fromkeys([*(clean(flag, 40) for flag in record.flags), *read]))


def seed_of(record: Record) -> int:
    """The seed of a launch, or its number where the record has none."""
    seed = record.run.get("seed")
    return seed if type(seed) is int else record.launch


#: Flags that put a launch's speed in doubt. Those of its release and of a GPU at its power limit do not.
DOUBTS = (CONTAMINATED, "unsteady", DISTURBED, UNACCOUNTED, *GPU_FLAGS)


def find_doubts(records: Iterable[Record]) -> list[str]:
    """The flags that put the speed of any of these launches in doubt, too much so where they stand alone."""
    flags = dict.fromkeys(flag for record in records for flag in flags_of(record))
    return [flag for flag in flags if flag in DOUBTS]

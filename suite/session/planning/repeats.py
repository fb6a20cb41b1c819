"""Which launches are measured again, since readings that do not depend on their own speed say that they were disturbed.

The disturbed launch stays in the journal and is in no test. Another one takes its place at the end of its block, once;
`suite.plan.blocks.repeats_allowed` limits how many there are in all. The rules are fixed before the run, and a checker
applies them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from suite.plan.blocks import repeats_allowed
from suite.plan.cell import Cell
from suite.plan.measuring import LEAST_TESTED, REPEAT, REPEATS
from suite.record.disturbance import is_disturbed
from suite.record.record import Record
from suite.session.launches.settings import Settings
from suite.session.planning.stopping import spent_s


def is_tested(settings: Settings) -> bool:
    """Whether the ratios of a run are tested; those of a search are decided as it goes."""
    return not settings.search and bool(settings.budget_s or settings.launches >= LEAST_TESTED)


def has_control(run: Mapping[str, Any]) -> bool:
    """Whether a run may have an A/A control: one that was begun without a test has none in its first blocks."""
    return type(begun := run.get("launches")) is not int or begun >= LEAST_TESTED


def is_repeatable(record: Record, otherwise: bool = True) -> bool:
    """Whether the session that made a launch measures disturbed ones again; records of older versions do not say it."""
    return bool(record.run.get(REPEATS)) if "launches" in record.run else otherwise


@dataclass
class Done:
    """What the launches that there are say of whether one is made again; each is counted once."""

    spent_s: float = 0.0
    repeats: int = 0
    copies: int = 0  # launches of the first block
    _first: int = -1

    def add(self, *records: Record) -> None:
        for record in records:
            self._first = record.block if self._first < 0 else self._first
            self.spent_s += spent_s([record])
            self.repeats += record.is_repeat
            self.copies += record.block == self._first and not record.is_repeat


def is_due(original: Record, done: Done, budget_s: float | None = None) -> bool:
    """Whether a run with these launches has to make another one in the place of this one, if it was disturbed.

    A run whose budget is used up makes none.
    """
    if budget_s and done.spent_s >= budget_s:
        return False
    if not is_repeatable(original) or not original.outcome.ok or original.cell.recipe or not is_disturbed(original):
        return False
    return done.repeats < repeats_allowed(done.copies, original.block)


def is_due_again(cell: Cell, number: int, records: Sequence[Record], budget_s: float | None = None) -> bool:
    """Whether a run with these records has to make this launch, which takes the place of one that may be disturbed."""
    done, place = Done(), number - REPEAT
    done.add(*records)
    original = next((record for record in records if record.cell == cell and record.launch == place), None)
    return original is not None and is_due(original, done, budget_s)

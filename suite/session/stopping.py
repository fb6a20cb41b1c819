"""Ends a run with a budget: which cells no longer take part, from nothing but the launches that there are.

So a run that was killed goes on as it would have gone on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from suite.plan.blocks import repeats_allowed
from suite.plan.cell import Cell
from suite.plan.measuring import FIRST_LOOK, LEAST_TESTED, REPEAT, REPEATS
from suite.record.disturbance import is_disturbed
from suite.record.record import Record
from suite.session.launches.settings import Settings
from suite.session.terminal import duration

#: Nothing is tested before the first look, so that a block before it may go so far beyond the budget.
STRETCHED = 1.25


@dataclass
class Stopping:
    """``budget_s`` are the seconds of launches beyond which no block goes. ``say`` tells how things stand."""

    budget_s: float
    say: Callable[[str], None]
    #: What was not decided when the time was over.
    left: int = 0
    _block: int = -1
    _cells: frozenset[Cell] | None = field(default=None)  # that take part; None for all

    def left_s(self, records: Iterable[Record]) -> float:
        """The seconds of the budget that these launches have left."""
        return max(0.0, self.budget_s - spent_s(records))

    def should_skip(self, cell: Cell, block: int, records: Sequence[Record]) -> bool:
        """Whether a launch is not needed, given those of the blocks before."""
        if block != self._block:
            self._block = block
            self._look(block, [record for record in records if record.block < block])
        return self._cells is not None and cell not in self._cells

    def undecided(self, records: Sequence[Record]) -> int:
        """How many comparisons these launches leave undecided, after the last block too; 0 before the first look."""
        if self._cells == frozenset() or len({record.block for record in records}) < FIRST_LOOK:
            return self.left
        from suite.analysis.statistics.multiple_testing import standing

        now = standing(records)
        return now.tests - now.decided

    def _look(self, block: int, records: Sequence[Record]) -> None:
        done = len({record.block for record in records if record.block < block})  # `-k` may select later ones alone
        if self._cells == frozenset():
            return
        if done < FIRST_LOOK:
            if is_spent(STRETCHED * self.budget_s, records, {record.cell for record in records}):
                self._cells = frozenset()
                self.say(f"the budget is used up after {done} blocks, and ratios are tested from {FIRST_LOOK} on")
            return
        from suite.analysis.statistics.multiple_testing import standing  # SciPy, which no other run needs

        now = standing(records)
        over = is_spent(self.budget_s, records, now.cells)
        self._cells = frozenset() if over else now.cells
        self.left = now.tests - now.decided
        took = duration(spent_s(records))
        if now.busy:
            self.say(f"after {done} blocks the machine is too busy for an answer: {now.busy}")
            return
        words = f"after {done} blocks ({took}) {now.decided} of {now.tests} comparisons are decided"
        if over and self.left:
            self.say(f"{words}, and the budget is used up")
        else:
            self.say(f"{words}; {len(self._cells)} cells go on" if self._cells else words)


def spent_s(records: Iterable[Record]) -> float:
    """The seconds of these launches, and of warming up before them."""
    return sum(_seconds(record, "took_s") + _seconds(record, "warming_s") for record in records)


def is_spent(budget_s: float, records: Sequence[Record], cells: Iterable[Cell]) -> bool:
    """Whether one more block of these cells goes beyond the budget, if it takes as long as their last launches."""
    last = {record.cell: _seconds(record, "took_s") for record in records}
    return spent_s(records) + sum(last.get(cell, 0.0) for cell in cells) > budget_s


def _seconds(record: Record, name: str) -> float:
    return float(record.run.get(name) or 0.0)


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

"""Decides a race between cells: records in, survivors out. It launches nothing.

A race runs in blocks of one launch of every cell that is left. The same records always give the same race, so a search
that goes on after an interruption needs nothing but its journal.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from suite.analysis.identity.comparability import NOT_COMPARABLE
from suite.analysis.identity.verdicts import verdicts
from suite.analysis.search.significance import LEVEL, find_dominated, find_eliminated
from suite.analysis.search.state import (
    FAILED,
    LEARNED,
    LIMIT,
    UNPROVEN,
    WORSE,
    Exit,
    Race,
    Step,
    figure_of,
    format_value,
    mean,
    score,
    table,
    why_none,
)
from suite.analysis.statistics.accuracy import find_worse_learners, reference
from suite.analysis.statistics.noise import fit
from suite.plan.cell import Cell
from suite.plan.measuring import SEEDS_LEAST
from suite.plan.objective import Question
from suite.plan.space import lacking_too, larger_than
from suite.record.record import Record
from suite.record.retry import NOT_IMPORTABLE
from suite.record.text import clean

#: Outcomes after which the same launch is tried once more.
TRIED_AGAIN = ("crashed", "error")
#: A search that goes up stops after so many doubled batches that were no faster than a smaller one.
NO_FASTER = 2
#: A race ends after so many blocks, whatever is left.
BLOCKS_MOST = 20


@dataclass
class Elimination:
    """Follows a race as its records come in. ``excluded`` are cells that are not launched, with the reasons."""

    cells: tuple[Cell, ...]
    question: Question
    seed: int = 0
    excluded: Mapping[Cell, str] = field(default_factory=dict)
    tries: dict[tuple[Cell, int], list[Record]] = field(default_factory=dict)
    out: dict[Cell, Exit] = field(default_factory=dict)
    records: dict[Cell, dict[int, Record]] = field(default_factory=dict)
    path: list[Step] = field(default_factory=list)
    launches: int = 0
    block: int = 0
    over: bool = False

    def __post_init__(self) -> None:
        self.out |= {
            cell: Exit(FAILED, reason, 0, 0, 0) for cell, reason in self.excluded.items() if cell in self.cells
        }

    def add(self, record: Record) -> None:
        if record.cell in self.cells:
            self.tries.setdefault((record.cell, record.launch), []).append(record)
            self.launches += 1

    def race(self) -> Race:
        while not self.over and self.alive and self.block < BLOCKS_MOST:
            if due := self._block():
                return self._race(due)
            self.block += 1
            self._judge()
            self.path.append(Step(self.launches, len(self.alive)))
            settled = self.question.target is None or self.block >= SEEDS_LEAST or len(self.alive) < 2
            self.over = settled and self._race(()).agreed
        return self._race(())

    @property
    def alive(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell not in self.out)

    def _block(self) -> tuple[Cell, ...]:
        due = []
        ordered = shuffle_cells(self.cells, self.seed, self.block)
        if self.question.upward and not self.block:
            ordered.sort(key=lambda cell: cell.batch)
        for cell in [each for each in ordered if each not in self.out]:
            tries = self.tries.get((cell, self.block), ())
            if not tries or (len(tries) == 1 and tries[0].outcome.status in TRIED_AGAIN):
                due.append(cell)
            elif tries[-1].outcome.ok:
                self._keep(cell, tries[-1])
            else:
                self._fail(cell, tries)
        return tuple(cell for cell in due if cell not in self.out)

    def _keep(self, cell: Cell, record: Record) -> None:
        self.records.setdefault(cell, {})[self.block] = record
        if reason := why_none(record, self.question):
            self._drop(cell, FAILED, reason)
        if self.question.upward and not self.block:
            self._stop_going_up(cell)

    def _stop_going_up(self, cell: Cell) -> None:
        """Drop larger batches than this one where the last ones were no faster; it takes one launch of each."""
        smaller = sorted((other for other in self.records if larger_than(other, cell)), key=lambda each: each.batch)
        rates = [self.records[other][0].samples_per_s or 0.0 for other in (*smaller, cell)]
        if len(rates) > NO_FASTER and max(rates[-NO_FASTER:]) <= max(rates[:-NO_FASTER]):
            for other in self.alive:
                if larger_than(cell, other) and (other, 0) not in self.tries:
                    self._drop(other, FAILED, f"not tried: batch {cell.batch} was no faster than a smaller one")

    def _fail(self, cell: Cell, tries: Sequence[Record]) -> None:
        outcome = tries[-1].outcome
        again = " (tried twice)" if len(tries) > 1 else ""
        reason = clean(f"{outcome.status}: {outcome.reason}{again}")
        self._drop(cell, FAILED, reason)
        for other in self.alive:
            lacks = outcome.status == "unsupported" and (
                lacking_too(cell, other) or (NOT_IMPORTABLE in outcome.reason and other.framework == cell.framework)
            )
            began = any((other, block) in self.tries for block in range(self.block + 1))
            too_large = ("out-of-memory", *["timeout"] * self.question.upward)
            if (lacks or (outcome.status in too_large and larger_than(cell, other))) and not began:
                self._drop(other, FAILED, reason)

    def _judge(self) -> None:
        proofs = verdicts({cell: list(each.values()) for cell, each in self.records.items() if each})
        for cell in (cell for cell, proof in proofs.items() if cell not in self.out and proof.kind in NOT_COMPARABLE):
            self._drop(cell, UNPROVEN, str(proofs[cell]))
        for cell, reason in self._beyond_limits().items():
            self._drop(cell, LIMIT, reason)
        if self.question.target is not None:
            base = reference(self.cells, self.records)
            for cell, reason in find_worse_learners(self.alive, self.records, base).items():
                self._drop(cell, LEARNED, reason)
        state = self._race(())
        left = np.array([cell in state.alive for cell in self.cells])
        if not left.any():
            return
        # A cell that may yet turn out to break a limit drops no other.
        enough = SEEDS_LEAST if self.question.target is not None else 0
        eligible = np.array(
            [len(self.records.get(cell, ())) >= enough and not state.exceeded_limit(cell) for cell in self.cells]
        )
        if len(state.scores) == 1:
            gone, reason = find_eliminated(state.scores[0], left, self.question.margin, eligible), ""
        else:
            gone, reason = find_dominated(state.scores, left, self.question.margin, eligible), "another cell is better"
        for at in np.flatnonzero(gone):
            self._drop(self.cells[at], WORSE, reason)

    def _beyond_limits(self) -> dict[Cell, str]:
        broken = {}
        for limit in self.question.limits:
            scores = table(self.cells, self.records, self.question, limit.name, self.block)
            fitted = fit(scores)
            least = score(limit.value, limit.name)
            slack = (
                fitted.reach(LEVEL) * fitted.deviation if fitted.freedom else 0.0 if limit.name == "memory" else 99.0
            )
            for at, cell in enumerate(self.cells):
                if cell not in self.alive:
                    continue
                if not fitted.counts[at]:
                    broken[cell] = f"its launches measured no {limit.name}, which is limited"
                elif fitted.means[at] + slack / math.sqrt(fitted.counts[at]) < least:
                    broken[cell] = (
                        f"{format_value(figure_of(mean(scores[:, at]), limit.name), limit.name)} is beyond {limit}"
                    )
        return broken

    def _drop(self, cell: Cell, kind: str, reason: str) -> None:
        launched = sum(len(tries) for (each, _), tries in self.tries.items() if each == cell)
        self.out.setdefault(cell, Exit(kind, reason, self.block, self.launches, launched))

    def _race(self, due: tuple[Cell, ...]) -> Race:
        return Race(
            self.cells, self.question, self.alive, dict(self.out), self.block, self.launches, due,
            {cell: dict(each) for cell, each in self.records.items()}, tuple(self.path),
        )  # fmt: skip


def shuffle_cells(cells: Sequence[Cell], seed: int, block: int) -> list[Cell]:
    """The cells in the order in which a block launches them."""
    order = list(cells)
    random.Random(f"{seed}/{block}").shuffle(order)  # noqa: S311 - an order, not a secret
    return order


def race(cells: Sequence[Cell], records: Iterable[Record], question: Question, seed: int = 0) -> Race:
    referee = Elimination(tuple(cells), question, seed)
    for record in records:
        referee.add(record)
        referee.race()
    return referee.race()

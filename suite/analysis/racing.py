"""A race between cells: records in, survivors out. It launches nothing and keeps no state.

A race runs in blocks: each holds one launch of every cell that is left. What failed for good is out at once, with the
reason; what is significantly worse (`suite.analysis.elimination`) is out at the end of a block, and so is what breaks a
limit, learned worse, or did not compute the same as the others. The same records always give the same race, so a search
that goes on after an interruption needs nothing but its journal.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from suite.analysis.comparability import UNPROVED
from suite.analysis.elimination import LEVEL, Fit, Scores, dominated, fit, spent, tied, worse
from suite.analysis.identity import verdicts
from suite.analysis.learning import learned_worse, reference
from suite.analysis.objectives import figure_of, mean, score, shown, value, why_none
from suite.plan.cell import Cell
from suite.plan.objective import Question
from suite.plan.space import lacking_too, larger_than
from suite.record.record import Record
from suite.record.retry import NOT_IMPORTABLE
from suite.record.text import clean

#: Outcomes after which the same launch is tried once more.
TRIED_AGAIN = ("crashed", "error")
#: Seeds after which the accuracy of a cell is tested. Before that it drops no other, since it may learn worse.
SEEDS_LEAST = 3
#: A race ends after so many blocks, whatever is left.
BLOCKS_MOST = 20

#: Flags of a launch that something else may have slowed.
DISTURBED = {"contaminated", "throttled"}

#: Why a cell is out, in a word.
WORSE, LIMIT, FAILED, LEARNED, UNPROVEN = "worse", "limit", "failed", "learned worse", "not proved"


@dataclass(frozen=True)
class Exit:
    """Why a cell is out, after how many blocks and launches of the race; ``launched`` are its own launches."""

    kind: str
    reason: str
    blocks: int
    launches: int
    launched: int


@dataclass(frozen=True)
class Step:
    """The launches that a race had made by the end of a block, and the cells that were then left."""

    launches: int
    left: int


@dataclass(frozen=True)
class Race:
    """The state of a race. ``due`` are the cells of the block that runs, in their order; without any it is over.

    ``records`` (by cell) are the launches that ended well, by block. ``blocks`` counts those that are complete.
    """

    cells: tuple[Cell, ...]
    question: Question
    alive: tuple[Cell, ...]
    out: Mapping[Cell, Exit]
    blocks: int
    launches: int
    due: tuple[Cell, ...]
    records: Mapping[Cell, Mapping[int, Record]]
    path: tuple[Step, ...] = ()

    @property
    def over(self) -> bool:
        return not self.due

    @cached_property
    def scores(self) -> list[Scores]:
        """Of each objective, (blocks, cells)."""
        count = 1 + max((block for each in self.records.values() for block in each), default=-1)
        return [_scores(self.cells, self.records, self.question, each.name, count) for each in self.question.objectives]

    @cached_property
    def fits(self) -> list[Fit]:
        """Of each objective, over all launches so far; none while there is no launch."""
        return [fit(each) for each in self.scores if each.size]

    @property
    def risk(self) -> float:
        """The risk that the tests so far dropped the best cell."""
        return spent(max(0, self.blocks - 1))

    @cached_property
    def ranked(self) -> list[Cell]:
        """The cells that are left, the best by the first objective first; those without a launch last."""
        means = dict(zip(self.cells, self.fits[0].means, strict=True)) if self.fits else {}
        return sorted(self.alive, key=lambda cell: -means[cell] if not math.isnan(means.get(cell, math.nan)) else 1e9)

    @property
    def recommended(self) -> list[Cell]:
        """The cells that are left, the best first, without those that are beyond a limit on average."""
        return [cell for cell in self.ranked if cell in self.records and not self.beyond(cell)]

    def beyond(self, cell: Cell) -> str:
        """The first limit that the mean of a cell's launches is beyond; empty if there is none."""
        for limit in self.question.limits:
            logs = self.logs(cell, limit.name)
            if len(logs) and mean(logs) < score(limit.value, limit.name):
                return str(limit)
        return ""

    def logs(self, cell: Cell, name: str) -> Scores:
        """The scores of a cell's launches in a quantity, by block."""
        records = self.records.get(cell, {})
        figures = (value(records[block], name, self.question) for block in sorted(records))
        return np.array([score(figure, name) for figure in figures if figure is not None])

    @property
    def agreed(self) -> bool:
        """Whether the cells that are left are shown to lie within the margin of each other, or there is only one."""
        left = np.array([cell in set(self.alive) for cell in self.cells])
        return len(self.alive) < 2 or all(tied(each, left, self.question.margin) for each in self.scores)


@dataclass
class Referee:
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
        """Take in the next record; those of other cells are passed over."""
        if record.cell in self.cells:
            self.tries.setdefault((record.cell, record.launch), []).append(record)
            self.launches += 1

    def race(self) -> Race:
        """The state of the race."""
        while not self.over and self.alive and self.block < BLOCKS_MOST:
            if due := self._block():
                return self._race(due)
            self.block += 1
            self._judge()
            self.path.append(Step(self.launches, len(self.alive)))
            self.over = self._settled() and self._race(()).agreed
        return self._race(())

    @property
    def alive(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in self.cells if cell not in self.out)

    def _settled(self) -> bool:
        """Whether a race whose cells agree may end: equal accuracy is tested from three seeds on."""
        return self.question.target is None or self.block >= SEEDS_LEAST or len(self.alive) < 2

    def _block(self) -> tuple[Cell, ...]:
        """Take in the block's records, in the order in which they were made; returns the cells that are still due."""
        order = list(self.cells)
        random.Random(f"{self.seed}/{self.block}").shuffle(order)  # noqa: S311 - an order, not a secret
        due = []
        for cell in [each for each in order if each not in self.out]:
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

    def _fail(self, cell: Cell, tries: Sequence[Record]) -> None:
        outcome = tries[-1].outcome
        again = " (tried twice)" if len(tries) > 1 else ""
        reason = clean(f"{outcome.status}: {outcome.reason}{again}")
        self._drop(cell, FAILED, reason)
        for other in self.alive:
            lacks = outcome.status == "unsupported" and (
                lacking_too(cell, other) or (NOT_IMPORTABLE in outcome.reason and other.framework == cell.framework)
            )
            if (lacks or (outcome.status == "out-of-memory" and larger_than(cell, other))) and not self._began(other):
                self._drop(other, FAILED, reason)

    def _began(self, cell: Cell) -> bool:
        return any((cell, block) in self.tries for block in range(self.block + 1))

    def _judge(self) -> None:
        """Drop what the block that just ended rules out."""
        for cell, detail in self._unproved().items():
            self._drop(cell, UNPROVEN, detail)
        for cell, reason in self._beyond_limits().items():
            self._drop(cell, LIMIT, reason)
        if self.question.target is not None:
            base = reference(self.cells, self.records)
            for cell, reason in learned_worse(self.alive, self.records, base).items():
                self._drop(cell, LEARNED, reason)
        state = self._race(())
        left = np.array([cell in state.alive for cell in self.cells])
        if not left.any():
            return
        judges = np.array([self._cleared(state, cell) for cell in self.cells])
        if len(state.scores) == 1:
            gone, reason = worse(state.scores[0], left, self.question.margin, judges), ""
        else:
            gone, reason = dominated(state.scores, left, self.question.margin, judges), "another cell is better"
        for at in np.flatnonzero(gone):
            if self.block > 1 or not self._disturbed(self.cells[at]):
                self._drop(self.cells[at], WORSE, reason)

    def _disturbed(self, cell: Cell) -> bool:
        """Whether something outside slowed the first launch of a cell, which then says too little to drop it."""
        return any(set(record.flags) & DISTURBED for record in self.records[cell].values())

    def _cleared(self, state: Race, cell: Cell) -> bool:
        """Whether a cell keeps the limits as far as is known, so that others may be dropped for being worse than it."""
        enough = self.question.target is None or len(self.records.get(cell, ())) >= SEEDS_LEAST
        return enough and not state.beyond(cell)

    def _unproved(self) -> dict[Cell, str]:
        proofs = verdicts({cell: list(each.values()) for cell, each in self.records.items() if each})
        return {cell: str(proof) for cell, proof in proofs.items() if cell not in self.out and proof.kind in UNPROVED}

    def _beyond_limits(self) -> dict[Cell, str]:
        """The cells that break a limit by more than noise; what is one launch old breaks that of memory only."""
        broken = {}
        for limit in self.question.limits:
            scores = _scores(self.cells, self.records, self.question, limit.name, self.block)
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
                    broken[cell] = f"{shown(figure_of(mean(scores[:, at]), limit.name), limit.name)} is beyond {limit}"
        return broken

    def _drop(self, cell: Cell, kind: str, reason: str) -> None:
        launched = sum(len(tries) for (each, _), tries in self.tries.items() if each == cell)
        self.out.setdefault(cell, Exit(kind, reason, self.block, self.launches, launched))

    def _race(self, due: tuple[Cell, ...]) -> Race:
        return Race(
            self.cells, self.question, self.alive, dict(self.out), self.block, self.launches, due,
            {cell: dict(each) for cell, each in self.records.items()}, tuple(self.path),
        )  # fmt: skip


def race(cells: Sequence[Cell], records: Iterable[Record], question: Question, seed: int = 0) -> Race:
    """The state of the race of these cells after these records, which are in the order in which they were made."""
    referee = Referee(tuple(cells), question, seed)
    for record in records:
        referee.add(record)
        referee.race()
    return referee.race()


def _scores(
    cells: Sequence[Cell], records: Mapping[Cell, Mapping[int, Record]], question: Question, name: str, blocks: int
) -> Scores:
    table = np.full((blocks, len(cells)), np.nan)
    for at, cell in enumerate(cells):
        for block, record in records.get(cell, {}).items():
            table[block, at] = score(value(record, name, question), name)
    return table

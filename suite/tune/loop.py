"""The search itself: one race per workload, launch by launch, within the budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from suite.analysis.search.elimination import Elimination, shuffle_cells
from suite.analysis.search.state import Race
from suite.plan.cell import Cell
from suite.plan.measuring import SEEDS_LEAST
from suite.plan.objective import Budget
from suite.plan.space import workloads
from suite.report.format.names import count, number
from suite.session.hosts.dispatch import key_of
from suite.session.run import Run
from suite.tune.search import Search


@dataclass(frozen=True)
class Spent:
    """What a search has spent and may spend, in launches and seconds; None without a limit."""

    launches: int
    seconds: float
    budget: Budget


@dataclass
class Loop:
    """Asks each race what is due, and launches it. ``watch`` is called with the race after every launch."""

    run: Run
    search: Search
    excluded: Mapping[Cell, str]
    watch: Callable[[Race, Spent], None]
    races: list[Race] = field(default_factory=list)
    begun_s: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> Spent:
        """What was spent; on several hosts at least the time by the clock, as one may be lost or launch in vain."""
        took_s = sum(float(record.run.get("took_s") or 0.0) for record in self.run.records)
        if (hosts := self.run.side_by_side) > 1:
            took_s = max(took_s / hosts, time.monotonic() - self.begun_s)
        return Spent(self.run.done, took_s, self.search.budget)

    def go(self) -> list[Race]:
        """Race each workload's cells until that is over or its part of the budget is spent; returns all races.

        A workload's part of the budget is its part of the cells; what it leaves goes to the next ones.
        """
        raced = workloads(self.search.cells)
        total = len(self.search.cells) - len(self.excluded) or 1
        until = 0.0
        for cells in raced:
            able = [cell for cell in cells if cell not in self.excluded]
            if line := able and self._shortage(able, total):
                self.run.say(line)
        for cells in raced:
            until += sum(cell not in self.excluded for cell in cells) / total
            options = self.search.options
            referee = Elimination(cells, self.search.question, options.seed, self.excluded)
            self.races.append(referee.race())
            while not self.races[-1].over and self._affordable(self.races[-1], min(until, 1.0)):
                state = self.races[-1]
                self._ahead(state)
                referee.add(self.run.next(state.due[0], state.blocks))
                self.races[-1] = referee.race()
                self.watch(self.races[-1], self.spent)
        return self.races

    def _shortage(self, cells: Sequence[Cell], total: int) -> str:
        """What this workload's part of the budget cannot try, by the expected times; empty if all is tested."""
        budget, part = self.search.budget, len(cells) / total
        least = 2 if self.search.question.target is None else SEEDS_LEAST
        block = len(cells) if budget.launches is not None else sum(map(self.run.expected_s, cells))
        paid = part * (budget.launches or budget.seconds or math.inf) / (block or 1)
        if paid >= least:
            return ""
        needed = f"{least * total}launches"
        if budget.launches is None:
            needed = f"{math.ceil(least * block / part / 60)}min"
        tests = f"Tests need {number(least)} launches of each: about --budget {needed}, or fewer values."
        if paid < 1:
            tried = math.floor(paid * len(cells) + 1e-9)
            pays = f"a launch of about {tried} of {count(len(cells), 'cell')}"
            lacks = f"the other {len(cells) - tried} are not tried, and nothing can be recommended"
        else:
            pays, lacks = f"about {paid:.1f} launches of each cell", "none can be dropped for being worse"
        return f"{cells[0].workload}: the budget pays for {pays}; {lacks}. {tests}"

    def _ahead(self, state: Race) -> None:
        """Let a cluster begin with this block, and with the next ones of the same cells on its other hosts.

        What a block then rules out has been launched in vain; it stays in the journal, and the budget pays for it.
        """
        hosts, budget = self.run.side_by_side, self.search.budget
        left = len(state.alive) * hosts
        if budget.launches is not None:
            left = budget.launches - self.run.done - len(self.run.asked)
        for block in range(state.blocks, state.blocks + hosts):
            cells = shuffle_cells(state.cells, self.search.options.seed, block) if block > state.blocks else state.due
            due = [(cell, block) for cell in cells if cell in state.alive]
            due = [each for each in due if key_of(*each) not in self.run.asked][: max(0, left)]
            self.run.ahead(due)
            left -= len(due)

    def _affordable(self, state: Race, part: float) -> bool:
        budget, spent, cell = self.search.budget, self.spent, state.due[0]
        if key_of(cell, state.blocks) in self.run.asked:
            return True
        if budget.launches is not None:
            return spent.launches + len(self.run.asked) < math.ceil(budget.launches * part - 1e-9)
        return spent.seconds + self.run.expected_s(cell) <= (budget.seconds or math.inf) * part

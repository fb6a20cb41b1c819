"""How long the launches of a run will take, and the plan that fits its budget, in seconds and in words."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from framework_training_suite import CommandError
from suite.catalog.phases import TRAIN
from suite.monitor.background import Background, watch
from suite.plan.cell import AUTO, Cell
from suite.plan.measuring import CONTROL, FIRST_LOOK, LAST_LOOK, WHOLE_BLOCKS, Plan
from suite.record.record import Record
from suite.session.eta import Eta, is_lean
from suite.session.launches.batch_finder import Fit
from suite.session.terminal import count_launches, duration

#: One of a cell's first launches that time training alone takes the whole evidence too: that share of what a launch
#: with all phases takes longer.
EVIDENCE_AGAIN = 1 / 3

#: Blocks that a run plans beside other programs: fewer tell little of launches that those make scatter.
BUSY_BLOCKS = 2 * FIRST_LOOK

#: A launch that is to be made: its cell and its number.
Due = tuple[Cell, int]


class TooSlowError(RuntimeError):
    """A budget that is too small: so many blocks, the fewest that tell something, take ``needed_s`` seconds."""

    def __init__(self, blocks: int, needed_s: float, busy: Background | None = None) -> None:
        beside = f", and beside this load fewer tell little ({busy})" if busy else ""
        super().__init__(f"{blocks} blocks take about {duration(needed_s)} here{beside}")
        self.budget = minutes(needed_s)  # that would do


class BudgetError(CommandError, RuntimeError):
    """A budget that was asked for and does not hold one block of launches."""


def minutes(seconds: float) -> str:
    return f"{math.ceil(seconds / 60)}min"


@dataclass
class Outlook:
    """``fits`` are the batches that searches found, ``side_by_side`` is how many blocks run at a time."""

    eta: Eta
    fits: Mapping[Cell, Fit]
    side_by_side: int = 1
    whole_blocks: int = WHOLE_BLOCKS  # in which launches have all phases
    _background: Background | None = None  # the load while the run warmed up
    _costs: Costs | None = None  # what warming up has shown

    @property
    def plan(self) -> Plan:
        return self.eta.plan

    def estimate_s(self, launches: Sequence[Due], *, searching: bool = True) -> float:
        open_ones = {cell for cell, _ in launches if cell.batch == AUTO and not cell.is_of_script}
        searches = open_ones - {*self.fits} if searching else set()
        kinds = [(cell, self.plan.of_launch(number, self.whole_blocks).lean) for cell, number in launches]
        return self.eta.left_s(kinds, searches) / self.side_by_side

    def learn(self, costs: Costs, cells: Sequence[Cell]) -> None:
        """Take what warming up has shown as launches of these cells, and the load meanwhile."""
        self._background, self._costs = costs.background, costs
        for cell in dict.fromkeys(cells):
            for lean in (False, True):
                cost_s = costs.launch_s(cell, self.plan, whole=not lean)
                if cost_s is not None:
                    self.eta.add(cell, cost_s, lean=lean)

    def find_whole_blocks(self, done: Iterable[Record]) -> int:
        """In how many blocks launches have all phases, in a run that goes on after these."""
        lean = [record.block for record in done if is_lean(record) and not record.control]
        self.whole_blocks = min([*lean, WHOLE_BLOCKS])
        return self.whole_blocks

    def left_s(self, remaining: Sequence[Due], done: Sequence[Record], budget_left_s: float | None) -> float:
        """The seconds left: of a run with a budget, what is left of that, but no less than what will surely follow."""
        left_s = self.estimate_s(remaining)
        if budget_left_s is None:
            return left_s
        block = max([FIRST_LOOK - 1, *(record.block for record in done[-1:])])
        sure_s = self.estimate_s([each for each in remaining if each[1] % CONTROL <= block])
        return min(left_s, max(sure_s, budget_left_s))

    def say(self, remaining: Sequence[Due], *, search: bool) -> str:
        """How many launches remain and how long they take, in words."""
        launches = count_launches(len(remaining))
        if trained := [cell for cell, _ in remaining if cell.recipe]:
            hours = any(cell.size == "full" for cell in trained)
            words = (": hours on a CPU" if hours else ": minutes each on a CPU") if self.eta.cpu else ""
            return f"{launches}; those with a recipe train to the end{words}"
        return f"{'the first block: ' if search else ''}{launches}, about {duration(self.estimate_s(remaining))}"

    def refuse_overrun(self, cells: Sequence[Cell], budget_s: float, warming_s: float) -> None:
        """Raise `BudgetError`, with what would fit, for a budget that does not hold the first block of these cells."""
        block_s, left_s = self.estimate_s([(cell, 0) for cell in cells]), budget_s - warming_s
        if block_s <= left_s:
            return
        fitting = math.floor(max(0.0, left_s) / block_s * len(cells))
        ways = [f"--budget={minutes(block_s + warming_s)}"]
        ways += [f"about {fitting} of the {len(cells)}"] if fitting else []
        if window_s := self._fitting_window_s(cells, block_s, left_s):
            ways.append(f"--min-window={window_s:.2g}s")
        raise BudgetError(
            f"a budget of {duration(budget_s)} does not hold one block: {count_launches(len(cells))} take about "
            f"{duration(block_s)} here, after {duration(warming_s)} of warming up. What fits: {' or '.join(ways)}; "
            "--launches=1 instead of --budget measures one block, however long it takes"
        )

    def _fitting_window_s(self, cells: Sequence[Cell], block_s: float, left_s: float) -> float:
        """The window with which a block fits, on the safe side; 0 where none does, or nothing is known of one."""
        shortest = replace(self.plan, min_window_s=0.0)
        costs_s = [self._costs.launch_s(cell, shortest, whole=True) if self._costs else None for cell in cells]
        least_s = sum(math.inf if cost_s is None else cost_s for cost_s in costs_s)
        share = (left_s - least_s) / (block_s - least_s) if least_s < block_s else 0.0
        return math.floor(100 * share * self.plan.min_window_s) / 100 if share > 0 else 0.0

    def choose(self, cells: Sequence[Cell], budget_s: float, warming_s: float, *, may_shrink: bool) -> str:
        """Choose the plan that fits the budget, less the seconds of warming up; returns it in words.

        The usual number of blocks have all phases if that leaves time for a tested answer, else only the first. If
        neither does, the run goes on as far as it gets; one that ``may_shrink`` raises `TooSlowError`. Where
        warming up met a busy machine, it does so too if fewer than `BUSY_BLOCKS` fit.
        """
        whole_s, lean_s = (
            self.estimate_s([(cell, number) for cell in cells], searching=False) for number in (0, LAST_LOOK)
        )
        once_s = self.estimate_s([(cell, 0) for cell in cells]) - whole_s + warming_s
        once_s += EVIDENCE_AGAIN * (whole_s - lean_s)
        left_s = USED_MOST * budget_s - once_s
        busy = self._background if self._background and self._background.busy else None
        least = BUSY_BLOCKS if busy else FIRST_LOOK
        fewer = [(FIRST_LOOK, 1)] if busy and not may_shrink else []
        for blocks, self.whole_blocks in [(least, WHOLE_BLOCKS), (least, 1), *fewer]:
            first_s = self.whole_blocks * (whole_s - lean_s) + FIRST_LOOK * lean_s
            if first_s + (blocks - FIRST_LOOK) * lean_s <= left_s:
                fitting = min(LAST_LOOK, FIRST_LOOK + int((left_s - first_s) / lean_s))
                return (
                    f"{fitting} blocks of {count_launches(len(cells))} fit into {duration(budget_s)}; the run ends "
                    f"when all is decided, at the earliest after {FIRST_LOOK} blocks (about {duration(first_s)})"
                )
        needed_s = (whole_s + (blocks - 1) * lean_s + once_s) / USED_MOST
        error = TooSlowError(blocks, needed_s, busy if blocks > FIRST_LOOK else None)
        if may_shrink:
            raise error
        most = duration(budget_s)
        return f"{error}, and fewer are not tested: more than the {most} of the budget; give --budget={error.budget}"


#: Two steps of training; longer windows would tell nothing that is used.
PLAN = Plan(min_window_s=0.0, windows=1, max_warmup_s=0.0, phases=(TRAIN,))

#: A plan may use so much of the budget: launches that are measured again need the rest.
USED_MOST = 0.9

# What a launch does besides starting, as in run 0031: about three windows of warm-up before those that count, each 1.3
# times as long as the least; and the evidence, of a few seconds and some ten steps.
WARM_UP_WINDOWS, WINDOW_STRETCH, EVIDENCE_S, EVIDENCE_STEPS, LEAN_EVIDENCE_S = 3, 1.3, 3.0, 10, 1.0

Kind = tuple[str, str, str]  # workload, framework, release


@dataclass(frozen=True)
class Cost:
    """What a launch of ``cell`` spends in seconds: outside of its steps, and on each step; one that fails has none."""

    cell: Cell
    start_s: float
    step_s: float
    failed: bool = False

    def launch_s(self, cell: Cell, plan: Plan, whole: bool) -> float:
        """The seconds of a launch of a similar cell by this plan, with all phases and evidence or training alone."""
        if self.failed:
            return self.start_s
        # A smaller model's steps are short beside a window.
        step_s = self.step_s * cell.batch / self.cell.batch if cell.size == self.cell.size else 0.0
        window_s = max(WINDOW_STRETCH * plan.min_window_s, step_s)
        of_phase_s = {"input": WINDOW_STRETCH * plan.min_window_s}  # loading takes less than a step
        phases = plan.phases if whole or plan.chosen else (TRAIN,)
        timed_s = sum((plan.windows + WARM_UP_WINDOWS) * of_phase_s.get(phase, window_s) for phase in phases)
        return self.start_s + timed_s + (EVIDENCE_S + EVIDENCE_STEPS * step_s if whole else LEAN_EVIDENCE_S)


@dataclass(frozen=True)
class Costs:
    """The cost of a launch of each kind that was warmed up, the seconds that this took, and the load meanwhile."""

    by_kind: Mapping[Kind, Cost]
    took_s: float = 0.0
    background: Background | None = None

    def launch_s(self, cell: Cell, plan: Plan, whole: bool) -> float | None:
        """The seconds of a launch; None for a cell that is too unlike what was warmed up."""
        cost = self.by_kind.get(kind_of(cell))
        if not cost or cell.but(size=cost.cell.size, batch=cost.cell.batch, tuning=cost.cell.tuning) != cost.cell:
            return None
        return cost.launch_s(cell, plan, whole)


def kind_of(cell: Cell) -> Kind:
    """What a cell shares with others that read the same files."""
    return cell.workload, cell.framework, cell.release


def warm_up(cells: Iterable[Cell], launch: Callable[[Cell, Plan], Record]) -> Costs:
    """Launch the first cell of each kind once. Of one that fails the launch that counts says why."""
    firsts: dict[Kind, Cell] = {}
    for cell in cells:
        if cell.batch != AUTO and not cell.recipe:
            firsts.setdefault(kind_of(cell), cell)
    begin_s, read_load = time.monotonic(), watch()
    costs: dict[Kind, Cost] = {}
    for kind, cell in firsts.items():
        launch_s = time.monotonic()
        record = launch(cell, PLAN)
        took_s = time.monotonic() - launch_s
        if not record.outcome.ok:
            costs[kind] = Cost(cell, took_s, 0.0, failed=True)
        else:
            phase = record.phases[TRAIN]
            windows = (*phase.warmup, *phase.windows)
            step_s = min(window.seconds / window.steps for window in windows)
            costs[kind] = Cost(cell, max(0.0, took_s - sum(window.seconds for window in windows)), step_s)
    return Costs(costs, time.monotonic() - begin_s, read_load())

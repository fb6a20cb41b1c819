"""Short launches before the first one that counts, which are recorded nowhere.

They read environments, data and compilers from the disk, so that no launch that counts starts from a cold one. And they
show what a launch costs on this machine, so that a run with a budget can choose a plan that fits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from suite.catalog.phases import TRAIN
from suite.monitor.background import Background, watch
from suite.plan.cell import AUTO, Cell
from suite.plan.measuring import Plan
from suite.record.record import Record

#: Two steps of training; longer windows would tell nothing that is used.
PLAN = Plan(min_window_s=0.0, windows=1, max_warmup_s=0.0, phases=(TRAIN,))

#: A plan may use so much of the budget: launches that are measured again need the rest.
USED_MOST = 0.9

# What a launch does besides starting, as in run 0031: about three windows of warm-up before those that count, each 1.3
# times as long as the least; and the evidence, of a few seconds and some ten steps.
WARM_UP_WINDOWS, LONGER, EVIDENCE_S, EVIDENCE_STEPS, LEAN_EVIDENCE_S = 3, 1.3, 3.0, 10, 1.0

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
        window_s = max(LONGER * plan.min_window_s, step_s)
        of_phase_s = {"input": LONGER * plan.min_window_s}  # loading takes less than a step
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

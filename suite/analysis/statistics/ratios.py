"""Ratios of two rows, within blocks or across runs: which rows are compared, and the figures that they have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from suite.analysis.identity.comparability import obstacle
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.axes import Base
from suite.analysis.rows.blocks import pairs, why_untested
from suite.analysis.rows.conditions import differences
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics.inference import BLOCKS_LEAST, Estimate, run_t_test, welch
from suite.analysis.statistics.sequential import PooledVariance, last_look
from suite.catalog.settings import SETTINGS
from suite.plan.cell import COMPILES, REFERENCE_STRATEGY, STRATEGIES, USUAL_COMPILE
from suite.record.record import Record

#: Reads a figure of a launch.
Read = Callable[[Record], float | None]

#: With fewer launches of a side there is too little scatter to test two runs of one machine against each other.
LEAST_OF_RUN = 3

#: Why two rows of a run have no ratio, where nothing else forbids it.
NO_BLOCK = "no block in which both ended well, soon after each other"
NO_FIGURE = "no block in which both have that figure"


def throughput(record: Record) -> float | None:
    return record.samples_per_s


@dataclass(frozen=True)
class Pair:
    """A row over another one, by a figure of their launches, divided by ``per``; ``power`` -1 turns latencies over.

    Rows of two runs share no blocks; they are tested with ``least`` launches of each.
    """

    row: Row
    other: Row
    per: float = 1.0
    read: Read = throughput
    power: int = 1
    least: int = BLOCKS_LEAST

    @property
    def baseline(self) -> str:
        same = self.other.run == self.row.run
        return self.other.cell.id if same else f"{self.other.cell.id} of run {self.other.run}"

    @property
    def caveat(self) -> str:
        speed = differences(self.row, self.other)[1]
        return f"ran under different conditions than {self.baseline}: {speed}" if speed else ""

    def estimate(self, verdicts: Mapping[RowKey, Verdict], across: bool, shared: PooledVariance) -> Estimate:
        """The ratio, with its test if there are enough launches. ``shared`` are the variances of runs with looks."""
        reason = obstacle(self.row, self.other, verdicts, across)
        if not reason and self.read is not throughput and self.row.run != self.other.run:
            reason = "it is of another run"
        formed = None if reason else self._by_block(shared) if self.row.run == self.other.run else self._by_run()
        if formed is None:
            lacking = NO_BLOCK if self.read is throughput else NO_FIGURE
            return Estimate(baseline=self.baseline, reason=f"no ratio to {self.baseline}: {reason or lacking}")
        return replace(formed, baseline=self.baseline, caveat=self.caveat)

    @property
    def _is_testable(self) -> bool:
        return self.row is not self.other and not why_untested(self.row, self.other)

    def _by_block(self, shared: PooledVariance) -> Estimate | None:
        row, other = self.row, self.other
        by_block = {
            one.block: (value / base) ** self.power / self.per
            for one, another in pairs(row.ok, other.ok)
            if (value := self.read(one)) and (base := self.read(another))
        }
        ratios = list(by_block.values())
        if not ratios:
            return None
        formed = Estimate(median(ratios), min(ratios), max(ratios), len(ratios))
        if row.run not in shared:
            return (run_t_test(ratios) if self._is_testable else None) or formed
        if row is other or self.read is not throughput:  # only which decides how many launches there are
            return formed
        logs = {block: math.log(ratio) for block, ratio in by_block.items()}
        return last_look(logs, shared[row.run].of_pair(row.key, other.key)) or formed

    def _by_run(self) -> Estimate | None:
        rates, others = ([rate for record in each.ok if (rate := self.read(record))] for each in (self.row, self.other))
        n = min(len(rates), len(others))
        if n >= self.least and self._is_testable:
            return welch(rates, others)
        if not n:
            return None
        return Estimate(median(rates) / median(others), min(rates) / max(others), max(rates) / min(others), n)


def counterpart(row: Row, group: Group, at: Base) -> Row | None:
    """The row at the base that this one is compared with.

    Rows of the same run and machine come first, among several compile modes and strategies the usual ones, and then the
    environment that is installed before the newest release.
    """
    axis = at.axis
    candidates = [
        other
        for other in group.alike(row, *axis.varying)
        if at.holds(other)
        and (group.across or other.run == row.run)
        and axis.invariant(other.cell) == axis.invariant(row.cell)
        if axis.pairs(row.cell, other.cell)
    ]

    def distance(other: Row) -> tuple[bool, bool, int, int]:
        modes = [USUAL_COMPILE[other.cell.framework], *COMPILES]
        strategies = ["", REFERENCE_STRATEGY[other.cell.framework], *STRATEGIES]
        of_usual = modes.index(other.cell.compile), strategies.index(other.cell.strategy)
        return other.run != row.run, other.machine != row.machine, *of_usual

    newest_first = sorted(candidates, key=lambda other: SETTINGS["release"].rank(other.cell.release), reverse=True)
    return min(newest_first, key=distance, default=None)


def counterparts(group: Group, at: Base) -> list[tuple[Row, Row]]:
    return [(row, other) for row in group.rows if row.ok and (other := counterpart(row, group, at))]


def least_between(group: Group) -> int:
    """The launches of each side from which on rows of two runs are tested."""
    return LEAST_OF_RUN if group.by == "run" else BLOCKS_LEAST


def missing(row: Row, group: Group, at: Base) -> str:
    if at.axis.name == "run":
        return f"no such cell, data and spec in run {at}"
    shared = "settings" if group.across else "settings and run"
    if at.axis.name == "framework":
        return f"no cell of {at} with the same data, spec, precision, {shared}"
    value = at.values[row.cell.framework]
    return f"no cell of {row.cell.framework} with {at.axis.name} {value} and otherwise the same {shared}"


def blockwise(launches: Iterable[Record], others: Iterable[Record]) -> list[float]:
    """The ratio of throughputs in each block where both succeeded: whatever slows the machine for both cancels out."""
    return [
        record.samples_per_s / other.samples_per_s
        for record, other in pairs(launches, others)
        if record.samples_per_s and other.samples_per_s
    ]


def in_usual_mode(row: Row, group: Group) -> Row | None:
    """The row with the framework's usual compile mode and the same settings; None for that itself, and without it."""
    cell = row.cell
    usual = replace(cell, compile=USUAL_COMPILE[cell.framework], cache="")
    other = group.row(row.run, usual)
    return other if row.ok and other and other.ok and cell.compile != usual.compile else None


def break_even_steps(row: Row, group: Group) -> float | None:
    """The steps after which compiling has paid off, against the same framework's usual mode with the same settings.

    Where the usual mode compiles too, as in JAX, there is none.
    """
    if (other := in_usual_mode(row, group)) is None:
        return None
    (first, step), (first_usual, step_usual) = first_and_step_s(row), first_and_step_s(other)
    saved = step_usual - step
    return max(0.0, first - first_usual) / saved if saved > 0 else None


def first_and_step_s(row: Row) -> tuple[float, float]:
    """The time to the first step and the time of a training step, in seconds, medians over launches."""
    first = median(record.first_step_s or 0.0 for record in row.ok)
    return first, median(record.phases["train"].step_s for record in row.ok)

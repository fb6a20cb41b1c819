"""Ratios of a cell's throughput to that of the corresponding cell at the base of an axis, formed within blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from types import MappingProxyType

from suite.analysis.identity.comparability import obstacle
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.axes import Base
from suite.analysis.rows.blocks import pairs, why_untested
from suite.analysis.rows.environments import differences
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics import inference as statistics
from suite.analysis.statistics.inference import LEAST, Paired
from suite.analysis.statistics.sequential import Common, last_look
from suite.catalog.settings import SETTINGS
from suite.plan.cell import COMPILES, REFERENCE_STRATEGY, STRATEGIES, USUAL_COMPILE
from suite.record.record import Record

OPPOSITE = {"faster": "slower", "slower": "faster"}

#: Two rows whose whole interval lies within this factor of 1 cannot be told apart. It is the difference that six to ten
#: launches of the published runs show nearly always, so that a wider interval says that more launches are needed, and
#: nothing of how close they are.
CLOSE_TO_ONE = 1.1
#: How an inconclusive ratio stands: close to 1; beyond the margin before the correction only; anywhere.
CLOSE, PROBABLE, OPEN = "close", "probable", "open"

#: Why two rows of a run have no ratio, where nothing else forbids it.
NO_BLOCK = "no block in which both ended well, soon after each other"


@dataclass(frozen=True)
class Ratio:
    """``value`` and its bounds over ``blocks`` blocks; if ``value`` is None, ``reason`` says why there is no ratio.

    ``caveat`` names the conditions in which the two rows differ and that change the speed, not the numbers.

    With at least `statistics.LEAST` blocks these are the geometric mean and its interval at ``level``, at which Holm's
    correction over ``tests`` comparisons tested it; ``p`` is the p-value after that correction (``raw`` before it), and
    the ``verdict`` follows from the interval. ``alone_low`` and ``alone_high`` are the ends of the 95 % interval before
    the correction; where that lies beyond the margin and the corrected one does not, ``probably`` says the direction.
    With fewer blocks they are the median, the lowest and the highest.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    blocks: int = 0
    baseline: str = ""
    reason: str = ""
    caveat: str = ""
    p: float | None = None
    verdict: str = ""
    blocks_to_decide: int | None = None
    raw: float | None = None
    level: float | None = None
    tests: int = 0
    alone_low: float | None = None
    alone_high: float | None = None
    probably: str = ""

    @property
    def doubt(self) -> str:
        """How a ratio stands that no verdict decides: `CLOSE`, `PROBABLE` or `OPEN`; empty for all others."""
        if self.verdict != "inconclusive" or not self.low or not self.high:
            return ""
        if self.low >= 1 / CLOSE_TO_ONE and self.high <= CLOSE_TO_ONE:
            return CLOSE
        return PROBABLE if self.probably else OPEN

    @property
    def reverse(self) -> Ratio:
        """The same ratio seen from the other row."""
        if not self.value or not self.low or not self.high:
            return self
        low, high = self.alone_low and 1 / self.alone_low, self.alone_high and 1 / self.alone_high
        return replace(
            self, value=1 / self.value, low=1 / self.high, high=1 / self.low, alone_low=high, alone_high=low,
            verdict=OPPOSITE.get(self.verdict, self.verdict), probably=OPPOSITE.get(self.probably, ""),
        )  # fmt: skip


def counterpart(row: Row, group: Group, at: Base) -> Row | None:
    """The row at the base that this one is compared with.

    Rows of the same run and machine come first, among several compile modes and strategies the usual ones, and then the
    environment that is installed before the newest release.
    """
    axis = at.axis
    candidates = [
        other
        for other in group.alike(row, *axis.free)
        if at.holds(other) and (group.across or other.run == row.run) and axis.fixed(other.cell) == axis.fixed(row.cell)
        if axis.pairs(row.cell, other.cell)
    ]

    def distance(other: Row) -> tuple[bool, bool, int, int]:
        modes = [USUAL_COMPILE[other.cell.framework], *COMPILES]
        strategies = ["", REFERENCE_STRATEGY[other.cell.framework], *STRATEGIES]
        of_usual = modes.index(other.cell.compile), strategies.index(other.cell.strategy)
        return other.run != row.run, other.machine != row.machine, *of_usual

    newest_first = sorted(candidates, key=lambda other: SETTINGS["release"].rank(other.cell.release), reverse=True)
    return min(newest_first, key=distance, default=None)


def ratio_to(
    row: Row,
    other: Row,
    verdicts: Mapping[RowKey, Verdict],
    *,
    across: bool = False,
    per: float = 1.0,
    shared: Common = MappingProxyType({}),
) -> tuple[Ratio, Paired | None]:
    """The ratio of two rows before its test, and the test if there are enough launches; none of a row to itself.

    Within a run, ratios are divided by ``per`` first: the throughput per device. ``shared`` are the variances of runs
    with looks.
    """
    name = describe(row, other)
    if reason := obstacle(row, other, verdicts, across):
        return Ratio(baseline=name, reason=f"no ratio to {name}: {reason}"), None
    formed, test = _within_run(row, other, per, shared) if other.run == row.run else _compare_runs(row, other)
    if formed is None:
        return Ratio(baseline=name, reason=f"no ratio to {name}: {NO_BLOCK}"), None
    return replace(formed, baseline=name, caveat=conditions(row, other, name)), None if row is other else test


def describe(row: Row, other: Row) -> str:
    """The row that another one is compared with, in words."""
    return other.cell.id if other.run == row.run else f"{other.cell.id} of run {other.run}"


def conditions(row: Row, other: Row, name: str = "") -> str:
    """The conditions in which two rows differ and that change the speed, not the numbers, in words."""
    speed = differences(row, other)[1]
    return f"ran under different conditions than {name or other.cell.id}: {speed}" if speed else ""


def missing(row: Row, group: Group, at: Base) -> str:
    """Which cell at the base would be needed for a ratio, in words."""
    shared = "settings" if group.across else "settings and run"
    if at.axis.name == "framework":
        return f"no cell of {at} with the same data, spec, precision, {shared}"
    value = at.values[row.cell.framework]
    return f"no cell of {row.cell.framework} with {at.axis.name} {value} and otherwise the same {shared}"


def by_block(row: Row, other: Row) -> list[float]:
    """The ratio of throughputs in each block where both succeeded: whatever slows the machine for both cancels out."""
    return blockwise(row.ok, other.ok)


def blockwise(launches: Iterable[Record], others: Iterable[Record]) -> list[float]:
    """The same ratios for any launches."""
    return [
        record.samples_per_s / other.samples_per_s
        for record, other in pairs(launches, others)
        if record.samples_per_s and other.samples_per_s
    ]


def _within_run(row: Row, other: Row, per: float, shared: Common) -> tuple[Ratio | None, Paired | None]:
    block_ratios = [ratio / per for ratio in by_block(row, other)]
    if not block_ratios:
        return None, None
    formed = Ratio(median(block_ratios), min(block_ratios), max(block_ratios), len(block_ratios))
    return formed, compare_rows(row, other, block_ratios, shared, per)


def compare_rows(
    row: Row, other: Row, block_ratios: Sequence[float], shared: Common, per: float = 1.0
) -> Paired | None:
    """The test of two rows of one run by its design, fixed or with looks; None with too few blocks, or others."""
    if row.run not in shared:
        return None if why_untested(row, other) else statistics.run_t_test(block_ratios)
    rates = {r.block: (r.samples_per_s, o.samples_per_s) for r, o in pairs(row.ok, other.ok)}
    logs = {block: math.log(one / another / per) for block, (one, another) in rates.items() if one and another}
    return last_look(logs, shared[row.run].of_pair(row.key, other.key))


def _compare_runs(row: Row, other: Row) -> tuple[Ratio | None, Paired | None]:
    """The ratio of medians of two runs, which share no blocks; its bounds are those of any launch over any other."""
    rates, other_rates = ([rate for record in each.ok if (rate := record.samples_per_s)] for each in (row, other))
    n = min(len(rates), len(other_rates))
    if not n:
        return None, None
    formed = Ratio(median(rates) / median(other_rates), min(rates) / max(other_rates), max(rates) / min(other_rates), n)
    return formed, statistics.welch(rates, other_rates) if n >= LEAST and not why_untested(row, other) else None


def break_even_steps(row: Row, group: Group) -> float | None:
    """The steps after which compiling has paid off, against the same framework's usual mode with the same settings.

    That is the extra time to the first step over the time that each later step saves, medians over launches. None if
    the row is the usual mode itself, is not faster, or if either has no successful launch.
    """
    cell = row.cell
    usual = replace(cell, compile=USUAL_COMPILE[cell.framework])
    other = group.row(row.run, usual)
    if other is None or cell == usual or not row.ok or not other.ok:
        return None
    (first, step), (first_usual, step_usual) = first_and_step_s(row), first_and_step_s(other)
    saved = step_usual - step
    return max(0.0, first - first_usual) / saved if saved > 0 else None


def first_and_step_s(row: Row) -> tuple[float, float]:
    """The time to the first step and the time of a training step, in seconds, medians over launches."""
    first = median(record.first_step_s or 0.0 for record in row.ok)
    return first, median(record.phases["train"].step_s for record in row.ok)

"""The throughput of a cell over that of the corresponding cell at the base of an axis, formed within blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from suite.analysis import statistics
from suite.analysis.axes import AXES, Base, base
from suite.analysis.comparability import obstacle
from suite.analysis.environments import differences
from suite.analysis.groups import Group, Row, RowKey
from suite.analysis.identity import Verdict
from suite.analysis.statistics import LEAST, MARGIN, Paired
from suite.plan.cell import COMPILES, USUAL_COMPILE
from suite.record.record import Record


@dataclass(frozen=True)
class Ratio:
    """``value`` and its bounds over ``blocks`` blocks; where it is None, ``reason`` says why none was formed.

    ``caveat`` says in what the two rows ran under different conditions that change the speed, not the numbers.

    From `statistics.LEAST` blocks on they are the geometric mean and its 95 % interval, with ``p`` after Holm over the
    group's tests and a ``verdict``; with fewer the median, the lowest and the highest.
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


def ratios(
    group: Group, baseline: str | None, verdicts: Mapping[RowKey, Verdict], margin: float = MARGIN
) -> dict[RowKey, Ratio]:
    """A ratio per row, or the reason why there is none: a ratio of runs that are not alike is worse than none.

    They are formed along the group's axis, to its value ``baseline``; None stands for the natural one.
    """
    at = base(AXES[group.by], group.rows, baseline)
    formed: dict[RowKey, Ratio] = {}
    tested: dict[RowKey, Paired] = {}
    for row in group.rows:
        formed[row.key], test = _ratio(row, group, at, verdicts)
        if test:
            tested[row.key] = test
    corrected = statistics.holm([test.p for test in tested.values()])
    for (key, test), p in zip(tested.items(), corrected, strict=True):
        word = statistics.verdict(test, p, margin)
        needed = statistics.blocks_to_decide(test, margin) if word == "inconclusive" else None
        shown = replace(formed[key], value=test.value, low=test.low, high=test.high)
        formed[key] = replace(shown, p=p, verdict=word, blocks_to_decide=needed)
    return formed


def counterpart(row: Row, group: Group, at: Base) -> Row | None:
    """The row at the base that this one is held against.

    Of several compile modes the usual one goes first, and rows of the same run and machine before all others.
    """
    axis = at.axis
    there = [
        other
        for other in group.alike(row, *axis.free)
        if at.holds(other) and (group.across or other.run == row.run) and axis.fixed(other.cell) == axis.fixed(row.cell)
    ]

    def distance(other: Row) -> tuple[bool, bool, int]:
        usual = [USUAL_COMPILE[other.cell.framework], *COMPILES]
        return other.run != row.run, other.machine != row.machine, usual.index(other.cell.compile)

    return min(there, key=distance, default=None)


def _ratio(row: Row, group: Group, at: Base, verdicts: Mapping[RowKey, Verdict]) -> tuple[Ratio, Paired | None]:
    """The ratio as it stands untested, and its test where there are launches for one."""
    if not row.ok:
        return Ratio(), None  # its outcome says why
    other = counterpart(row, group, at)
    if other is None:
        return Ratio(reason=f"no ratio: {_missing(row, group, at)}"), None
    name = other.cell.id if other.run == row.run else f"{other.cell.id} of run {other.run}"
    if reason := obstacle(row, other, verdicts, group.across):
        return Ratio(baseline=name, reason=f"no ratio to {name}: {reason}"), None
    formed, test = _within_run(row, other) if other.run == row.run else _between_runs(row, other)
    if formed is None:
        return Ratio(baseline=name, reason=f"no ratio to {name}: no block in which both ended well"), None
    speed = differences(row, other)[1]
    caveat = f"ran under different conditions than {name}: {speed}" if speed else ""
    return replace(formed, baseline=name, caveat=caveat), None if row is other else test


def _missing(row: Row, group: Group, at: Base) -> str:
    where = "settings" if group.across else "settings and run"
    if at.axis.name == "framework":
        return f"no cell of {at} with the same data, spec, precision, {where}"
    value = at.values[row.cell.framework]
    return f"no cell of {row.cell.framework} with {at.axis.name} {value} and otherwise the same {where}"


def by_block(row: Row, other: Row) -> list[float]:
    """The ratio of throughputs in each block where both ended well: what slows the machine for both cancels out."""
    return blockwise(row.ok, other.ok)


def blockwise(launches: Iterable[Record], others: Iterable[Record]) -> list[float]:
    """The same of any launches."""
    rates, bases = ({record.block: record.samples_per_s for record in each} for each in (launches, others))
    return [rate / base for block, rate in rates.items() if rate and (base := bases.get(block))]


def _within_run(row: Row, other: Row) -> tuple[Ratio | None, Paired | None]:
    values = by_block(row, other)
    if not values:
        return None, None
    return Ratio(median(values), min(values), max(values), len(values)), statistics.paired(values)


def _between_runs(row: Row, other: Row) -> tuple[Ratio | None, Paired | None]:
    """The ratio of two runs, which share no blocks: of medians, its bounds those of any launch over any other."""
    rates, others = ([rate for record in each.ok if (rate := record.samples_per_s)] for each in (row, other))
    n = min(len(rates), len(others))
    if not n:
        return None, None
    formed = Ratio(median(rates) / median(others), min(rates) / max(others), max(rates) / min(others), n)
    return formed, statistics.welch(rates, others) if n >= LEAST else None


def break_even_steps(row: Row, group: Group) -> float | None:
    """Steps after which compiling has paid for itself, against the same framework's usual mode with the same settings.

    The extra time to the first step over what each later step saves, medians over launches; None where the row is the
    usual mode itself or is not faster, or where either did not end well.
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
    firsts = median(record.first_step_s or 0.0 for record in row.ok)
    return firsts, median(record.phases["train"].step_s for record in row.ok)

"""The throughput of a cell over that of the baseline framework's corresponding cell, formed within blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median

from suite.cell import COMPILES, USUAL_COMPILE
from suite.compare import statistics
from suite.compare.groups import Group, Row, RowKey
from suite.compare.identity import Verdict
from suite.compare.statistics import Paired


@dataclass(frozen=True)
class Ratio:
    """``value`` and its bounds over ``blocks`` blocks; where it is None, ``reason`` says why none was formed.

    From `statistics.LEAST` blocks on they are the geometric mean and its 95 % interval, with ``p`` after Holm over the
    group's tests and a ``verdict``; with fewer the median, the lowest and the highest.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    blocks: int = 0
    baseline: str = ""
    reason: str = ""
    p: float | None = None
    verdict: str = ""
    blocks_to_decide: int | None = None


def ratios(group: Group, baseline: str, verdicts: Mapping[RowKey, Verdict]) -> dict[RowKey, Ratio]:
    """A ratio per row, or the reason why there is none: a ratio of runs that are not alike is worse than none."""
    found: dict[RowKey, Ratio] = {}
    tested: dict[RowKey, Paired] = {}
    for row in group.rows:
        other = _counterpart(row, group, baseline)
        found[row.key], values = _ratio(row, other, baseline, verdicts)
        if values and row is not other and (test := statistics.paired(values)):
            tested[row.key] = test
    apart = margin(group)
    for (key, test), p in zip(tested.items(), statistics.holm([test.p for test in tested.values()]), strict=True):
        word = statistics.verdict(test, p, apart)
        needed = statistics.blocks_to_decide(test, apart) if word == "inconclusive" else None
        shown = replace(found[key], value=test.value, low=test.low, high=test.high)
        found[key] = replace(shown, p=p, verdict=word, blocks_to_decide=needed)
    return found


def margin(group: Group) -> float:
    """How far from 1 a ratio of this group may lie and mean nothing."""
    return statistics.margin(control(group))


def control(group: Group) -> list[float]:
    """The A/A ratios of all rows that have a second copy."""
    found = []
    for row in group.rows:
        copies = [launch.record for launch in row.control if launch.record.outcome.ok]
        second = {record.block: record.samples_per_s for record in copies}
        first = {record.block: record.samples_per_s for record in row.ok}
        found += [rate / base for block, rate in second.items() if rate and (base := first.get(block))]
    return found


def _counterpart(row: Row, group: Group, baseline: str) -> Row | None:
    """The baseline's row with the same settings but the compile mode, of which its usual one goes first."""
    cell = row.cell
    same = [
        other
        for other in group.rows
        if other.cell.framework == baseline
        and other.run == row.run
        and replace(other.cell, framework=cell.framework, compile=cell.compile) == cell
    ]
    usual = [USUAL_COMPILE[baseline], *COMPILES]
    return min(same, key=lambda other: usual.index(other.cell.compile), default=None)


def _ratio(row: Row, other: Row | None, baseline: str, verdicts: Mapping[RowKey, Verdict]) -> tuple[Ratio, list[float]]:
    """The ratio as it stands untested, and the ratios of the blocks."""
    if not row.ok:
        return Ratio(), []  # its outcome says why
    if other is None:
        words = f"no ratio: no cell of {baseline} with the same data, spec, precision, settings and run"
        return Ratio(reason=words), []
    values = by_block(row, other)
    if reason := _obstacle(row, other, verdicts) or ("" if values else "no block in which both ended well"):
        return Ratio(baseline=other.cell.id, reason=f"no ratio to {other.cell.id}: {reason}"), []
    return Ratio(median(values), min(values), max(values), len(values), other.cell.id), values


def _obstacle(row: Row, other: Row, verdicts: Mapping[RowKey, Verdict]) -> str:
    if not other.ok:
        return other.outcome
    if row.machine != other.machine:
        return "they ran on different machines"
    differs = {each.key: each for each in (row, other) if verdicts[each.key].kind == "differs"}
    return "; ".join(f"{each.cell.framework} {verdicts[key]}" for key, each in differs.items())


def by_block(row: Row, other: Row) -> list[float]:
    """The ratio of throughputs in each block where both ended well: what slows the machine for both cancels out."""
    rates, others = ({record.block: record.samples_per_s for record in each.ok} for each in (row, other))
    return [rate / base for block, rate in rates.items() if rate and (base := others.get(block))]


def break_even_steps(row: Row, group: Group) -> float | None:
    """Steps after which compiling has paid for itself, against the same framework's usual mode with the same settings.

    The extra time to the first step over what each later step saves, medians over launches; None where the row is the
    usual mode itself or is not faster, or where either did not end well.
    """
    cell = row.cell
    usual = replace(cell, compile=USUAL_COMPILE[cell.framework])
    other = next((each for each in group.rows if each.run == row.run and each.cell == usual), None)
    if other is None or cell == usual or not row.ok or not other.ok:
        return None
    (first, step), (first_usual, step_usual) = first_and_step_s(row), first_and_step_s(other)
    saved = step_usual - step
    return max(0.0, first - first_usual) / saved if saved > 0 else None


def first_and_step_s(row: Row) -> tuple[float, float]:
    firsts = median(record.first_step_s or 0.0 for record in row.ok)
    return firsts, median(record.phases["train"].step_s for record in row.ok)

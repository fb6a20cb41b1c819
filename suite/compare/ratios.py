"""The throughput of a cell over that of the baseline framework's corresponding cell, formed within blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median

from suite.cell import COMPILES, USUAL_COMPILE
from suite.compare.groups import Group, Row, RowKey
from suite.compare.identity import Verdict


@dataclass(frozen=True)
class Ratio:
    """``value`` is the median over ``blocks`` blocks; where it is None, ``reason`` says why none was formed."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    blocks: int = 0
    baseline: str = ""
    reason: str = ""


def ratios(group: Group, baseline: str, verdicts: Mapping[RowKey, Verdict]) -> dict[RowKey, Ratio]:
    """A ratio per row, or the reason why there is none: a ratio of runs that are not alike is worse than none."""
    return {row.key: _ratio(row, _counterpart(row, group, baseline), baseline, verdicts) for row in group.rows}


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


def _ratio(row: Row, other: Row | None, baseline: str, verdicts: Mapping[RowKey, Verdict]) -> Ratio:
    if not row.ok:
        return Ratio()  # its outcome says why
    if other is None:
        return Ratio(reason=f"no ratio: no cell of {baseline} with the same data, spec, precision, settings and run")
    values = _by_block(row, other)
    if reason := _obstacle(row, other, verdicts) or ("" if values else "no block in which both ended well"):
        return Ratio(baseline=other.cell.id, reason=f"no ratio to {other.cell.id}: {reason}")
    return Ratio(median(values), min(values), max(values), len(values), other.cell.id)


def _obstacle(row: Row, other: Row, verdicts: Mapping[RowKey, Verdict]) -> str:
    if not other.ok:
        return other.outcome
    if row.machine != other.machine:
        return "they ran on different machines"
    differs = {each.key: each for each in (row, other) if verdicts[each.key].kind == "differs"}
    return "; ".join(f"{each.cell.framework} {verdicts[key]}" for key, each in differs.items())


def _by_block(row: Row, other: Row) -> list[float]:
    """The ratio of throughputs in each block where both ended well: what slows the machine for both cancels out."""
    rates, others = ({record.launch: record.samples_per_s for record in each.ok} for each in (row, other))
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
    (first, step), (first_usual, step_usual) = _first_and_step_s(row), _first_and_step_s(other)
    saved = step_usual - step
    return max(0.0, first - first_usual) / saved if saved > 0 else None


def _first_and_step_s(row: Row) -> tuple[float, float]:
    firsts = median(record.first_step_s or 0.0 for record in row.ok)
    return firsts, median(record.phases["train"].step_s for record in row.ok)

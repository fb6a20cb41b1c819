"""Why two rows get no ratio, in words. Rows that differ in data, spec or size are in different groups already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

from suite.analysis.identity.verdicts import Verdict, verdicts
from suite.analysis.records.ledger import UNACCOUNTED
from suite.analysis.rows.blocks import find_doubts, pairs
from suite.analysis.rows.conditions import describe_mixed_conditions, differences
from suite.analysis.rows.groups import Row, RowKey
from suite.analysis.rows.metrics import clock_mhz, first_gpu, number
from suite.analysis.rows.wording import figure
from suite.plan.settings.strategies import has_local_statistics
from suite.record.record import Record
from suite.record.text import clean

#: How far apart, relatively, the clocks of one row's launches may lie. Heat moves them by a few percent, which blocks
#: cancel out; more means that somebody locked or unlocked them, or that the device was throttled in some launches only.
CLOCK_MOST = 0.10


#: Verdicts that keep a row out of curves and fronts, and those that forbid a ratio.
NOT_PLOTTED = ("differs", UNACCOUNTED)
NOT_COMPARABLE = (*NOT_PLOTTED, "no evidence")


def judge(rows: Iterable[Row]) -> dict[RowKey, Verdict]:
    """The verdict on each row's identity."""
    every = list(rows)
    return verdicts({row.key: row.ok for row in every}, {row.key: row.set_aside for row in every})


def obstacle(row: Row, other: Row, verdicts: Mapping[RowKey, Verdict], across: bool = False) -> str:
    """Why there is no ratio of this row to the other; empty if there may be one."""
    if not other.ok:
        return other.outcome
    if not across and row.machine != other.machine:
        return "they ran on different machines"
    for each in (row, other):
        if each.ok and len(each.machines) > 1:
            return f"the launches of {each.cell.id} ran on hosts of several kinds ({'; '.join(each.machines)})"
        if len(each.effective_batches) > 1 and not each.cell.is_of_script:  # of which it is the mean that was seen
            return f"the launches of {each.cell.id} had several batches ({', '.join(map(str, each.effective_batches))})"
    if row.ok and row.unit != other.unit:
        return f"one is measured in {row.unit}/s, the other in {other.unit}/s"
    both = list({each.key: each for each in (row, other)}.values())
    # Frameworks that did not compute the same, or have no evidence that they did, are not ranked.
    reasons = [f"the machine was too busy: {busy}" for busy in dict.fromkeys(each.busy for each in both) if busy]
    reasons += [f"every launch of {each.cell.id} was disturbed" for each in both if each.is_disturbed and not reasons]
    if not reasons and (flags := find_doubts(_alone(row, other))):
        reasons.append(f"there is a single launch to compare, which is flagged {', '.join(flags)}")
    reasons += [
        f"{each.cell.framework} {verdicts[each.key]}" for each in both if verdicts[each.key].kind in NOT_COMPARABLE
    ]
    reasons += [
        f"the launches of {each.cell.id} ran under {words}"
        for each in both
        if (words := describe_mixed_conditions(each))
    ]
    if min(row.cell.devices, other.cell.devices) > 1 and has_local_statistics(row.cell) != has_local_statistics(
        other.cell
    ):
        reasons.append("one takes batch statistics of each device, the other of the whole batch")
    if words := differences(row, other)[0]:
        reasons.append(f"they computed under different settings ({words})")
    for run in dict.fromkeys(each.run for each in both):
        reasons += _find_changes([each for each in both if each.run == run])
    return "; ".join(reasons)


def _alone(row: Row, other: Row) -> Iterable[Record]:
    """The launches that a ratio would rest on alone; none where a side has several that take part in it."""
    if row.run != other.run:
        return [each.ok[0] for each in (row, other) if len(each.ok) == 1]
    shared = pairs(row.ok, other.ok)
    return shared[0] if len(shared) == 1 else ()


def _find_changes(rows: Iterable[Row]) -> list[str]:
    rows = list(rows)
    records = [record for row in rows for record in row.ok]
    changes = []
    if len(drivers := _distinct(_driver(record) for record in records)) > 1:
        changes.append(f"the driver changed within the run ({', '.join(drivers)})")
    gpus = [gpu for record in records if (gpu := first_gpu(record))]
    for name, words, unit in (("power_limit_w", "power limit", "W"), ("max_sm_clock_mhz", "highest clock", "MHz")):
        known = (number(gpu.get(name)) for gpu in gpus)
        limits = _distinct(figure(value, 4) for value in known if value is not None)
        if len(limits) > 1:
            changes.append(f"the GPU's {words} changed within the run ({', '.join(limits)} {unit})")
    for row in rows if gpus else ():
        clocks = [clock for record in row.ok if (clock := clock_mhz(record))]
        if clocks and max(clocks) - min(clocks) > CLOCK_MOST * median(clocks):
            extremes = f"{figure(min(clocks), 4)} to {figure(max(clocks), 4)} MHz"
            changes.append(f"the GPU's clock changed between the launches of {row.cell.id} ({extremes})")
    return changes


def _driver(record: Record) -> str:
    driver = record.environment.get("driver")
    return clean(driver.get("version", ""), 40) if isinstance(driver, dict) else ""


def _distinct(values: Iterable[str]) -> list[str]:
    return [value for value in dict.fromkeys(values) if value]

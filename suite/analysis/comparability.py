"""What forbids a ratio of two rows, in words. What sets rows apart altogether (data, spec, size) never gets here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median

from suite.analysis.environments import differences, mixed
from suite.analysis.groups import Row, RowKey
from suite.analysis.identity import Verdict
from suite.analysis.metrics import clock_mhz, first_gpu, number
from suite.analysis.wording import figure
from suite.record.record import Record
from suite.record.text import clean

#: Of one row's launches the clocks may lie this far apart. Heat moves them by a few percent, which blocks are good for;
#: more means that somebody locked or unlocked them, or that the device was throttled in some launches only.
CLOCK_MOST = 0.10


#: Verdicts on identity that forbid a ratio.
UNPROVED = ("differs", "no evidence")


def obstacle(row: Row, other: Row, verdicts: Mapping[RowKey, Verdict], across: bool = False) -> str:
    """Why there is no ratio of this row to the other; empty where nothing forbids it.

    ``across`` allows rows that ran on different machines.
    """
    if not other.ok:
        return other.outcome
    if not across and row.machine != other.machine:
        return "they ran on different machines"
    both = list({each.key: each for each in (row, other)}.values())
    # Frameworks that did not compute the same, or of which nobody can say, are not ranked.
    found = [f"{each.cell.framework} {verdicts[each.key]}" for each in both if verdicts[each.key].kind in UNPROVED]
    found += [f"the launches of {each.cell.id} ran under {words}" for each in both if (words := mixed(each))]
    if words := differences(row, other)[0]:
        found.append(f"they computed under different settings ({words})")
    for run in dict.fromkeys(each.run for each in both):
        found += _changed([each for each in both if each.run == run])
    return "; ".join(found)


def _changed(rows: Iterable[Row]) -> list[str]:
    """What did not stay as it was among rows of one run."""
    held = list(rows)
    records = [record for row in held for record in row.ok]
    found = []
    if len(drivers := _told(_driver(record) for record in records)) > 1:
        found.append(f"the driver changed within the run ({', '.join(drivers)})")
    for name, words, unit in (("power_limit_w", "power limit", "W"), ("max_sm_clock_mhz", "highest clock", "MHz")):
        known = (number(first_gpu(record).get(name)) for record in records)
        limits = _told(figure(value, 4) for value in known if value is not None)
        if len(limits) > 1:
            found.append(f"the GPU's {words} changed within the run ({', '.join(limits)} {unit})")
    for row in held:
        clocks = [clock for record in row.ok if (clock := clock_mhz(record))]
        if clocks and max(clocks) - min(clocks) > CLOCK_MOST * median(clocks):
            between = f"{figure(min(clocks), 4)} to {figure(max(clocks), 4)} MHz"
            found.append(f"the GPU's clock changed between the launches of {row.cell.id} ({between})")
    return found


def _driver(record: Record) -> str:
    """The version of the GPU's driver, where the record says."""
    driver = record.environment.get("driver")
    return clean(driver.get("version", ""), 40) if isinstance(driver, dict) else ""


def _told(words: Iterable[str]) -> list[str]:
    """Each once; a launch that says nothing contradicts none."""
    return [each for each in dict.fromkeys(words) if each]

"""What a warm compile cache changes of a start: a line of the answer, from launches with a cold and with a warm one.

``Small CNN, first step from a warm cache: PyTorch compile 4.1x as soon, 3.1 s instead of 12.7 s``
"""

from __future__ import annotations

from dataclasses import replace

from suite.analysis.rows.groups import SETTINGS, Row
from suite.analysis.rows.wording import DASH, figure
from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.multiple_testing import compare
from suite.analysis.statistics.ratios import Pair, break_even_steps, first_and_step_s
from suite.catalog.settings import OF_A_FRAMEWORK
from suite.record.record import Record
from suite.report.format.names import framework, name_value
from suite.report.tables.frame import Table
from suite.report.text.fastest import bounded, state


def lines(table: Table, where: str) -> list[str]:
    """Returns the line, with the steps after which compiling pays where that was measured; none without caches."""
    wanted = {
        row.key: Pair(row, cold, read=_first_step_s, power=-1)
        for row in table.group.rows
        if row.cell.cache == "warm" and row.ok
        if (cold := table.group.row(row.run, replace(row.cell, cache="cold"))) and cold.ok
    }
    formed = compare(wanted, table.group, table.identities, table.margin)
    parts = [_say(table, pair, formed[key]) for key, pair in wanted.items() if formed[key].value]
    return [f"{where}, first step from a warm cache: {'; '.join(parts)}"] if parts else []


def _first_step_s(record: Record) -> float | None:
    return record.first_step_s


def _say(table: Table, pair: Pair, ratio: Estimate) -> str:
    """Returns ``PyTorch compile 4.1x as soon, 3.1 s instead of 12.7 s, pays after 90 steps instead of 500``."""
    settings = [name for name in table.group.varying if name not in OF_A_FRAMEWORK and name != "cache"]
    cell, (new, old) = pair.row.cell, (first_and_step_s(row)[0] for row in (pair.row, pair.other))
    name = " ".join(
        [framework(cell.framework), cell.compile, *(name_value(s, SETTINGS[s](pair.row)) for s in settings)]
    )
    value = bounded(
        ratio, "as soon", state(ratio) if ratio.verdict == "inconclusive" or not ratio.verdict else "", DASH
    )
    return f"{name} {value}, {figure(new, 2)} s instead of {figure(old, 2)} s{_pays(table, pair.row, pair.other)}"


def _pays(table: Table, warm: Row, cold: Row) -> str:
    """Returns the steps after which compiling pays with each cache, where the usual mode was measured beside it."""
    after, before = (break_even_steps(row, table.group) for row in (warm, cold))
    if after is None or before is None:
        return ""
    return f", pays after {figure(after, 2)} steps instead of {figure(before, 2)}"

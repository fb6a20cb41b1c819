"""What is compiled: for several lengths of batches, and what a warm compile cache changes of a start.

``Small CNN, first step from a warm cache: PyTorch compile 4.1x as soon, 3.1 s instead of 12.7 s``
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from suite.analysis.rows.groups import SETTINGS, Row
from suite.analysis.rows.wording import DASH, figure
from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.multiple_testing import compare
from suite.analysis.statistics.ratios import Pair, first_and_step_s
from suite.catalog.metrics import shapes_of
from suite.catalog.settings import OF_A_FRAMEWORK
from suite.record.parts.history import Shapes
from suite.record.record import Record
from suite.report.format.names import counts, framework, name_value
from suite.report.tables.curves import AT_ONCE, NEVER, UNSETTLED, pays
from suite.report.tables.frame import Table
from suite.report.text.fastest import bounded, state


def lines(table: Table, where: str) -> list[str]:
    """Returns the line, with the steps after which compiling pays where that was measured; none without caches."""
    parts = [_say(table, pair, ratio) for pair, ratio in starts(table) if ratio.value]
    return [f"{where}, first step from a warm cache: {'; '.join(parts)}"] if parts else []


def starts(table: Table) -> list[tuple[Pair, Estimate]]:
    """Returns the rows with a warm cache, each with the same cell with a cold one, and how much sooner they start."""
    wanted = {
        row.key: Pair(row, cold, read=_first_step_s, power=-1)
        for row in table.group.rows
        if row.cell.cache == "warm" and row.ok
        if (cold := table.group.row(row.run, replace(row.cell, cache="cold"))) and cold.ok
    }
    formed = compare(wanted, table.group, table.identities, table.margin)
    return [(pair, formed[key]) for key, pair in wanted.items()]


def compiled(table: Table, where: str) -> list[str]:
    """Returns how many programs batches of several lengths took, a line for all rows that have some."""
    told = [f"{table.group.label(row)} {_programs(shapes)}" for row in table.group.rows if (shapes := _shapes(row))]
    return [f"{where}, programs that the lengths of batches took: {'; '.join(told)}"] if told else []


def _shapes(row: Row) -> list[Shapes]:
    return [shapes for record in row.ok if (shapes := shapes_of(record))]


def _programs(shapes: Sequence[Shapes]) -> str:
    """Returns ``4 programs, 2.1 s before the windows``, or ``96 to 104 programs, 60 of them inside the windows``."""
    inside, cover_s = ([getattr(each, name) for each in shapes] for name in ("compiled", "cover_s"))
    words = counts((each.programs for each in shapes), "program")
    words += f", {figure(median(cover_s), 2)} s before the windows" if any(cover_s) else ""
    return words + (f", {figure(median(inside), 2)} of them inside the windows" if any(inside) else "")


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
    after, before = (pays(table, row) for row in (warm, cold))
    has_both = not {after, before} & {"", NEVER, AT_ONCE, *UNSETTLED.values()}
    return f", pays after {after} steps instead of {before}" if has_both else ""

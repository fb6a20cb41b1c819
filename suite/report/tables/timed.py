"""The table of timed cells."""

from __future__ import annotations

from dataclasses import replace

from suite.analysis.rows.wording import NONE
from suite.catalog.metrics import METRICS, Metric
from suite.catalog.setting import TEXT
from suite.record.text import clean
from suite.report.format.view import View
from suite.report.tables.cells import TimedCell
from suite.report.tables.columns import (
    KEPT,
    MORE,
    NUMBER,
    Column,
    Notes,
    communication,
    compared,
    grid,
    has_several,
    launch_count,
    of_metric,
    settings,
    shares,
    varied_settings,
)
from suite.report.tables.frame import Table
from suite.report.tables.words import foot_lines, shown_metrics, title

#: The metric whose heading names the kind of memory.
MEMORY = "peak_memory_bytes"
#: Headline metrics that explain a result and do not decide it.
EXPLAIN = ("step_ms_median", "train_of_compute", "break_even_steps", "compile_s", MEMORY)

LAUNCHES = Column("n", lambda cell: launch_count(cell.launches_ok, cell.launches))


def view(table: Table) -> View:
    """Returns the table and its notes as strings, numbered notes last."""
    notes, second = Notes(), [of_metric(each, (MORE,)) for each in shown_metrics(table)]
    columns = [*_columns(table, notes), *second]
    if table.tested:  # ratio and verdict are seen without scrolling on a narrow screen
        modes = {(row.cell.framework, row.cell.compile) for row in table.group.rows}
        one_mode = len(modes) == len({framework for framework, _ in modes})
        kept = {"ratio", "verdict", "framework", *table.group.varying} - ({"compile"} if one_mode else set())
        columns = [replace(each, where=(*each.where, KEPT)) if each.name in kept else each for each in columns]
    made = grid(columns, table.cells, notes, lambda cell: cell.best)
    return View(title(table.group), made, [*foot_lines(table), *notes.lines], len(second))


def _columns(table: Table, notes: Notes) -> list[Column]:
    """Returns the columns of the first part: the measured values and the outcome of each row."""
    first, *others = _headlines(table)
    several = of_devices(table)
    return [
        *names(table),
        *several[:1],
        LAUNCHES,
        first,
        *compared("ratio", lambda cell: cell.ratio, table.tested, form=NUMBER),
        *several[1:],
        *others,
        Column("identity", lambda cell: str(cell.identity or NONE), TEXT),
        Column("outcome", lambda cell: outcome(cell, notes), TEXT),
    ]


def names(table: Table) -> list[Column]:
    """Returns the columns that identify a row."""
    return settings(("framework", *table.group.varying), lambda cell, name: cell.settings.get(name, cell.framework))


def of_devices(table: Table) -> list[Column]:
    """Returns the columns that a table shows of several devices, the global batch first; none without such rows."""
    columns = [
        Column("global batch", lambda cell: cell.devices.global_batch),
        Column("communication", lambda cell: communication(cell.devices.communication)),
        Column("efficiency", lambda cell: shares(cell.devices.efficiency)),
    ]
    return columns[: 3 if table.group.by == "devices" else 2] if has_several(table.group) else []


def outcome(cell: TimedCell, notes: Notes | None = None) -> str:
    """Returns how the launches of a cell ended, and their flags."""
    reason = f" {notes.mark(cell.reason)}" if notes and cell.reason else ""
    return "; ".join(filter(None, [f"{cell.outcome}{reason}", cell.flags]))


def _headlines(table: Table) -> list[Column]:
    """Returns the metrics of the first part. If a framework has several modes, the question is when compiling pays."""
    hidden = "compile_s" if "compile" in varied_settings(table.group) else "break_even_steps"
    metrics = [each for name, each in METRICS.items() if each.headline and name != hidden]
    return [_memory(table, each) if each.name == MEMORY else _headline(each) for each in metrics]


def _headline(metric: Metric, header: str = "") -> Column:
    return of_metric(metric, (MORE,) if metric.name in EXPLAIN else (), header)


def _memory(table: Table, metric: Metric) -> Column:
    """Returns the column of the peak memory; its header names the kind, and each row does where kinds differ."""
    kinds = {cell.peak_memory_kind for cell in table.cells} - {""}
    if len(kinds) < 2:
        return _headline(metric, f"{_kind(*kinds)} MiB" if kinds else "")
    column = _headline(metric)
    return replace(column, read=lambda cell: f"{column.read(cell)} {_kind(cell.peak_memory_kind)}".rstrip())


def _kind(name: str) -> str:
    """Returns ``RSS peak`` for ``rss_peak_bytes``."""
    return clean(name).removesuffix("_bytes").replace("_", " ").replace("rss", "RSS")

"""The columns of a table of timed cells, as text."""

from __future__ import annotations

from dataclasses import replace

from suite.analysis.rows.wording import NONE, middle
from suite.catalog.metrics import METRICS, Metric
from suite.record.text import clean
from suite.report.format.view import LEFT, RIGHT, Grid, View
from suite.report.tables.figures import (
    Notes,
    Read,
    launch_count,
    metric_text,
    of_devices,
    outcome,
    ratio,
    varied_settings,
)
from suite.report.tables.frame import Table
from suite.report.tables.words import foot_lines, shown_metrics, title

#: The metric whose heading names the kind of memory.
MEMORY = "peak_memory_bytes"


def view(table: Table) -> View:
    """Returns the table and its notes as strings, numbered notes last."""
    notes = Notes()
    grid = _measured_grid(table, notes)
    return View(title(table.group), grid, [*foot_lines(table), *notes.lines], _monitored_grid(table))


def _measured_grid(table: Table, notes: Notes) -> Grid:
    """Returns the measured values and the outcome of each row."""
    names = _names(table)
    several, sides = of_devices(table.group)
    metrics = _headlines(table)
    first, *others = metrics.values()
    columns: dict[str, Read] = {
        **names,
        **{name: read for name, read in several.items() if name == "global batch"},
        "n": lambda cell: launch_count(cell.launches_ok, cell.launches),
        first.label: metric_text(first),
        "ratio": lambda cell: ratio(cell.ratio, notes),
        **({"verdict": lambda cell: cell.ratio.verdict or NONE} if table.tested else {}),
        **{name: read for name, read in several.items() if name != "global batch"},
        **{metric.label: _text(metric, table) for metric in others},
        "identity": lambda cell: str(cell.identity or NONE),
        "outcome": lambda cell: outcome(cell, notes),
    }
    headers = list(columns)
    align = [RIGHT if header == "batch" else sides.get(header, LEFT) for header in names]
    align += [LEFT if header in ("identity", "outcome") else RIGHT for header in headers[len(names) :]]
    rows = [[read(cell) for read in columns.values()] for cell in table.cells]
    places = frozenset(
        (at, headers.index(metrics[name].label)) for at, cell in enumerate(table.cells) for name in cell.best
    )
    return Grid(headers, rows, align, len(names), places)


def _headlines(table: Table) -> dict[str, Metric]:
    """Returns the metrics of the first part. If a framework has several modes, the question is when compiling pays."""
    hidden = "compile_s" if "compile" in varied_settings(table.group) else "break_even_steps"
    metrics = {name: metric for name, metric in METRICS.items() if metric.headline and name != hidden}
    kinds = _memory_kinds(table)
    if len(kinds) == 1:
        metrics[MEMORY] = replace(metrics[MEMORY], label=f"{_memory_words(*kinds)} MiB")
    return metrics


def _text(metric: Metric, table: Table) -> Read:
    """Returns what writes this metric; memory of several kinds names its kind."""
    read = metric_text(metric)
    if metric.name == MEMORY and len(_memory_kinds(table)) > 1:
        return lambda cell: f"{read(cell)} {_memory_words(cell.peak_memory_kind)}".rstrip()
    return read


def _monitored_grid(table: Table) -> Grid | None:
    """Returns the metrics of the second part that at least one row has; None if there are none."""
    metrics = shown_metrics(table)
    if not metrics:
        return None
    names = _names(table)
    columns = names | {metric.label: metric_text(metric) for metric in metrics}
    rows = [[read(cell) for read in columns.values()] for cell in table.cells]
    return Grid([*columns], rows, [LEFT] * len(names) + [RIGHT] * len(metrics), len(names))


def _names(table: Table) -> dict[str, Read]:
    """Returns the columns that identify a row."""
    return {name: _setting(name) for name in ("framework", *table.group.varying)}


def _setting(name: str) -> Read:
    return lambda cell: middle(cell.settings.get(name, cell.framework)) or NONE  # only the name of a run can be long


def _memory_kinds(table: Table) -> set[str]:
    return {cell.peak_memory_kind for cell in table.cells} - {""}


def _memory_words(kind: str) -> str:
    """Returns ``RSS peak`` for ``rss_peak_bytes``."""
    return clean(kind).removesuffix("_bytes").replace("_", " ").replace("rss", "RSS")

"""The columns of a table of timed cells, as text."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from suite.analysis.rows.groups import SETTINGS
from suite.analysis.rows.wording import NONE, figure, middle
from suite.catalog.metrics import METRICS, Metric
from suite.record.text import clean
from suite.report.format.text import spread
from suite.report.format.view import LEFT, RIGHT, Grid, View
from suite.report.tables import several
from suite.report.tables.frame import Table, best
from suite.report.tables.several import launch_count, ratio
from suite.report.tables.words import foot_lines, shown_metrics, title

Read = Callable[[Any], str]

#: The metric whose heading names the kind of memory.
MEMORY = "peak_memory_bytes"


def view(table: Table) -> View:
    """Returns the table and its notes as strings, numbered notes last."""
    notes = _Notes()
    grid = _measured(table, notes)
    return View(title(table.group), grid, [*foot_lines(table), *notes.lines], _monitored(table))


class _Notes:
    """Numbered notes; the same text gets the same number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, text: str) -> str:
        return f"[{self._numbers.setdefault(text, len(self._numbers) + 1)}]"

    @property
    def lines(self) -> list[str]:
        return [f"[{number}] {text}" for text, number in self._numbers.items()]


def _measured(table: Table, notes: _Notes) -> Grid:
    """Returns the measured values and the outcome of each row."""
    names = _names(table)
    of_several, sides = several.columns(table.group)
    metrics = _headlines(table)
    first = metrics.pop("samples_per_s")
    columns: dict[str, Read] = {
        **names,
        **{name: read for name, read in of_several.items() if name == "global batch"},
        "n": lambda row: launch_count(row["launches_ok"], row["launches"]),
        first.label: _shown(first, table),
        "ratio": lambda row: _ratio(row, notes),
        **({"verdict": lambda row: row["ratio_verdict"] or NONE} if table.tested else {}),
        **{name: read for name, read in of_several.items() if name != "global batch"},
        **{metric.label: _shown(metric, table) for metric in metrics.values()},
        "identity": lambda row: row["identity"] or NONE,
        "outcome": lambda row: _outcome(row, notes),
    }
    headers = list(columns)
    align = [RIGHT if header == "batch" else sides.get(header, LEFT) for header in names]
    align += [LEFT if header in ("identity", "outcome") else RIGHT for header in headers[len(names) :]]
    labels = {name: metric.label for name, metric in (metrics | {first.name: first}).items()}
    marked = ((row, labels[name]) for name, rows in best(table).items() for row in rows if name in labels)
    rows = [[read(row) for read in columns.values()] for row in table.frame.to_dict("records")]
    places = frozenset((row, headers.index(label)) for row, label in marked)
    return Grid(headers, rows, align, len(names), places)


def _headlines(table: Table) -> dict[str, Metric]:
    """Returns the metrics of the first part. If a framework has several modes, the question is when compiling pays."""
    hidden = "compile_s" if "compile" in _varied(table) else "break_even_steps"
    metrics = {name: metric for name, metric in METRICS.items() if metric.headline and name != hidden}
    kinds = _memory_kinds(table)
    if len(kinds) == 1:
        metrics[MEMORY] = replace(metrics[MEMORY], label=f"{_memory_words(*kinds)} MiB")
    return metrics


def _shown(metric: Metric, table: Table) -> Read:
    """Returns what writes this metric of a row."""
    if metric.ends:
        low, high = metric.ends
        return lambda row: spread(*(_scaled(row[name], metric) for name in (metric.name, low, high)))
    if metric.name == MEMORY and len(_memory_kinds(table)) > 1:
        return lambda row: " ".join(
            filter(None, [_written(row[MEMORY], metric), _memory_words(row["peak_memory_kind"])])
        )
    return lambda row: _written(row[metric.name], metric)


def _written(value: float | None, metric: Metric) -> str:
    scaled = _scaled(value, metric)
    return f"{scaled:{metric.form}}" if metric.form and scaled is not None else figure(scaled)


def _scaled(value: float | None, metric: Metric) -> float | None:
    if value is None or not math.isfinite(value):
        return None
    return value if metric.per == 1 else round(value / metric.per, 6)  # counters' last digits


def _monitored(table: Table) -> Grid | None:
    """Returns the metrics of the second part that at least one row has; None if there are none."""
    metrics = shown_metrics(table)
    if not metrics:
        return None
    names = _names(table)
    columns = names | {metric.label: _shown(metric, table) for metric in metrics}
    rows = [[read(row) for read in columns.values()] for row in table.frame.to_dict("records")]
    return Grid([*columns], rows, [LEFT] * len(names) + [RIGHT] * len(metrics), len(names))


def _names(table: Table) -> dict[str, Read]:
    """Returns the columns that identify a row."""
    return {name: _setting(name) for name in ("framework", *table.group.varying)}


def _setting(name: str) -> Read:
    return lambda row: middle(row[name]) or NONE  # only the name of a run can be long


def _varied(table: Table) -> set[str]:
    """Returns the settings that have more than one value within a framework."""
    values: dict[tuple[str, str], set[str]] = {}
    for row in table.group.rows:
        for name in table.group.varying:
            values.setdefault((name, row.cell.framework), set()).add(SETTINGS[name](row))
    return {name for (name, _), distinct in values.items() if len(distinct) > 1}


def _ratio(row: Any, notes: _Notes) -> str:
    if row["ratio_blocks"] == 0:
        return f"{NONE} {notes.mark(row['ratio_reason'])}" if row["ratio_reason"] else NONE
    return ratio(row) + (f" {notes.mark(row['ratio_caveat'])}" if row["ratio_caveat"] else "")


def _memory_kinds(table: Table) -> set[str]:
    return {cell.peak_memory_kind for cell in table.cells} - {""}


def _memory_words(kind: str) -> str:
    """Returns ``RSS peak`` for ``rss_peak_bytes``."""
    return clean(kind).removesuffix("_bytes").replace("_", " ").replace("rss", "RSS")


def _outcome(row: Any, notes: _Notes) -> str:
    words = row["outcome"]
    if row["reason"]:
        words += f" {notes.mark(row['reason'])}"
    return f"{words}; {row['flags']}" if row["flags"] else words

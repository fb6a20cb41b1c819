"""The columns of a table of timed cells, as text."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from suite.analysis.rows.groups import SETTINGS
from suite.analysis.rows.wording import DASH, NONE, figure, middle
from suite.record.text import clean
from suite.report.format.text import spread
from suite.report.format.view import LEFT, RIGHT, Grid, View
from suite.report.tables import several
from suite.report.tables.frame import Table, best
from suite.report.tables.words import foot_lines, title

Read = Callable[[Any], str]


def view(table: Table) -> View:
    """Returns the table and its notes as strings, numbered notes last."""
    notes = _Notes()
    grid = _measured(table, notes)
    return View(title(table), grid, [*foot_lines(table), *notes.lines], _monitored(table))


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
    kinds = {str(kind) for kind in table.frame["peak_memory_kind"]} - {""}
    memory = f"{_memory_words(*kinds)} MiB" if len(kinds) == 1 else "peak memory MiB"
    names = _names(table)
    of_several, sides = several.columns(table.group)
    columns: dict[str, Read] = {
        **names,
        **{name: read for name, read in of_several.items() if name == "global batch"},
        "n": lambda row: _launch_count(row["launches_ok"], row["launches"]),
        "samples/s": lambda row: spread(row["samples_per_s"], row["samples_per_s_min"], row["samples_per_s_max"]),
        "ratio": lambda row: _ratio(row, notes),
        **({"verdict": lambda row: row["ratio_verdict"] or NONE} if table.tested else {}),
        **{name: read for name, read in of_several.items() if name != "global batch"},
        "step ms": lambda row: spread(row["step_ms_median"], row["step_ms_q1"], row["step_ms_q3"]),
        "loader efficiency": lambda row: _share(row["train_of_compute"]),
        "first step s": lambda row: figure(row["first_step_s"]),
        # If a framework has several modes, the question is when compiling pays.
        **(
            {"pays after": lambda row: figure(row["break_even_steps"])}
            if "compile" in _varied(table)
            else {"compile s": lambda row: figure(row["compile_s"])}
        ),
        memory: lambda row: _memory(row, len(kinds) > 1),
        "identity": lambda row: row["identity"] or NONE,
        "outcome": lambda row: _outcome(row, notes),
    }
    headers = list(columns)
    align = [RIGHT if header == "batch" else sides.get(header, LEFT) for header in names]
    align += [LEFT if header in ("identity", "outcome") else RIGHT for header in headers[len(names) :]]
    shown_as = {"samples_per_s": "samples/s", "step_ms_median": "step ms", "first_step_s": "first step s"}
    shown_as["peak_memory_bytes"] = memory
    marked = frozenset((row, headers.index(shown_as[name])) for name, rows in best(table).items() for row in rows)
    rows = [[read(row) for read in columns.values()] for row in table.frame.to_dict("records")]
    return Grid(headers, rows, align, len(names), marked)


#: Columns of the monitor's metrics: header, column of the frame, and what its figures are divided by.
MONITORED = (
    ("CPU cores", "cpu_cores", 1.0),
    ("background load", "other_cpu_cores", 1.0),
    ("MFU %", "model_flops_utilisation", 0.01),
    ("GPU busy %", "gpu_utilisation_percent", 1.0),
    ("SM active %", "sm_utilisation_percent", 1.0),
    ("SM occupancy %", "sm_occupancy_percent", 1.0),
    ("tensor pipe %", "tensor_percent", 1.0),
    ("DRAM %", "dram_bandwidth_percent", 1.0),
    ("GPU memory MiB", "gpu_memory_used_bytes", 2.0**20),
    ("reserved / allocated", "fragmentation", 1.0),
    ("activations kept %", "activations_kept", 0.01),
    ("power W", "power_w", 1.0),
    ("mJ per sample", "energy_j_per_sample", 1e-3),
    ("cost per 1M samples", "cost_per_million_samples", 1.0),
)


def _monitored(table: Table) -> Grid | None:
    """Returns the monitor's metrics that at least one row has; None if there are none."""
    columns = [(header, name, unit) for header, name, unit in MONITORED if table.frame[name].notna().any()]
    if not columns:
        return None
    names = _names(table)
    headers = [*names, *(header for header, _, _ in columns)]
    rows = [
        [*(read(row) for read in names.values()), *(_scaled(row[name], unit) for _, name, unit in columns)]
        for row in table.frame.to_dict("records")
    ]
    return Grid(headers, rows, [LEFT] * len(names) + [RIGHT] * len(columns), len(names))


def _names(table: Table) -> dict[str, Read]:
    """Returns the columns that identify a row."""
    return {name: _setting(name) for name in ("framework", *table.group.varying)}


def _setting(name: str) -> Read:
    return lambda row: middle(row[name]) or NONE  # only the name of a run can be long


def _scaled(value: float | None, unit: float) -> str:
    return figure(None if value is None or math.isnan(value) else round(value / unit, 6))  # counters' last digits


def _varied(table: Table) -> set[str]:
    """Returns the settings that have more than one value within a framework."""
    values: dict[tuple[str, str], set[str]] = {}
    for row in table.group.rows:
        for name in table.group.varying:
            values.setdefault((name, row.cell.framework), set()).add(SETTINGS[name](row))
    return {name for (name, _), distinct in values.items() if len(distinct) > 1}


def _share(value: float | None) -> str:
    return f"{value:.2f}" if value is not None and math.isfinite(value) else NONE


def _launch_count(ok: int, started: int) -> str:
    return str(started) if ok == started else f"{ok}/{started}"


def _ratio(row: Any, notes: _Notes) -> str:
    if row["ratio_blocks"] == 0:
        return f"{NONE} {notes.mark(row['ratio_reason'])}" if row["ratio_reason"] else NONE
    low, high = (f"{row[name]:.2f}" for name in ("ratio_min", "ratio_max"))
    caveat = f" {notes.mark(row['ratio_caveat'])}" if row["ratio_caveat"] else ""
    return f"{row['ratio']:.2f}" + (f" ({low}{DASH}{high})" if low != high else "") + caveat


def _memory(row: Any, with_kind: bool) -> str:
    words = figure(row["peak_memory_bytes"] / 2**20 if row["peak_memory_kind"] else None)
    return f"{words} {_memory_words(row['peak_memory_kind'])}" if with_kind and words != NONE else words


def _memory_words(kind: str) -> str:
    """Returns ``RSS peak`` for ``rss_peak_bytes``."""
    return clean(kind).removesuffix("_bytes").replace("_", " ").replace("rss", "RSS")


def _outcome(row: Any, notes: _Notes) -> str:
    words = row["outcome"]
    if row["reason"]:
        words += f" {notes.mark(row['reason'])}"
    return f"{words}; {row['flags']}" if row["flags"] else words

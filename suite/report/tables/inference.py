"""The table of inference: throughput and latencies of trained models, where launches measured them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from suite.analysis.rows.blocks import why_untested
from suite.analysis.rows.groups import SETTINGS, Row
from suite.analysis.rows.wording import DASH, NONE, figure, middle
from suite.analysis.statistics.inference import LEAST
from suite.analysis.statistics.sequential import is_sequential
from suite.analysis.statistics.serving import COMPARED, FIGURES, Estimate, Serving
from suite.plan.measuring import LEAST_FOR_P99
from suite.report.format.names import counts, workload
from suite.report.format.view import LEFT, RIGHT, Grid, View
from suite.report.tables.figures import Notes, ratio, varied_settings
from suite.report.tables.frame import Table

#: What each figure is, and its unit.
COLUMNS = {
    "samples_per_s": ("passes at the cell's batch, on batches already on the device", "samples/s"),
    "loaded_samples_per_s": ("the same with the loader", "samples/s"),
    "latency_ms_median": ("median latency of a launch's requests of one sample", "ms"),
    "latency_ms_p95": ("their 95th percentile", "ms"),
    "latency_ms_p99": (f"their 99th percentile; empty with fewer than {LEAST_FOR_P99:,} requests", "ms"),
    "latency_ms_worst": ("the slowest of them", "ms"),
    "prefill_ms": ("of a workload that decodes: the pass over a prompt of half a sample", "ms"),
    "tokens_per_s": ("then the other half, token by token, with a cache", "tokens/s"),
    "tokens_per_s_of_8": ("the same of eight prompts at once, all their tokens", "tokens/s"),
    "first_request_ms": ("the first request, with compiling", "ms"),
    "first_batch_ms": ("the first pass at the cell's batch, with compiling", "ms"),
    "memory_bytes": ("the allocator's peak while serving, with what training keeps; empty if none is told", "bytes"),
}

#: The columns of the table by figure: its header, and how many of its units make one of the column's.
HEADERS: dict[str, tuple[str, float]] = {
    "samples_per_s": ("samples/s", 1),
    "loaded_samples_per_s": ("with loading", 1),
    "latency_ms_median": ("median ms", 1),
    "latency_ms_p95": ("95th ms", 1),
    "latency_ms_p99": ("99th ms", 1),
    "latency_ms_worst": ("worst ms", 1),
    "prefill_ms": ("prefill ms", 1),
    "tokens_per_s": ("tokens/s", 1),
    "tokens_per_s_of_8": ("of 8", 1),
    "first_request_ms": ("first request ms", 1),
    "first_batch_ms": ("first batch ms", 1),
    "memory_bytes": ("memory MiB", 2**20),
}


def views(table: Table) -> list[View]:
    """Returns the table of inference; none where no launch measured it."""
    served = table.findings.servings
    if not served:
        return []
    notes, group = Notes(), table.group
    names = ["framework", *varied_settings(group)]
    tested = any(each.verdict for serving in served.values() for each in serving.ratios.values())
    headers = [*names, "n"]
    for name, (header, _) in HEADERS.items():
        headers.append(header)
        if name in COMPARED:
            words = "request speed " if name.startswith("latency") else ""
            headers += [f"{words}to {table.baseline}", *(["request verdict" if words else "verdict"] if tested else [])]
    rows = [
        _row(row, served[row.key], names[1:], tested=tested, notes=notes) for row in group.rows if row.key in served
    ]
    kept = [at for at, column in enumerate(zip(*rows, strict=True)) if {*column} != {NONE}]
    align = [LEFT if name in names or name.endswith("verdict") else RIGHT for name in headers]
    grid = Grid(
        [headers[at] for at in kept], [[row[at] for at in kept] for row in rows], [align[at] for at in kept], len(names)
    )
    title = f"Inference with the trained {workload(group)}"
    return [View(title, grid, [*_notes(table, served.values(), tested), *notes.lines])]


def frame(tables: Sequence[Table]) -> pd.DataFrame | None:
    """Returns `inference.csv`: a row for each cell that served; None where none did."""
    rows = [
        {"workload": table.group.workload, "size": table.group.size, **_columns(each)}
        for table in tables
        for each in table.findings.servings.values()
    ]
    return pd.DataFrame(rows) if rows else None


def document_columns() -> list[str]:
    """Returns the documentation of the columns in Markdown."""
    return [
        "| column | unit | meaning |",
        "|:--|:--|:--|",
        *(f"| `{name}` | {unit} | {meaning} |" for name, (meaning, unit) in COLUMNS.items()),
    ]


def _columns(serving: Serving) -> dict[str, Any]:
    columns: dict[str, Any] = {each: getattr(serving, each) for each in ("run", "cell", "launches", "requests")}
    for name in FIGURES:
        found = serving.figures.get(name)
        columns |= {f"{name}{end}": getattr(found, part, None) for end, part in _ENDS.items()}
        if name in COMPARED:
            formed = serving.ratios.get(name)
            columns |= {f"{name}_ratio{end}": getattr(formed, part, None) for end, part in _ENDS.items()}
            columns[f"{name}_verdict"] = getattr(formed, "verdict", None)
    return columns


_ENDS = {"": "value", "_low": "low", "_high": "high"}


def _row(row: Row, serving: Serving, settings: Sequence[str], *, tested: bool, notes: Notes) -> list[str]:
    cells = [row.cell.framework, *(middle(SETTINGS[name](row)) for name in settings), str(serving.launches)]
    for name, (_, per) in HEADERS.items():
        cells.append(_text(serving.figures.get(name), per))
        if formed := serving.ratios.get(name):
            cells += [ratio(formed, notes), *([formed.verdict or NONE] if tested else [])]
        elif name in COMPARED:
            cells += [NONE, *([NONE] if tested else [])]
    return cells


def _text(found: Estimate | None, per: float) -> str:
    if not found:
        return NONE
    ends = [figure(end / per) for end in (found.low, found.high) if end is not None]
    return figure(found.value / per) + (f" ({DASH.join(ends)})" if len({*ends}) > 1 else "")


def _notes(table: Table, served: Any, tested: bool) -> list[str]:
    servings_of = list(served)
    fewest = min(each.requests for each in servings_of)
    lines = [
        "Samples/s: forward passes in evaluation mode at the cell's batch, on batches already on the device, and with "
        "the loader. Latencies: of requests of one sample, from host to host, one after the other, each timed alone "
        f"({fewest:,} or more in each launch). First: with compiling where the framework compiles.",
        "Each figure is the median over launches of a launch's own (95 % interval over launches, Student's t on "
        f"logarithms); percentiles are never of pooled requests. To {table.baseline}: how many times as fast, within "
        "blocks; of requests, by their median latency.",
    ]
    if fewest < LEAST_FOR_P99:
        lines.append(f"A 99th percentile takes {LEAST_FOR_P99:,} requests in each launch.")
    launched = counts((each.launches for each in servings_of), "launch")
    if tested:
        lines.append(f"Test: as for training, Holm's correction over all ratios of this table, {launched} per cell.")
    else:
        stopped = "the run stopped when its training was decided" if is_sequential(table.group.rows) else ""
        why = stopped or why_untested(*table.group.rows) or f"{launched} per cell; a test needs at least {LEAST}"
        lines.append(f"Significance was not tested: {why}.")
    return lines

"""The tables of what launches measured after training: inference with the trained model, and its checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from suite.analysis.findings import Findings
from suite.analysis.rows.blocks import why_untested
from suite.analysis.rows.groups import SETTINGS
from suite.analysis.statistics.inference import BLOCKS_LEAST
from suite.analysis.statistics.saving import SavingCost
from suite.analysis.statistics.sequential import is_sequential
from suite.analysis.statistics.serving import COMPARED, Serving
from suite.catalog.setting import TEXT
from suite.plan.measuring import LEAST_FOR_P99
from suite.report.format.names import counts, workload
from suite.report.format.view import View
from suite.report.tables.columns import NAME, SPREAD, Column, Notes, compared, grid, settings, varied_settings
from suite.report.tables.frame import Table


def _figure(name: str, header: str, unit: str, meaning: str, per: float = 1.0) -> Column:
    return Column(name, lambda served: served.figures.get(name), SPREAD, unit, meaning, header, per)


#: The figures of a cell that served, each the median over launches with its interval.
COLUMNS = (
    _figure("samples_per_s", "samples/s", "samples/s", "passes at the cell's batch, on batches already on the device"),
    _figure("loaded_samples_per_s", "with loading", "samples/s", "the same with the loader"),
    _figure("latency_ms_median", "median ms", "ms", "median latency of a launch's requests of one sample"),
    _figure("latency_ms_p95", "95th ms", "ms", "their 95th percentile"),
    _figure("latency_ms_p99", "99th ms", "ms",
            f"their 99th percentile; empty with fewer than {LEAST_FOR_P99:,} requests"),
    _figure("latency_ms_worst", "worst ms", "ms", "the slowest of them"),
    _figure("prefill_ms", "prefill ms", "ms", "of a workload that decodes: the pass over a prompt of half a sample"),
    _figure("tokens_per_s", "tokens/s", "tokens/s", "then the other half, token by token, with a cache"),
    _figure("tokens_per_s_of_8", "of 8", "tokens/s", "the same of eight prompts at once, all their tokens"),
    _figure("first_request_ms", "first request ms", "ms", "the first request, with compiling"),
    _figure("first_batch_ms", "first batch ms", "ms", "the first pass at the cell's batch, with compiling"),
    _figure("memory_bytes", "memory MiB", "bytes",
            "the allocator's peak while serving, with what training keeps; empty if none is told", 2**20),
)  # fmt: skip


#: Parts of an estimate in `inference.csv`, by the end of a column's name.
_ENDS = {"": "value", "_low": "low", "_high": "high"}


def views(table: Table) -> list[View]:
    """Returns the tables of inference and of checkpoints; none where no launch measured them."""
    return [*_serving(table), *_saving(table)]


def _serving(table: Table) -> list[View]:
    served = table.findings.servings
    if not served:
        return []
    notes = Notes()
    tested = any(each.verdict for serving in served.values() for each in serving.ratios.values())
    columns = [
        Column("framework", lambda row: row.cell.framework, TEXT, where=(NAME,)),
        *settings(varied_settings(table.group), lambda row, name: SETTINGS[name](row)),
        Column("n", lambda row: served[row.key].launches),
        *(column for each in COLUMNS for column in _with_ratio(each, table, tested)),
    ]
    made = grid(columns, (row for row in table.group.rows if row.key in served), notes, drop_empty=True)
    title = f"Inference with the trained {workload(table.group)}"
    return [View(title, made, [*_notes(table, served.values(), tested), *notes.lines])]


def _with_ratio(figure: Column, table: Table, tested: bool) -> list[Column]:
    """Returns the column of a figure, by row, and those of its ratio, if it has one."""
    served = table.findings.servings
    columns = [replace(figure, read=lambda row: figure.read(served[row.key]))]
    if figure.name in COMPARED:
        words = "request " if figure.name.startswith("latency") else ""
        name = f"{words}speed to {table.baseline}" if words else f"to {table.baseline}"
        columns += compared(name, lambda row: served[row.key].ratios.get(figure.name), tested, f"{words}verdict")
    return columns


def rows(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Returns the rows of `inference.csv`, one for each cell that served."""
    return _of_groups(tables, lambda findings: map(_fields, findings.servings.values()))


def saved_rows(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Returns the rows of `checkpoints.csv`, one for each cell and way to save."""
    return _of_groups(tables, lambda findings: map(_saved_fields, findings.savings.values()))


def _of_groups(tables: Sequence[Table], rows: Callable[[Findings], Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [
        {"workload": table.group.workload, "size": table.group.size, **each}
        for table in tables
        for each in rows(table.findings)
    ]


def _fields(serving: Serving) -> dict[str, Any]:
    fields: dict[str, Any] = {each: getattr(serving, each) for each in ("run", "cell", "launches", "requests")}
    for column in COLUMNS:
        name, found = column.name, column.read(serving)
        fields |= {f"{name}{end}": getattr(found, part, None) for end, part in _ENDS.items()}
        if name in COMPARED:
            formed = serving.ratios.get(name)
            fields |= {f"{name}_ratio{end}": getattr(formed, part, None) for end, part in _ENDS.items()}
            fields[f"{name}_verdict"] = getattr(formed, "verdict", None)
    return fields


def _notes(table: Table, servings: Collection[Serving], tested: bool) -> list[str]:
    fewest = min(each.requests for each in servings)
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
    launched = counts((each.launches for each in servings), "launch")
    if tested:
        return [*lines, f"Test: as for training, Holm's correction over all ratios of this table, {launched} per cell."]
    stopped = "the run stopped when its training was decided" if is_sequential(table.group.rows) else ""
    why = stopped or why_untested(*table.group.rows) or f"{launched} per cell; a test needs at least {BLOCKS_LEAST}"
    return [*lines, f"Significance was not tested: {why}."]


def _cost(name: str, header: str, unit: str, meaning: str, per: float = 1.0) -> Column:
    return Column(name, lambda cost: cost.figures[name], SPREAD, unit, meaning, header, per)


#: The figures of one way to save, each the mean over launches with its interval.
SAVED = (
    _cost("save_ms", "save ms", "ms", "one save by itself, until training may go on"),
    _cost("disk_ms", "on disk ms", "ms", "the same until its files are on the disk"),
    _cost("bytes", "MiB", "bytes", "size of a checkpoint", 2**20),
    _cost("delay_ms", "delay ms", "ms", "by how much longer steps take with one save than without"),
    _cost("every_s", "seconds between saves at 1 %", "s", "seconds from one save to the next where saves cost 1 %"),
)


def _saving(table: Table) -> list[View]:
    costs = table.findings.savings
    if not costs:
        return []
    rows, notes = {row.key: row for row in table.group.rows}, Notes()
    tested = any(each.ratio.verdict for each in costs.values())
    columns = [
        Column("framework", lambda at: at[0][1].framework, TEXT, where=(NAME,)),
        *settings(varied_settings(table.group), lambda at, name: SETTINGS[name](rows[at[0]])),
        Column("saved by", lambda at: costs[at].way, TEXT, where=(NAME,)),
        Column("n", lambda at: costs[at].launches),
        *(replace(each, read=partial(_read_cost, costs, each)) for each in SAVED),
        *compared(f"save speed to {table.baseline}", lambda at: costs[at].ratio, tested),
    ]
    made = grid(columns, sorted(costs, key=lambda at: at[1]), notes)
    return [View(f"Checkpoints of the {workload(table.group)}", made, [*_EXPLAINED, *notes.lines])]


_EXPLAINED = (
    "Save: until training may go on; on disk: until all files are there. Delay: windows of steps with one save at "
    "their begin, and the removal of the one before, less as many steps without, in turns; of asynchronous saves at "
    "most that, where a window had to wait for the end. Saves at one in so many seconds cost 1 %: a hundred times the "
    "delay; below zero, noise is more.",
    "Each figure is the mean over launches of a launch's own (95 % interval, Student's t). Every launch went on bit "
    "for bit from what it had saved.",
)


def _read_cost(costs: Mapping[Any, SavingCost], column: Column, at: Any) -> Any:
    found = column.read(costs[at])
    return None if found.value is None else found


def _saved_fields(cost: SavingCost) -> dict[str, Any]:
    fields = {name: getattr(cost, name) for name in ("run", "cell", "phase", "way", "launches")}
    for name, found in (*cost.figures.items(), ("save_ms_ratio", cost.ratio)):
        fields |= {f"{name}{end}": getattr(found, part) for end, part in _ENDS.items()}
    return fields | {"save_ms_verdict": cost.ratio.verdict}

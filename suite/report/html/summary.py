"""The summary of a run for a site's index: `run.json`, written beside each report and read when the index is made."""

from __future__ import annotations

import errno
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from math import isfinite
from pathlib import Path
from statistics import mean
from typing import Annotated, Any

from msgspec import Meta

from suite.analysis.accuracy.comparison import AccuracyComparison, training_histories
from suite.analysis.records.hardware import Machine, gpus, processor
from suite.analysis.records.load import SUMMARY, Launch
from suite.analysis.records.machines import Machines, distinguish
from suite.analysis.rows.disturbed import flags_of
from suite.analysis.rows.groups import Group, Row
from suite.analysis.rows.missing import Count
from suite.plan.schema import SchemaError, decode
from suite.record.record import Record
from suite.record.text import clean
from suite.report.tables.frame import Table, excerpt
from suite.report.text.answer import Answer
from workloads.data.files import read_regular

SCHEMA = 1
#: Bytes of a summary, and characters of a text in it, at most: anybody may have written it.
LARGEST, TEXT_MOST = 1 << 20, 300
CELLS_MOST, VALUES_MOST = 100, 1000

THROUGHPUT, ACCURACY = "throughput", "accuracy"
FRAMEWORK = "framework"
UNNAMED = "machine not recorded"

Number = Annotated[int, Meta(ge=0, lt=10**9)]
Value = Annotated[float, Meta(ge=0, lt=1e15)]


class SummaryError(ValueError):
    """A file that is not a summary; the message says why."""


@dataclass(frozen=True)
class Figure:
    """A cell: its framework with its version, and its ``values``.

    These are the median, the lowest and the highest throughput over launches, or the mean test accuracy by epoch.
    """

    cell: str
    framework: str
    version: str
    values: Annotated[tuple[Value, ...], Meta(min_length=1, max_length=VALUES_MOST)]


@dataclass(frozen=True)
class Entry:
    """What the index shows of a table of a run.

    ``n`` are the fewest and the most successful launches of a cell (seeds, in training to the end), without cells that
    have none. ``flags`` are what a reader must know of the launches. ``same`` is the digest of data and workload: only
    figures of the same may be set side by side. ``suite`` is the version of the suite, where it was recorded.
    ``by`` is the axis that was compared along; older summaries do not say.
    """

    kind: str
    workload: str
    title: str
    machine: str
    verdict: str
    n: tuple[Number, Number]
    flags: Annotated[tuple[str, ...], Meta(max_length=CELLS_MOST)]
    same: str
    suite: str
    by: str = FRAMEWORK
    figures: Annotated[tuple[Figure, ...], Meta(max_length=CELLS_MOST)] = ()


@dataclass(frozen=True)
class Summary:
    """``runs`` are the ids of the compared runs, ``dates`` the first and last day; counts are of all launches.

    ``started`` is when the last launch started, ``entries`` what the index shows of each table, and ``hardware`` what
    is known of each machine, after its name. Older summaries have none of these.
    """

    runs: tuple[str, ...]
    dates: tuple[str, ...]
    machines: tuple[str, ...]
    devices: tuple[str, ...]
    versions: tuple[str, ...]
    data: tuple[str, ...]
    workloads: tuple[str, ...]
    cells: Number
    launches: Number
    ok: Number
    started: str = ""
    entries: Annotated[tuple[Entry, ...], Meta(max_length=CELLS_MOST)] = ()
    hardware: Annotated[tuple[tuple[str, Machine], ...], Meta(max_length=CELLS_MOST)] = ()

    def to_json(self) -> str:
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1) + "\n"


def read(folder: Path) -> Summary:
    """Returns the summary of a published folder. Raises `SummaryError`, and `OSError` if there is none."""
    try:
        text = read_regular(folder / SUMMARY, LARGEST)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SummaryError("is too large" if error.errno == errno.EFBIG else f"cannot be read: {error}") from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise SummaryError("is no JSON") from None
    schema = data.pop("schema", None) if isinstance(data, dict) else None
    if type(schema) is not int or schema < 1:
        raise SummaryError("has no schema")
    if schema > SCHEMA:
        raise SummaryError(f"has schema {schema}, newer than the {SCHEMA} known here: update the suite")
    try:
        cleaned: Summary = _clean(decode(Summary, data))
    except SchemaError as error:
        raise SummaryError(f"is no summary: {error}") from None
    return cleaned


def _clean(value: Any) -> Any:
    """Returns the value with all text in it cleaned again."""
    if isinstance(value, str):
        return clean(value, TEXT_MOST)
    if isinstance(value, tuple):
        return tuple(map(_clean, value))
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{each.name: _clean(getattr(value, each.name)) for each in fields(value)})
    return value


def summary(loaded: Iterable[Launch], entries: tuple[Entry, ...] = ()) -> Summary:
    """Returns the summary of these launches; ``entries`` are of their tables."""
    launches = list(loaded)
    records = [launch.record for launch in launches]
    # A launch that failed early does not know the device.
    known = [record for record in records if record.outcome.ok] or records
    machines = Machines((launch.run, launch.record) for launch in launches)
    hardware: dict[str, Machine] = {}
    for launch in launches:
        if launch.record.outcome.ok and (name := machines.name(launch.run, launch.record)):
            hardware.setdefault(name, machines.find(launch.run, launch.record))
    days = sorted({clean(record.started, 40)[:10] for record in records if record.started})
    return Summary(
        runs=_distinct(launch.run for launch in launches),
        dates=_distinct([*days[:1], *days[-1:]]),
        machines=_distinct(map(processor, known)),
        devices=_distinct(gpus(record) or ("CPU" if processor(record) else "") for record in known),
        versions=tuple(sorted(_distinct(map(_version, known)))),
        data=_distinct(clean(record.data.get("kind", ""), 20) for record in records),
        workloads=tuple(sorted(_distinct(f"{r.cell.workload} {r.cell.size}" for r in records))),
        cells=len({(launch.run, launch.record.cell) for launch in launches}),
        launches=len(launches),
        ok=sum(record.outcome.ok for record in records),
        started=max((clean(record.started, 40) for record in records), default=""),
        entries=entries,
        hardware=tuple(hardware.items())[:CELLS_MOST],
    )


def name_machines(runs: Iterable[tuple[str, Summary]]) -> list[tuple[str, Summary]]:
    """Returns the runs, each after its folder, with names of machines that tell all of them apart."""
    held = [(folder, run, [_machine(run, each.machine, folder) for each in run.entries]) for folder, run in runs]
    labels = distinguish(machine for _, _, machines in held for machine in machines)
    named = []
    for folder, run, machines in held:
        pairs = zip(run.entries, machines, strict=True)
        entries = tuple(replace(entry, machine=each.name(labels[each])) for entry, each in pairs)
        processors = _distinct(each.processor(labels[each]) for each in machines if each.cpu != UNNAMED)
        named.append((folder, replace(run, entries=entries, machines=processors or run.machines)))
    return named


def _machine(run: Summary, name: str, folder: str) -> Machine:
    """Returns what is known of a machine; in an older summary, that is its name."""
    processor, _, cards = name.partition("; ")
    return dict(run.hardware).get(name) or Machine(processor or UNNAMED, gpus=cards, run=folder)


def entries(
    tables: Sequence[Table], learned: Sequence[AccuracyComparison], answer: Answer, counts: Sequence[Count] = ()
) -> tuple[Entry, ...]:
    """Returns an entry per table, whose cards in the ``answer`` are in the same order.

    ``counts`` say how many launches of each run are missing.
    """
    partial = [f"partial: {each.missing} of {each.planned} launches missing" for each in counts if each.missing]
    parts = [(THROUGHPUT, each.group, _rates(each)) for each in tables]
    parts += [(ACCURACY, each.group, _accuracies(each)) for each in learned]
    return tuple(
        Entry(
            kind=kind,
            workload=f"{group.workload} {group.size} {group.data_kind}",
            title=card.title,
            machine=next((row.machine for row in group.rows if row.machine), ""),
            verdict=card.verdict,
            n=_n(group),
            flags=(*partial, *_flags(group, bool(partial))),
            same=f"{group.data_digest[:12]} {group.spec_digest[:12]}",
            suite=next((clean(record.run["suite"], 40) for record in _records(group) if record.run.get("suite")), ""),
            by=group.by,
            figures=figures,
        )
        for (kind, group, figures), card in zip(parts, answer.cards, strict=True)
    )


def _rates(table: Table) -> tuple[Figure, ...]:
    shown = excerpt(table)
    values = zip(shown.group.rows, (vars(cell.samples_per_s).values() for cell in shown.cells), strict=True)
    return tuple(_figure(row, each) for row, each in values if all(end is not None and isfinite(end) for end in each))


def _accuracies(table: AccuracyComparison) -> tuple[Figure, ...]:
    figures = []
    for row in table.group.rows[:CELLS_MOST]:
        seeds = [[epoch.test_accuracy for epoch in course.epochs] for course in training_histories(row)]
        if seeds:
            figures.append(_figure(row, [mean(values) for values in zip(*seeds, strict=False)][:VALUES_MOST]))
    return tuple(figures)


def _figure(row: Row, values: Iterable[float]) -> Figure:
    version = next(filter(None, map(_version, row.ok)), "")
    return Figure(row.cell.id, row.cell.framework, version, tuple(float(f"{value:.4g}") for value in values))


def _version(record: Record) -> str:
    """Returns the framework's package, which is the first in the record, and its version."""
    packages = record.environment.get("packages")
    if not isinstance(packages, dict) or not packages:
        return ""
    name, number = next(iter(packages.items()))
    return f"{clean(name, 40)} {clean(number, 40)}"


def _records(group: Group) -> list[Record]:
    return [launch.record for row in group.rows for launch in (*row.launches, *row.control)]


def _n(group: Group) -> tuple[int, int]:
    counts = [len(row.ok) for row in group.rows if row.ok] or [0]
    return min(counts), max(counts)


def _flags(group: Group, partial: bool) -> tuple[str, ...]:
    """Returns what is wrong with some launches, each with the number of launches."""
    records = _records(group)
    failed = sum(not record.outcome.ok and record.outcome.status != "unsupported" for record in records)
    flags = [*(each for row in group.rows for each in row.flags_of_launches)]
    flags += [flags_of(launch.record) for row in group.rows for launch in row.control]
    counts = Counter(flag for each in flags for flag in each)
    uneven = not partial and len({len(row.launches) for row in group.rows}) > 1
    words = [f"{name} {count}/{len(records)}" for name, count in sorted(counts.items())]
    return (*([f"failed {failed}/{len(records)}"] if failed else []), *(["partial"] if uneven else []), *words)


def _distinct(words: Iterable[str] | Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in words if word))

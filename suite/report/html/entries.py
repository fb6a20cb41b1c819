"""What a site's index shows of each table of a run; part of `run.json`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from statistics import mean
from typing import Any

from suite.analysis.accuracy.comparison import Learned, courses
from suite.analysis.rows.groups import Group, Row, flags_of
from suite.analysis.rows.missing import Count
from suite.record.record import Record
from suite.record.text import clean
from suite.report.tables.excerpt import excerpt
from suite.report.tables.frame import Table
from suite.report.text.answer import Answer

THROUGHPUT, ACCURACY = "throughput", "accuracy"
FRAMEWORK = "framework"

#: Bounds of what a summary may hold: anybody may have written it.
TEXT_MOST, CELLS_MOST, VALUES_MOST = 300, 100, 1000


class EntryError(ValueError):
    """Values that are no entry."""


@dataclass(frozen=True)
class Figure:
    """A cell: its framework with its version, and its ``values``.

    These are the median, the lowest and the highest throughput over launches, or the mean test accuracy by epoch.
    """

    cell: str
    framework: str
    version: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Entry:
    """A table of a run.

    ``n`` are the fewest and the most successful launches of a cell (seeds, in training to the end), without cells that
    have none. ``flags`` are what a reader must know of the launches. ``same`` is the digest of data and workload: only
    figures of the same may be set side by side. ``suite`` is the version of the suite, where it was recorded.
    ``by`` is the axis that was compared along.
    """

    kind: str
    workload: str
    title: str
    machine: str
    verdict: str
    n: tuple[int, int]
    flags: tuple[str, ...]
    same: str
    suite: str
    by: str
    figures: tuple[Figure, ...]


def entries(
    tables: Sequence[Table], learned: Sequence[Learned], told: Answer, counts: Sequence[Count] = ()
) -> tuple[Entry, ...]:
    """Returns an entry per table; ``told`` is their answer, whose cards are in the same order.

    ``counts`` say how many launches of each run are missing.
    """
    partial = [f"partial: {each.missing} of {each.planned} launches missing" for each in counts if each.missing]
    groups = [each.group for each in tables] + [each.group for each in learned]
    figures = [_rates(each) for each in tables] + [_accuracies(each) for each in learned]
    kinds = [THROUGHPUT] * len(tables) + [ACCURACY] * len(learned)
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
            figures=found,
        )
        for kind, group, card, found in zip(kinds, groups, told.cards, figures, strict=True)
    )


def checked(data: Any) -> tuple[Entry, ...]:
    """Returns entries from JSON, with all text cleaned. Raises `EntryError`."""
    if not isinstance(data, list) or len(data) > CELLS_MOST:
        raise EntryError("has entries that are no list")
    return tuple(_entry(each) for each in data)


def _entry(data: Any) -> Entry:
    n = data.get("n") if isinstance(data, dict) else None
    if not isinstance(n, list) or len(n) != 2 or not all(type(each) is int and 0 <= each < 10**9 for each in n):
        raise EntryError("has an entry without its n")
    lists = [data.get(name) for name in ("flags", "figures")]
    if not all(isinstance(each, list) and len(each) <= CELLS_MOST for each in lists):
        raise EntryError("has an entry without its flags or figures")
    texts = {
        field.name: _text(data.get(field.name)) for field in fields(Entry) if field.type == "str" and field.name != "by"
    }
    texts["by"] = _text(data.get("by", FRAMEWORK))  # older entries do not say
    figures = tuple(_figure(each) for each in data["figures"])
    return Entry(n=(n[0], n[1]), flags=tuple(map(_text, data["flags"])), figures=figures, **texts)


def _figure(data: Any) -> Figure:
    values = data.get("values") if isinstance(data, dict) else None
    if not isinstance(values, list) or not 0 < len(values) <= VALUES_MOST:
        raise EntryError("has a figure without values")
    if not all(type(value) in (int, float) and math.isfinite(value) and 0 <= value < 1e15 for value in values):
        raise EntryError("has a figure that is no number")
    return Figure(_text(data.get("cell")), _text(data.get("framework")), _text(data.get("version")), tuple(values))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise EntryError("has an entry whose words are no text")
    return clean(value, TEXT_MOST)


def version(record: Record) -> str:
    """Returns the framework's package, which is the first in the record, and its version."""
    packages = record.environment.get("packages")
    if not isinstance(packages, dict) or not packages:
        return ""
    name, number = next(iter(packages.items()))
    return f"{clean(name, 40)} {clean(number, 40)}"


def _rates(table: Table) -> tuple[Figure, ...]:
    shown = excerpt(table)
    names = ("samples_per_s", "samples_per_s_min", "samples_per_s_max")
    figures = zip(shown.group.rows, shown.frame[[*names]].to_numpy(dtype=float).tolist(), strict=True)
    return tuple(_of(row, values) for row, values in figures if all(map(math.isfinite, values)))


def _accuracies(table: Learned) -> tuple[Figure, ...]:
    found = []
    for row in table.group.rows[:CELLS_MOST]:
        each = [[epoch.test_accuracy for epoch in course.epochs] for course in courses(row)]
        if each:
            found.append(_of(row, [mean(values) for values in zip(*each, strict=False)][:VALUES_MOST]))
    return tuple(found)


def _of(row: Row, values: Iterable[float]) -> Figure:
    versions = [text for record in row.ok if (text := version(record))]
    short = tuple(float(f"{value:.4g}") for value in values)
    return Figure(row.cell.id, row.cell.framework, versions[0] if versions else "", short)


def _records(group: Group) -> list[Record]:
    return [launch.record for row in group.rows for launch in (*row.launches, *row.control)]


def _n(group: Group) -> tuple[int, int]:
    counts = [len(row.ok) for row in group.rows if row.ok] or [0]
    return min(counts), max(counts)


def _flags(group: Group, partial: bool) -> tuple[str, ...]:
    """Returns what is wrong with some launches, each with the number of launches."""
    records = _records(group)
    failed = sum(not record.outcome.ok and record.outcome.status != "unsupported" for record in records)
    counts = Counter(flag for record in records for flag in flags_of(record))
    uneven = not partial and len({len(row.launches) for row in group.rows}) > 1
    words = [f"{name} {count}/{len(records)}" for name, count in sorted(counts.items())]
    return (*([f"failed {failed}/{len(records)}"] if failed else []), *(["partial"] if uneven else []), *words)

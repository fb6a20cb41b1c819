"""Whose evidence is the reference: that of the suite's own loops, and among digests that of most frameworks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from suite.plan.cell import INTERFACES
from suite.record.record import Record

#: What counts as one implementation: a framework's interface, and where there is one alone, each of its releases.
Implementation = tuple[str, ...]


def implementation(record: Record) -> Implementation:
    return record.cell.framework, record.cell.interface


def of_release(record: Record) -> Implementation:
    return *implementation(record), record.cell.release


def group_by(records: Iterable[Record], key: Callable[[Record], Hashable]) -> dict[Any, list[Record]]:
    grouped: dict[Any, list[Record]] = {}
    for record in records:
        grouped.setdefault(key(record), []).append(record)
    return grouped


def reference_records(records: Sequence[Record]) -> Sequence[Record]:
    """The records that a reference is made of: those of the suite's own loops, where there are any."""
    return [record for record in records if record.cell.interface == INTERFACES[0]] or records


def majority(digests: Iterable[tuple[str, str]]) -> str | None:
    """The digest of more than half of the frameworks, from pairs of framework and digest.

    None without a majority: with one against one, neither is right.
    """
    by_framework: dict[str, Counter[str]] = {}
    for framework, digest in digests:
        by_framework.setdefault(framework, Counter())[digest] += 1
    votes = Counter(counts.most_common(1)[0][0] for counts in by_framework.values())
    digest, count = votes.most_common(1)[0]
    return digest if 2 * count > len(by_framework) else None

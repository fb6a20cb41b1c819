"""What a setting or a release changes within a framework, and whether a cell became slower between two runs.

A *line* of releases holds the rows of one run that differ in nothing but the release, the oldest first. The environment
that is installed stands where its own version belongs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from suite.analysis.identity.verdicts import Verdict
from suite.analysis.records.load import Launch, LoadError
from suite.analysis.records.machines import SAME, Machines
from suite.analysis.records.machines import compare as compare_machines
from suite.analysis.rows.axes import AXES, Base, base
from suite.analysis.rows.blocks import release_of as of_record
from suite.analysis.rows.blocks import select_counting, why_unplanned
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics.inference import LEVEL, Estimate, Paired, holm, welch
from suite.analysis.statistics.multiple_testing import AXES_OF_GAINS, NOTHING, Known, compare, ratios
from suite.analysis.statistics.ratios import Pair, counterparts
from suite.catalog.setting import VERSION, version_key
from suite.plan.cell import Cell
from suite.plan.measuring import MARGIN
from suite.record.record import Record


@dataclass(frozen=True)
class Speedup:
    """The throughput of a row over that of the row with the usual value, ``before``, of the axis."""

    axis: str
    row: Row
    before: Row
    ratio: Estimate

    @property
    def framework(self) -> str:
        return self.row.cell.framework

    @property
    def values(self) -> tuple[str, str]:
        value = AXES[self.axis].value
        return value(self.row), value(self.before)


@dataclass(frozen=True)
class Step:
    """A release of a line, with the ratios of its throughput to the one before and to the oldest.

    The oldest itself has neither; for the second both are the same.
    """

    row: Row
    to_before: Estimate | None = None
    to_oldest: Estimate | None = None

    @property
    def release(self) -> str:
        return release_of(self.row)


def find_speedups(group: Group, verdicts: Mapping[RowKey, Verdict], margin: float = MARGIN) -> list[Speedup]:
    found: list[Speedup] = []
    for along in (replace(group, by=name) for name in AXES_OF_GAINS if name in group.varying):
        at = base(AXES[along.by], group.rows, None)
        found += find_speedups_along(along, at, ratios(along, None, verdicts, margin))
    return found


def find_speedups_along(group: Group, at: Base, formed: Mapping[RowKey, Estimate]) -> list[Speedup]:
    return [
        Speedup(group.by, row, other, formed[row.key])
        for row, other in counterparts(group, at)
        if formed[row.key].value and other is not row
    ]


def release_of(row: Row) -> str:
    """The release that a row ran, which a record says where the cell does not; empty where neither does."""
    return row.cell.release or (of_record(row.ok[0]) if row.ok else "")


def release_lines(
    group: Group, verdicts: Mapping[RowKey, Verdict], margin: float = MARGIN, known: Known = NOTHING
) -> list[tuple[Step, ...]]:
    """The lines of a group with at least two releases that ended well, in the order of its rows."""
    lines: dict[tuple[RowKey, ...], list[Row]] = {}
    for row in group.rows:
        alike = [each for each in group.alike(row, "release") if each.run == row.run and each.ok]
        if row.ok and len(alike) > 1:
            ordered = sorted(alike, key=place_of)
            lines.setdefault(tuple(each.key for each in ordered), ordered)
    wanted = {
        (row.key, other.key): Pair(row, other)
        for rows in lines.values()
        for before, row in pairwise(rows)
        for other in (before, rows[0])
    }
    formed = compare(wanted, group, verdicts, margin, known)
    return [
        (
            Step(rows[0]),
            *(Step(row, formed[row.key, before.key], formed[row.key, rows[0].key]) for before, row in pairwise(rows)),
        )
        for rows in lines.values()
    ]


def place_of(row: Row) -> tuple[object, ...]:
    match = re.match(VERSION, release_of(row))
    return (0, version_key(match[0])) if match else (1,)


#: With fewer launches on either side there is too little scatter to test a difference against.
LEAST_LAUNCHES = 3


@dataclass(frozen=True)
class Change:
    """New throughput over the base's with its 95 % interval; p is the one after Holm's correction over all cells."""

    cell: Cell
    ratio: Paired

    def slower(self, threshold: float) -> bool:
        return self.ratio.p < LEVEL and self.ratio.high < 1 - threshold

    def __str__(self) -> str:
        interval = f"{self.ratio.low:.3f} to {self.ratio.high:.3f}, p {self.ratio.p:.2g}"
        return f"{self.cell.id}: {self.ratio.value:.3f} of the base's throughput ({interval})"


def changes(launches: Iterable[Launch]) -> tuple[list[Change], list[str]]:
    """The change of every cell from the first run to the second, and why some cells have none.

    Raises `LoadError` unless the launches are of two runs on one machine.
    """
    launches = list(launches)
    runs: dict[str, dict[Cell, list[Record]]] = {}
    for launch in launches:
        if not launch.record.control:
            runs.setdefault(launch.run, {}).setdefault(launch.record.cell, []).append(launch.record)
    if len(runs) != 2:
        raise LoadError(f"--fail-if compares two runs, BASE and NEW; {len(runs)} were given")
    base, new = runs.values()
    _check_machines(launches)
    tested: list[tuple[Cell, Paired]] = []
    notes = [f"{cell.id}: not in both runs" for cell in {**base, **new} if not (cell in base and cell in new)]
    for cell in (cell for cell in base if cell in new):
        if reason := _obstacle(base[cell], new[cell]):
            notes.append(f"{cell.id}: {reason}")
        else:
            tested.append((cell, welch(_rates(new[cell]), _rates(base[cell]))))
    corrected = zip(tested, holm([test.p for _, test in tested]), strict=True)
    return [Change(cell, replace(test, p=p)) for (cell, test), p in corrected], notes


def _check_machines(launches: Iterable[Launch]) -> None:
    pairs = [(launch.run, launch.record) for launch in launches if launch.record.outcome.ok]
    machines = Machines(pairs)
    found = list(dict.fromkeys(machines.find(*pair) for pair in pairs))
    for each in found[1:]:
        likeness, why = compare_machines(found[0], each)
        if likeness != SAME:
            raise LoadError(f"--fail-if needs both runs from one machine, as a slower one is no regression: {why}")


def _obstacle(base: Sequence[Record], new: Sequence[Record]) -> str:
    ok = [select_counting(records) for records in (base, new)]
    if min(map(len, ok)) < LEAST_LAUNCHES:
        return f"{len(ok[0])} and {len(ok[1])} launches ended well; a test takes {LEAST_LAUNCHES} of each"
    if reason := why_unplanned(base) or why_unplanned(new):
        return reason
    for field, name in (("data", "data"), ("workload", "spec")):
        if len({getattr(record, field).get("digest") for records in ok for record in records}) > 1:
            return f"the {name} changed: another question"
    return ""


def _rates(records: Iterable[Record]) -> list[float]:
    return [rate for record in select_counting(records) if (rate := record.samples_per_s)]

"""What a setting or a release changes within a framework, and whether a cell became slower between two runs.

A *line* of releases holds the rows of one run that differ in nothing but the release, the oldest first. The environment
that is installed stands where its own version belongs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from suite.analysis.identity.comparability import judge
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.records.load import Launch, LoadError
from suite.analysis.records.machines import SAME, Machines
from suite.analysis.records.machines import compare as compare_machines
from suite.analysis.rows.axes import AXES, Base, base
from suite.analysis.rows.blocks import release_of as of_record
from suite.analysis.rows.blocks import why_untested
from suite.analysis.rows.groups import Group, Row, RowKey, group
from suite.analysis.statistics.inference import LEVEL, Estimate
from suite.analysis.statistics.multiple_testing import AXES_OF_GAINS, NOTHING, Known, compare, ratios
from suite.analysis.statistics.ratios import LEAST_OF_RUN, Pair, counterparts
from suite.catalog.versions import VERSION, version_key
from suite.plan.cell import Cell
from suite.plan.measuring import MARGIN


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


@dataclass(frozen=True)
class Change:
    """The throughput of a cell over that of the first run, as every comparison of the two runs has it."""

    cell: Cell
    ratio: Estimate

    def slower(self, threshold: float) -> bool:
        return (self.ratio.p or 0.0) < LEVEL and (self.ratio.high or math.inf) < 1 - threshold

    def holds(self, threshold: float) -> bool:
        """Whether the interval shows that the cell is not slower by more than the threshold."""
        return (self.ratio.low or 0.0) >= 1 - threshold

    def __str__(self) -> str:
        interval = f"{self.ratio.low:.3f} to {self.ratio.high:.3f}, p {self.ratio.p:.2g}"
        return f"{self.cell.id}: {self.ratio.value:.3f} of the base's throughput ({interval})"


def changes(launches: Iterable[Launch], margin: float = MARGIN) -> tuple[list[Change], list[str]]:
    """The change of every cell from the first run to the second, and why some cells have none.

    Raises `LoadError` unless the launches are of two runs on one machine.
    """
    launches = list(launches)
    runs = list(dict.fromkeys(launch.run for launch in launches))
    if len(runs) != 2:
        raise LoadError(f"--fail-if compares two runs, BASE and NEW; {len(runs)} were given")
    check_machines(launches)
    groups = group(launches, "run", across=True)
    cells = {run: {row.cell for one in groups for row in one.rows if row.run == run} for run in runs}
    found: list[Change] = []
    notes = [f"{cell.id}: not in both runs" for cell in cells[runs[0]] ^ cells[runs[1]]]
    for one in groups:
        formed = ratios(one, runs[0], judge(one.rows), margin)
        for row in (row for row in one.rows if row.run == runs[1] and row.cell in cells[runs[0]]):
            ratio = formed[row.key]
            if ratio.verdict:
                found.append(Change(row.cell, ratio))
            else:
                notes.append(f"{row.cell.id}: {ratio.reason or why_not_tested(row, one.row(runs[0], row.cell))}")
    return found, sorted(notes)


def why_not_tested(row: Row, other: Row | None) -> str:
    """Why two rows of two runs that may be compared have no test."""
    if other is None or not row.ok:
        return row.outcome
    few = f"{len(other.ok)} and {len(row.ok)} launches ended well; a test takes {LEAST_OF_RUN} of each"
    return few if min(len(other.ok), len(row.ok)) < LEAST_OF_RUN else why_untested(other, row)


def check_machines(launches: Iterable[Launch]) -> None:
    """Raises `LoadError` unless all launches are of one machine."""
    pairs = [(launch.run, launch.record) for launch in launches if launch.record.outcome.ok]
    machines = Machines(pairs)
    found = list(dict.fromkeys(machines.find(*pair) for pair in pairs))
    for each in found[1:]:
        likeness, why = compare_machines(found[0], each)
        if likeness != SAME:
            raise LoadError(
                f"runs are compared on one machine, as another one is neither faster nor slower code: {why}. "
                "--by framework shows them in one table; --across-machines compares the machines"
            )

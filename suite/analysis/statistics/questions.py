"""Which rows of a run are compared: the frameworks in each setting, and each setting with the usual one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from statistics import median

from suite.analysis.identity.comparability import obstacle
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.axes import AXES, base
from suite.analysis.rows.groups import SETTINGS, Group, Row, RowKey
from suite.analysis.statistics.ratios import counterpart
from suite.catalog.settings import OF_A_FRAMEWORK
from suite.catalog.settings import SETTINGS as DECLARED

#: The settings whose gains are looked for. Sizes and machines are no settings that one would choose for speed, and
#: numbers of devices have tables of their own (`suite.analysis.scaling.efficiency`).
AXES_OF_GAINS = tuple(name for name, each in DECLARED.items() if each.is_choice)

#: The values of the settings that rows share.
Setting = tuple[tuple[str, str], ...]


def questions(group: Group, verdicts: Mapping[RowKey, Verdict]) -> Iterator[tuple[Row, Row]]:
    """The pairs that a run compares by itself: rows with the natural base of the axes that it varied, and contests."""
    along = [replace(group, by=name) for name in ("framework", *AXES_OF_GAINS) if name in ("framework", *group.varying)]
    for one in along:
        at = base(AXES[one.by], one.rows, None)
        yield from ((row, other) for row in one.rows if row.ok and (other := counterpart(row, one, at)))
    for rows in entered(group).values():
        yield from combinations(fastest(rows, verdicts), 2)


def entered(group: Group) -> dict[Setting, list[Row]]:
    """The successful rows of each setting, whose frameworks are compared with each other."""
    names = [name for name in group.varying if name not in OF_A_FRAMEWORK]
    found: dict[Setting, list[Row]] = {}
    for row in group.rows:
        if row.ok and rate(row):
            found.setdefault(tuple((name, SETTINGS[name](row)) for name in names), []).append(row)
    return found


def fastest(rows: Iterable[Row], verdicts: Mapping[RowKey, Verdict]) -> list[Row]:
    """The fastest row of each framework that may be ranked, best first."""
    best: dict[str, Row] = {}
    for row in sorted(rows, key=rate, reverse=True):
        if not obstacle(row, row, verdicts):
            best.setdefault(row.cell.framework, row)
    return list(best.values())


def rate(row: Row) -> float:
    """The median throughput of a row's launches; 0 without any."""
    rates = [each for record in row.ok if (each := record.samples_per_s)]
    return median(rates) if rates else 0.0

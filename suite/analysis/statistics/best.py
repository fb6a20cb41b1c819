"""Which rows are marked as best: those that are significantly ahead of rows that they may be compared with.

Only rows of the same run, machine, precision, batch and number of devices are compared. The row with the best median
is tested against each of the others by block, with Holm's correction. The rows that do not fall behind it significantly
and beyond the margin tie with it, and all of them are marked. If no row falls behind, none is best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import median

from suite.analysis.identity.comparability import obstacle
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.blocks import pairs
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics import inference as statistics
from suite.analysis.statistics.inference import LEAST, MARGIN
from suite.record.record import Record

Value = Callable[[Record], float | None]


def find_best(
    group: Group, verdicts: Mapping[RowKey, Verdict], value: Value, *, more: bool, margin: float = MARGIN
) -> set[RowKey]:
    """The rows that are best by ``value`` among comparable ones: the highest with ``more``, else the lowest."""
    comparable: dict[tuple[str, ...], list[Row]] = {}
    for row in group.rows:
        if sum(bool(value(record)) for record in row.ok) >= LEAST:
            counts = f"{row.cell.accumulate} {row.cell.devices}"
            key = (row.run, row.machine, row.cell.size, row.cell.precision, row.batch, counts)
            comparable.setdefault(key, []).append(row)
    best: set[RowKey] = set()
    for rows in comparable.values():
        rankable = [row for row in rows if not obstacle(row, row, verdicts)]
        ordered = sorted(rankable, key=lambda row: median(_by_block(row.ok, value).values()), reverse=more)
        if ordered:
            top = ordered[0]
            rivals = [row for row in ordered[1:] if not obstacle(row, top, verdicts)]
            best |= _find_ties(top, rivals, value, "slower" if more else "faster", margin)
    return best


def _find_ties(top: Row, rivals: Iterable[Row], value: Value, worse: str, margin: float) -> set[RowKey]:
    """The top row and those that tie with it; empty if no rival's verdict against the top is ``worse``."""
    tests = {}
    for row in rivals:
        if test := _test(row, top, value):
            tests[row.key] = test
    row_verdicts = dict(zip(tests, statistics.verdicts(list(tests.values()), margin), strict=True))
    tied = {key for key, verdict in row_verdicts.items() if verdict != worse}
    if len(tied) == len(row_verdicts):
        return set()
    # A noisy top ties with rows of which one may be decidedly worse than another: those are not best.
    near = [row for row in rivals if row.key in tied]
    beaten = {
        row.key
        for row in near
        for other in near
        if row is not other and (test := _test(row, other, value)) and statistics.verdict(test, test.p, margin) == worse
    }
    return {top.key} | tied - beaten


def _test(row: Row, other: Row, value: Value) -> statistics.Paired | None:
    figures = ((value(record), value(best)) for record, best in pairs(row.ok, other.ok))
    return statistics.run_t_test([figure / highest for figure, highest in figures if figure and highest])


def _by_block(records: Iterable[Record], value: Value) -> dict[tuple[int, str], float]:
    return {(record.block, record.host): figure for record in records if (figure := value(record))}

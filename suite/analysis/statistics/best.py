"""Which rows are marked as best: those that are significantly ahead of rows that they may be compared with.

Only rows of the same run, machine, precision, batch and number of devices are compared. The row with the best median
is tested against each of the others by block, with Holm's correction; by throughput, pairs have the verdicts that all
outputs show (`suite.analysis.statistics.multiple_testing`). The rows that do not fall behind it significantly and
beyond the margin tie with it, and all of them are marked. If no row falls behind, none is best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from statistics import median

from suite.analysis.identity.comparability import obstacle
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.blocks import pairs, why_untested
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics import inference as statistics
from suite.analysis.statistics.inference import LEAST
from suite.analysis.statistics.multiple_testing import Known, compare
from suite.plan.measuring import MARGIN
from suite.record.record import Record

Value = Callable[[Record], float | None]


def find_best(
    group: Group,
    verdicts: Mapping[RowKey, Verdict],
    value: Value,
    *,
    more: bool,
    margin: float = MARGIN,
    known: Known | None = None,
) -> set[RowKey]:
    """The rows that are best by ``value`` among comparable ones: the highest with ``more``, else the lowest.

    With ``known``, the ratios of the table, ``value`` is the throughput, and pairs have the verdicts of their run.
    """
    worse = "slower" if more else "faster"

    def find_beaten(compared: Sequence[tuple[Row, Row]]) -> tuple[set[RowKey], set[RowKey]]:
        """The rows that were tested, and those that are decidedly worse than the other of a pair."""
        wanted = {(row.key, other.key): (row, other, 1.0) for row, other in compared}
        if known is not None:
            formed = compare(wanted, group, verdicts, margin, known)
            words = {key: ratio.verdict for key, ratio in formed.items() if ratio.verdict}
        else:
            tests = {key: test for key, (row, other, _) in wanted.items() if (test := _test(row, other, value))}
            words = dict(zip(tests, statistics.verdicts(list(tests.values()), margin), strict=True))
        losers = {
            key if word == worse else other for (key, other), word in words.items() if word in ("faster", "slower")
        }
        return {key for key, _ in words}, losers

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
        if not ordered:
            continue
        top = ordered[0]
        rivals = [row for row in ordered[1:] if not obstacle(row, top, verdicts)]
        tested, beaten = find_beaten([(row, top) for row in rivals])
        if beaten & tested:  # if no row falls behind, none is best
            # A noisy top ties with rows of which one may be decidedly worse than another: those are not best.
            near = [row for row in rivals if row.key in tested - beaten]
            best |= {top.key} | {row.key for row in near} - find_beaten([*combinations(near, 2)])[1]
    return best


def _test(row: Row, other: Row, value: Value) -> statistics.Paired | None:
    if why_untested(row, other):
        return None
    figures = ((value(record), value(best)) for record, best in pairs(row.ok, other.ok))
    return statistics.run_t_test([figure / highest for figure, highest in figures if figure and highest])


def _by_block(records: Iterable[Record], value: Value) -> dict[tuple[int, str], float]:
    return {(record.block, record.host): figure for record in records if (figure := value(record))}

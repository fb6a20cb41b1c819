"""Which rows a mark may call best: those that are significantly ahead of others that they may be compared with.

Only rows of one run and machine, one precision and one batch are held against each other. The one with the best median
is tested against each of the others by block, with Holm over them; those that do not fall behind it significantly and
beyond the margin tie with it, and all of them are marked. Where nobody falls behind there is no best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import median

from suite.analysis import statistics
from suite.analysis.comparability import obstacle
from suite.analysis.groups import Group, Row, RowKey
from suite.analysis.identity import Verdict
from suite.analysis.statistics import LEAST, MARGIN
from suite.record.record import Record

Value = Callable[[Record], float | None]


def leaders(
    group: Group, verdicts: Mapping[RowKey, Verdict], value: Value, *, more: bool, margin: float = MARGIN
) -> set[RowKey]:
    """The rows that are best by ``value``, which is better the more it is or the less, within their likes."""
    alike: dict[tuple[str, ...], list[Row]] = {}
    for row in group.rows:
        if sum(bool(value(record)) for record in row.ok) >= LEAST:
            key = (row.run, row.machine, row.cell.size, row.cell.precision, row.batch, str(row.cell.accumulate))
            alike.setdefault(key, []).append(row)
    marked: set[RowKey] = set()
    for rows in alike.values():
        sound = [row for row in rows if not obstacle(row, row, verdicts)]
        ordered = sorted(sound, key=lambda row: median(_by_block(row.ok, value).values()), reverse=more)
        if ordered:
            top = ordered[0]
            rivals = [row for row in ordered[1:] if not obstacle(row, top, verdicts)]
            marked |= _ahead(top, rivals, value, "slower" if more else "faster", margin)
    return marked


def _ahead(top: Row, rivals: Iterable[Row], value: Value, worse: str, margin: float) -> set[RowKey]:
    """The top row and those that tie with it, where any falls behind: where its ratio to the top is ``worse``."""
    best, tests = _by_block(top.ok, value), {}
    for row in rivals:
        here = _by_block(row.ok, value)
        if test := statistics.paired([here[block] / best[block] for block in here if block in best]):
            tests[row.key] = test
    words = dict(zip(tests, statistics.verdicts(list(tests.values()), margin), strict=True))
    tied = {key for key, word in words.items() if word != worse}
    return {top.key} | tied if len(tied) < len(words) else set()


def _by_block(records: Iterable[Record], value: Value) -> dict[int, float]:
    return {record.block: found for record in records if (found := value(record))}

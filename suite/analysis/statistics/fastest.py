"""Which framework is fastest in each setting of a group, by how much, and whether that is decided.

A contest holds the rows that share all settings but those that are a framework's own: its compile mode, and its
strategy for several devices. Each framework enters with its fastest row. A pair that the table compares has the table's
own test. Pairs without the baseline are tested in the same way, with Holm's correction over the tests of both;
`suite.analysis.statistics.multiple_testing` corrects over all tests of a comparison.

A framework with several compile modes or strategies enters with the fastest of them, chosen on the launches that its
ratio comes from. Such a ratio is too high: by 0.6 to 0.9 % where two or three modes are equally fast and launches
scatter by 3 % (``python -m tests.studies.answers``), and less if one mode is clearly ahead. The interval makes no
allowance for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations
from statistics import median

from suite.analysis.identity.comparability import obstacle
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.axes import AXES, base
from suite.analysis.rows.groups import SETTINGS, Group, Row, RowKey
from suite.analysis.statistics import inference as statistics
from suite.analysis.statistics.inference import MARGIN, Paired
from suite.analysis.statistics.ratios import NO_BLOCK, Ratio, by_block, compare_rows, counterpart
from suite.analysis.statistics.sequential import Common, common
from suite.catalog.settings import OF_A_FRAMEWORK

#: How several leaders tie: all are equal; none can be told from another; or some pair is decided all the same.
EQUAL, UNDECIDED, PARTLY = "equal", "undecided", "partly decided"

OPPOSITE = {"faster": "slower", "slower": "faster"}


@dataclass(frozen=True)
class PairRatio:
    """How much faster one row is than another: the ratio of their throughputs, its bounds, blocks and verdict.

    ``verdict`` is that of the first row, empty if nothing was tested; then the bounds are the lowest and the highest
    ratio of a block. ``value`` is None if there is no ratio, and ``reason`` says why. ``raw`` is the p-value of the
    test before any correction, and ``in_table`` says that the table has the same test.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    blocks: int = 0
    verdict: str = ""
    reason: str = ""
    raw: float | None = None
    in_table: bool = False

    @property
    def reverse(self) -> PairRatio:
        """The same gap seen from the other row."""
        if not self.value or not self.low or not self.high:
            return self
        verdict = OPPOSITE.get(self.verdict, self.verdict)
        return replace(self, value=1 / self.value, low=1 / self.high, high=1 / self.low, verdict=verdict)


@dataclass(frozen=True)
class FastestBySetting:
    """The fastest row of each framework in one setting, best first (see `order_rows`), and the gap of each pair.

    ``settings`` has the values of `Group.varying` that the rows share. ``gaps`` is keyed by the names of two
    frameworks, the one that stands first in ``rows`` first. ``unranked`` says by framework why it cannot be ranked.
    ``modes`` has the compile mode of each framework that ran in several modes, ``strategies`` and ``releases`` the same
    for those.
    """

    settings: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]
    gaps: Mapping[tuple[str, str], PairRatio]
    unranked: Mapping[str, str]
    modes: Mapping[str, str] = field(default_factory=dict)
    strategies: Mapping[str, str] = field(default_factory=dict)
    releases: Mapping[str, str] = field(default_factory=dict)

    @property
    def top(self) -> str:
        return self.rows[0].cell.framework

    @property
    def rivals(self) -> list[str]:
        return [row.cell.framework for row in self.rows[1:]]

    def gap(self, name: str, other: str) -> PairRatio:
        """The gap of two frameworks, seen from the first."""
        known = self.gaps.get((name, other))
        return known if known else self.gaps[other, name].reverse

    @property
    def leaders(self) -> list[str]:
        """The first framework and those that were tested against it and are not decidedly slower."""
        tied = [name for name in self.rivals if self.gaps[self.top, name].verdict not in ("", "faster")]
        return [self.top, *tied]

    @property
    def tie(self) -> str:
        """How the leaders tie; empty if there is only one."""
        words = {self.gap(*pair).verdict for pair in combinations(self.leaders, 2)}
        if not words:
            return ""
        return EQUAL if words == {"equal"} else PARTLY if self.decided_pairs else UNDECIDED

    @property
    def decided_pairs(self) -> list[tuple[str, str]]:
        """The pairs of leaders of which the first is decidedly faster."""
        return [pair for pair in permutations(self.leaders, 2) if self.gap(*pair).verdict == "faster"]

    @property
    def behind(self) -> list[str]:
        """The frameworks that are decidedly slower than the fastest."""
        return [name for name in self.rivals if self.gaps[self.top, name].verdict == "faster"]

    @property
    def untested(self) -> list[str]:
        return [name for name in self.rivals if not self.gaps[self.top, name].verdict]

    @property
    def is_untested(self) -> bool:
        """Whether the first framework was tested against no other."""
        return len(self.untested) == len(self.rivals)


def find_fastest(
    group: Group,
    baseline: str | None,
    verdicts: Mapping[RowKey, Verdict],
    formed: Mapping[RowKey, Ratio],
    margin: float = MARGIN,
) -> list[FastestBySetting]:
    """The contests of a group in the order of its rows; those without any successful row are left out.

    ``formed`` are the group's ratios to the framework ``baseline``.
    """
    names = [name for name in group.varying if name not in OF_A_FRAMEWORK]
    entered: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for row in group.rows:
        if row.ok and _rate(row):
            entered.setdefault(tuple((name, SETTINGS[name](row)) for name in names), []).append(row)
    ranked = {key: _fastest(rows, verdicts) for key, rows in entered.items()}
    at, shared = base(AXES["framework"], group.rows, baseline), common(group.rows)
    gaps: dict[tuple[RowKey, RowKey], PairRatio] = {}
    tests: dict[tuple[RowKey, RowKey], Paired] = {}
    for rows in ranked.values():
        for first, second in combinations(rows, 2):
            pair = first.key, second.key
            if counterpart(second, group, at) is first:
                gaps[pair] = _of_ratio(formed[second.key]).reverse
            elif counterpart(first, group, at) is second:
                gaps[pair] = _of_ratio(formed[first.key])
            else:
                gaps[pair], test = _compare_rows(first, second, group, verdicts, shared)
                tests |= {pair: test} if test else {}
    _decide(gaps, tests, [ratio.raw for ratio in formed.values() if ratio.raw is not None], margin)
    return [
        order_rows(
            FastestBySetting(
                key,
                tuple(rows),
                {(a.cell.framework, b.cell.framework): gaps[a.key, b.key] for a, b in combinations(rows, 2)},
                _find_obstacles(entered[key], rows, verdicts),
                *(_find_values(entered[key], rows, name) for name in OF_A_FRAMEWORK),
            )
        )
        for key, rows in ranked.items()
        if rows
    ]


def order_rows(contest: FastestBySetting) -> FastestBySetting:
    """The same contest with its rows in order: decidedly faster before slower, otherwise by their median throughput.

    A median is over all launches of a row, a gap over the blocks that two rows share, and so they may disagree. Where
    nothing was tested, the row that was faster in the shared blocks goes first.
    """
    left = sorted(contest.rows, key=_rate, reverse=True)
    rows: list[Row] = []
    while left:
        unbeaten = [row for row in left if not any(_beats(contest, other, row) for other in left if other is not row)]
        rows.append((unbeaten or left)[0])
        left.remove(rows[-1])
    names = [row.cell.framework for row in rows]
    gaps = {(a, b): contest.gap(a, b) for a, b in combinations(names, 2)}
    return replace(contest, rows=tuple(rows), gaps=gaps)


def _beats(contest: FastestBySetting, row: Row, other: Row) -> bool:
    gap = contest.gap(row.cell.framework, other.cell.framework)
    return gap.verdict == "faster" if gap.verdict else (gap.value or 0.0) > 1


def _rate(row: Row) -> float:
    rates = [rate for record in row.ok if (rate := record.samples_per_s)]
    return median(rates) if rates else 0.0


def _fastest(rows: Iterable[Row], verdicts: Mapping[RowKey, Verdict]) -> list[Row]:
    """The fastest row of each framework that may be ranked, best first."""
    best: dict[str, Row] = {}
    for row in sorted(rows, key=_rate, reverse=True):
        if not obstacle(row, row, verdicts):
            best.setdefault(row.cell.framework, row)
    return list(best.values())


def _find_obstacles(rows: Iterable[Row], ranked: Sequence[Row], verdicts: Mapping[RowKey, Verdict]) -> dict[str, str]:
    known = {row.cell.framework for row in ranked}
    return {row.cell.framework: obstacle(row, row, verdicts) for row in rows if row.cell.framework not in known}


def _find_values(rows: Sequence[Row], ranked: Iterable[Row], name: str) -> dict[str, str]:
    """The value of this setting of each framework that ran with several values of it."""
    return {
        row.cell.framework: SETTINGS[name](row)
        for row in ranked
        if len({SETTINGS[name](each) for each in rows if each.cell.framework == row.cell.framework}) > 1
    }


def _of_ratio(ratio: Ratio) -> PairRatio:
    return PairRatio(
        ratio.value, ratio.low, ratio.high, ratio.blocks, ratio.verdict, ratio.reason, ratio.raw, in_table=True
    )


def _compare_rows(
    first: Row, second: Row, group: Group, verdicts: Mapping[RowKey, Verdict], shared: Common
) -> tuple[PairRatio, Paired | None]:
    """The gap of two rows of one run before its test, and the test if there are enough blocks."""
    reason = obstacle(first, second, verdicts, group.across)
    if reason or first.run != second.run:
        return PairRatio(reason=reason or "they are of different runs"), None
    ratios = by_block(first, second)
    if not ratios:
        return PairRatio(reason=NO_BLOCK), None
    return PairRatio(median(ratios), min(ratios), max(ratios), len(ratios)), compare_rows(first, second, ratios, shared)


def _decide(
    gaps: dict[tuple[RowKey, RowKey], PairRatio],
    tests: Mapping[tuple[RowKey, RowKey], Paired],
    others: Sequence[float],
    margin: float,
) -> None:
    corrected = statistics.holm([*(test.p for test in tests.values()), *others])
    for (pair, test), p in zip(tests.items(), corrected, strict=False):
        verdict = statistics.verdict(test, p, margin)
        gaps[pair] = PairRatio(test.value, test.low, test.high, test.blocks, verdict, raw=test.p)

"""Which framework is fastest in each setting of a group, by how much, and whether that is decided.

A contest holds the rows that share all settings but those that are a framework's own: its compile mode, and its
strategy for several devices. Each framework enters with its fastest row. Pairs have the verdicts of their run
(`suite.analysis.statistics.multiple_testing`).

A framework with several compile modes or strategies enters with the fastest of them, chosen on the launches that its
ratio comes from. Such a ratio is too high: by 0.6 to 0.9 % where two or three modes are equally fast and launches
scatter by 3 % (``python -m tests.studies.answers``), and less if one mode is clearly ahead. The interval makes no
allowance for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations

from suite.analysis.identity.comparability import obstacle
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.environments import differences
from suite.analysis.rows.groups import SETTINGS, Group, Row, RowKey
from suite.analysis.statistics.multiple_testing import NOTHING, Known, compare, entered, fastest, rate
from suite.analysis.statistics.ratios import CLOSE, Ratio
from suite.catalog.settings import OF_A_FRAMEWORK
from suite.plan.measuring import MARGIN

#: How several leaders tie: all are equal; all are close, so that none can be told from another; their order is not
#: decided; or that of some pair is decided all the same.
EQUAL, ALIKE, UNDECIDED, PARTLY = "equal", "alike", "undecided", "partly decided"


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
    gaps: Mapping[tuple[str, str], Ratio]
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

    def gap(self, name: str, other: str) -> Ratio:
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
        gaps = [self.gap(*pair) for pair in combinations(self.leaders, 2)]
        if not gaps:
            return ""
        if all(gap.verdict == "equal" for gap in gaps):
            return EQUAL
        if self.decided_pairs:
            return PARTLY
        return ALIKE if all(gap.verdict == "equal" or gap.doubt == CLOSE for gap in gaps) else UNDECIDED

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
    group: Group, verdicts: Mapping[RowKey, Verdict], margin: float = MARGIN, known: Known = NOTHING
) -> list[FastestBySetting]:
    """The contests of a group in the order of its rows; those without any successful row are left out.

    ``known`` are the ratios of the group's table.
    """
    settings = entered(group)
    best = {key: fastest(rows, verdicts) for key, rows in settings.items()}
    ranked, apart = {}, {}
    for key, rows in best.items():
        ranked[key], apart[key] = _keep_alike(rows)
    pairs = [pair for rows in ranked.values() for pair in combinations(rows, 2)]
    # Rows of different runs share no blocks, and have a ratio only where a table has one.
    wanted = {(a.key, b.key): (a, b, 1.0) for a, b in pairs if a.run == b.run or (b.key, a.key) in known}
    gaps = compare(wanted, group, verdicts, margin, known)
    none = Ratio(reason="they are of different runs")
    return [
        order_rows(
            FastestBySetting(
                key,
                tuple(rows),
                {
                    (a.cell.framework, b.cell.framework): gaps.get((a.key, b.key), none)
                    for a, b in combinations(rows, 2)
                },
                _find_obstacles(settings[key], best[key], verdicts) | apart[key],
                *(_find_values(settings[key], rows, name) for name in OF_A_FRAMEWORK),
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
    left = sorted(contest.rows, key=rate, reverse=True)
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


def _keep_alike(rows: Sequence[Row]) -> tuple[list[Row], dict[str, str]]:
    """The rows of which each may be compared with each, as many as there are, and why the others are not ranked."""

    def apart(row: Row, other: Row) -> str:
        return differences(row, other)[0] if row.run == other.run else ""

    sets = (each for size in range(len(rows), 0, -1) for each in combinations(rows, size))
    kept = next((each for each in sets if not any(apart(*pair) for pair in combinations(each, 2))), ())
    reasons = {}
    for row in rows:
        if row not in kept:
            words, rival = next((words, other.cell.framework) for other in kept if (words := apart(row, other)))
            reasons[row.cell.framework] = f"it and {rival} computed under different settings ({words})"
    return [*kept], reasons


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

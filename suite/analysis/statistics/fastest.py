"""Which framework is fastest in each setting of a group, by how much, and which rows are marked as best.

A contest holds the rows that share all settings but those that are a framework's own. Each framework enters with its
fastest row, chosen on the launches that its ratio comes from. Such a ratio is too high: by 0.6 to 0.9 % where two or
three modes are equally fast and launches scatter by 3 % (``python -m tests.studies.answers``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations
from statistics import median

from suite.analysis.identity.comparability import obstacle
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.blocks import pairs, why_untested
from suite.analysis.rows.conditions import differences
from suite.analysis.rows.groups import SETTINGS, Group, Row, RowKey
from suite.analysis.statistics.inference import BLOCKS_LEAST, CLOSE, OPPOSITE, Estimate, decide, run_t_test
from suite.analysis.statistics.multiple_testing import NOTHING, Known, compare, entered, fastest, rate
from suite.analysis.statistics.ratios import Pair, Read, throughput
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
    gaps: Mapping[tuple[str, str], Estimate]
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

    def gap(self, name: str, other: str) -> Estimate:
        known = self.gaps.get((name, other))
        return known if known else self.gaps[other, name].reverse

    @property
    def leaders(self) -> list[str]:
        """The first, and who is not decidedly behind it; where nothing was tested, who was level in some launch."""
        return [self.top, *(name for name in self.rivals if self._ties(self.gaps[self.top, name]))]

    def _ties(self, gap: Estimate) -> bool:
        if gap.verdict:
            return gap.verdict != "faster"
        return self.is_untested and gap.low is not None and gap.low <= 1

    @property
    def trailing(self) -> list[str]:
        """Who is behind all leaders, decidedly or, untested, in every launch; all where nobody is in every one."""
        behind = [name for name in self.rivals if name not in self.leaders] or self.rivals
        return behind if self.is_untested else self.behind

    @property
    def tie(self) -> str:
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
        return [pair for pair in permutations(self.leaders, 2) if self.gap(*pair).verdict == "faster"]

    @property
    def behind(self) -> list[str]:
        return [name for name in self.rivals if self.gaps[self.top, name].verdict == "faster"]

    @property
    def untested(self) -> list[str]:
        return [name for name in self.rivals if not self.gaps[self.top, name].verdict]

    @property
    def is_untested(self) -> bool:
        return len(self.untested) == len(self.rivals)


def find_fastest(
    group: Group, verdicts: Mapping[RowKey, Verdict], margin: float = MARGIN, known: Known = NOTHING
) -> list[FastestBySetting]:
    """The contests of a group in the order of its rows; those without any successful row are left out."""
    settings = entered(group)
    ranked = {key: _keep_alike(fastest(rows, verdicts)) for key, rows in settings.items()}
    pairs = [pair for rows, _ in ranked.values() for pair in combinations(rows, 2)]
    # Rows of different runs share no blocks, and have a ratio only where a table has one.
    wanted = {(a.key, b.key): Pair(a, b) for a, b in pairs if a.run == b.run or (b.key, a.key) in known}
    ratios = compare(wanted, group, verdicts, margin, known)
    none = Estimate(reason="they are of different runs")
    contests = []
    for key, (rows, apart) in ranked.items():
        gaps = {
            (a.cell.framework, b.cell.framework): ratios.get((a.key, b.key), none) for a, b in combinations(rows, 2)
        }
        ranks = {*apart, *(row.cell.framework for row in rows)}
        others = [row for row in settings[key] if row.cell.framework not in ranks]
        unranked = {row.cell.framework: obstacle(row, row, verdicts) for row in others} | apart
        own = (_find_values(settings[key], rows, name) for name in OF_A_FRAMEWORK)
        contests += [_leave_out(order_rows(FastestBySetting(key, tuple(rows), gaps, unranked, *own)))] if rows else []
    return contests


def _leave_out(contest: FastestBySetting) -> FastestBySetting:
    """The same contest without the rows that have no ratio to the first one that has any.

    A row may have one to another row, even a decided one: but who is fastest is asked, and of a row that was not
    compared with the fastest nothing says that it is not faster. It is named, with the reason, as not ranked.
    """
    names = [row.cell.framework for row in contest.rows]
    first = next((one for one, other in permutations(names, 2) if contest.gap(one, other).value), contest.top)
    absent = {name: gap.reason for name in names if name != first and not (gap := contest.gap(first, name)).value}
    rows = tuple(row for row in contest.rows if row.cell.framework not in absent)
    return replace(contest, rows=rows, unranked={**contest.unranked, **absent})


def order_rows(contest: FastestBySetting) -> FastestBySetting:
    """The same contest with its rows in order: decidedly faster before slower, otherwise by their median throughput."""
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


def _find_values(rows: Sequence[Row], ranked: Iterable[Row], name: str) -> dict[str, str]:
    return {
        row.cell.framework: SETTINGS[name](row)
        for row in ranked
        if len({SETTINGS[name](each) for each in rows if each.cell.framework == row.cell.framework}) > 1
    }


def _test_once(pair: Pair) -> Estimate | None:
    if why_untested(pair.row, pair.other):
        return None
    figures = ((pair.read(one), pair.read(other)) for one, other in pairs(pair.row.ok, pair.other.ok))
    return run_t_test([figure / base for figure, base in figures if figure and base])


def find_best(
    group: Group,
    verdicts: Mapping[RowKey, Verdict],
    value: Read,
    *,
    more: bool,
    margin: float = MARGIN,
    known: Known = NOTHING,
) -> set[RowKey]:
    """The rows that are best by ``value`` among comparable ones: the highest with ``more``, else the lowest.

    Only rows of the same run, machine, precision, batch and number of devices are compared. The row with the best
    median is tested against each of the others. Rows that do not fall behind it significantly and beyond the margin tie
    with it, and all of them are best. If no row falls behind, none is.
    """
    worse = "slower" if more else "faster"

    def find_beaten(compared: Iterable[tuple[Row, Row]]) -> tuple[set[RowKey], set[RowKey]]:
        wanted = {(row.key, other.key): Pair(row, other, read=value) for row, other in compared}
        if value is throughput:
            formed = compare(wanted, group, verdicts, margin, known)
        else:  # which has no part in how many launches there are: one test of each pair
            tests = {key: test for key, pair in wanted.items() if (test := _test_once(pair))}
            formed = decide(tests, margin)
        words = {key: ratio.verdict for key, ratio in formed.items() if ratio.verdict}
        losers = {key if word == worse else other for (key, other), word in words.items() if word in OPPOSITE}
        return {key for key, _ in words}, losers

    def middle(row: Row) -> float:
        return median(figure for record in row.ok if (figure := value(record)))

    comparable: dict[tuple[str, ...], list[Row]] = {}
    for row in group.rows:
        if sum(bool(value(record)) for record in row.ok) >= BLOCKS_LEAST and not obstacle(row, row, verdicts):
            counts = f"{row.cell.accumulate} {row.cell.devices}"
            key = (row.run, row.machine, row.cell.size, row.cell.precision, row.batch, counts)
            comparable.setdefault(key, []).append(row)
    best: set[RowKey] = set()
    for rows in comparable.values():
        top, *others = sorted(rows, key=middle, reverse=more)
        rivals = [row for row in others if not obstacle(row, top, verdicts)]
        tested, beaten = find_beaten((row, top) for row in rivals)
        if beaten & tested:
            # A noisy top ties with rows of which one may be decidedly worse than another: those are not best.
            near = [row for row in rivals if row.key in tested - beaten]
            best |= {top.key} | {row.key for row in near} - find_beaten(combinations(near, 2))[1]
    return best

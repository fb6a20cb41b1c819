"""One verdict for one ratio: all comparisons that a run was planned to make are corrected together, once.

A run compares its frameworks in each setting of each workload, and each setting that it varied with the usual one
(`questions`). With Holm's correction over all of them the probability that anything that is said of the run calls
something faster or slower where nothing is stays within `statistics.LEVEL`. Every output reads a pair's verdict from
here. Pairs that only a reader asks for, along another axis or to another base, are corrected over the run's own ones
and these, and those keep theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import median
from types import MappingProxyType

from suite.analysis.identity.comparability import judge, obstacle
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.records.load import Launch
from suite.analysis.rows.axes import AXES, Base, base
from suite.analysis.rows.blocks import find_doubts, say_too_busy, select_counting
from suite.analysis.rows.groups import SETTINGS, Group, Row, RowKey, group
from suite.analysis.statistics.inference import INCONCLUSIVE, Estimate, Key, Paired, decide
from suite.analysis.statistics.ratios import Pair, counterparts, least_between, missing, throughput
from suite.analysis.statistics.sequential import pooled_variance
from suite.catalog.settings import OF_A_FRAMEWORK
from suite.catalog.settings import SETTINGS as DECLARED
from suite.plan.cell import Cell
from suite.plan.measuring import LEAST_TESTED, MARGIN
from suite.record.disturbance import is_disturbed
from suite.record.record import Record

#: Ratios by the keys of two rows, the first over the second.
Known = Mapping[tuple[RowKey, RowKey], Estimate]
NOTHING: Known = MappingProxyType({})
NOT_JUDGED: Mapping[RowKey, Verdict] = MappingProxyType({})

#: The settings whose gains are looked for. Sizes and machines are no settings that one would choose for speed, and
#: numbers of devices have tables of their own (`suite.analysis.statistics.scaling`).
AXES_OF_GAINS = tuple(name for name, each in DECLARED.items() if each.is_choice)

#: The values of the settings that rows share.
Setting = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Family:
    """All comparisons of a run, with their verdicts, and their tests."""

    ratios: Known
    tests: Sequence[Paired]


def questions(group: Group, verdicts: Mapping[RowKey, Verdict]) -> Iterator[tuple[Row, Row]]:
    """The pairs that a run compares by itself: rows with the natural base of the axes that it varied, and contests."""
    along = [replace(group, by=name) for name in ("framework", *AXES_OF_GAINS) if name in ("framework", *group.varying)]
    for one in along:
        at = base(AXES[one.by], one.rows, None)
        yield from counterparts(one, at)
    for rows in entered(group).values():
        yield from combinations(fastest(rows, verdicts), 2)


def entered(group: Group) -> dict[Setting, list[Row]]:
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


def find_family(
    group: Group, run: str, margin: float = MARGIN, judged: Mapping[RowKey, Verdict] = NOT_JUDGED
) -> Family:
    """All comparisons of a run, or without one of each run with the first; ``judged`` is the identity of its rows."""
    families = group.runs.computed
    if (run, margin) not in families:
        every = [launch for launches in group.runs.launches.values() for launch in launches]
        held = group.runs.launches.get(run, ()) if run else every
        families[run, margin] = correct_run(held, margin, judged, between=not run)
    family: Family = families[run, margin]
    return family


def correct_run(
    launches: Sequence[Launch],
    margin: float = MARGIN,
    judged: Mapping[RowKey, Verdict] = NOT_JUDGED,
    *,
    between: bool = False,
) -> Family:
    """All comparisons of the launches of a run, or ``between`` the runs that the launches are of.

    ``judged`` is the identity of the rows of one group, if that is known.
    """
    formed: dict[tuple[RowKey, RowKey], Estimate] = {}
    for one in group(launches, "run" if between else "framework", between):
        identities = judged if judged.keys() == {row.key for row in one.rows} else judge(one.rows)
        shared = pooled_variance(one.rows)
        asked = counterparts(one, base(AXES["run"], one.rows, launches[0].run)) if between else None
        for row, other in questions(one, identities) if asked is None else asked:
            key = row.key, other.key
            if row is not other and key not in formed and key[::-1] not in formed:
                formed[key] = Pair(row, other, least=least_between(one)).estimate(identities, between, shared)
    return Family(decide(formed, margin), [each for each in formed.values() if isinstance(each, Paired)])


def compare(
    wanted: Mapping[Key, Pair],
    group: Group,
    verdicts: Mapping[RowKey, Verdict],
    margin: float = MARGIN,
    known: Known = NOTHING,
) -> dict[Key, Estimate]:
    """The ratio of each pair, with its verdict.

    Of throughput, that of the run itself comes first, then one that is ``known``. All others are corrected over them
    and the run's; ratios of other figures among themselves.
    """
    shared = pooled_variance(group.rows)
    formed: dict[Key, Estimate] = {}
    tested: dict[str, dict[Key, Estimate]] = {}
    for key, pair in wanted.items():
        plain = pair.row.run == pair.other.run and pair.read is throughput
        between = group.by == "run" and pair.read is throughput
        own = pair.row.run if plain else ""
        family = find_family(group, own, margin, verdicts).ratios if plain or between else NOTHING
        found = (_look_up(family, pair) or _look_up(known, pair)) if pair.per == 1 and pair.read is throughput else None
        if found and found.value and not obstacle(pair.row, pair.other, verdicts, group.across):
            formed[key] = replace(found, baseline=pair.baseline, caveat=pair.caveat)
        else:
            formed[key] = pair.estimate(verdicts, group.across, shared)
            tested.setdefault(own, {})[key] = formed[key]
    for run, of_run in tested.items():
        formed |= decide(of_run, margin, find_family(group, run, margin, verdicts).tests if run else ())
    return formed


def _look_up(known: Known, pair: Pair) -> Estimate | None:
    if found := known.get((pair.row.key, pair.other.key)):
        return found
    found = known.get((pair.other.key, pair.row.key))
    return found.reverse if found else None


def ratios(
    group: Group, baseline: str | None, verdicts: Mapping[RowKey, Verdict], margin: float = MARGIN
) -> dict[RowKey, Estimate]:
    """A ratio per row, or the reason why there is none: a ratio of runs that are not comparable is worse than none."""
    at = base(AXES[group.by], group.rows, baseline)
    wanted = {row.key: Pair(row, other, least=least_between(group)) for row, other in counterparts(group, at)}
    formed = compare(wanted, group, verdicts, margin)
    for row in group.rows:  # of a row that failed its outcome says why
        if row.key not in formed:
            formed[row.key] = Estimate(reason=f"no ratio: {missing(row, group, at)}") if row.ok else Estimate()
    return {row.key: formed[row.key] for row in group.rows}


def known_ratios(group: Group, at: Base, formed: Mapping[RowKey, Estimate]) -> Known:
    return {
        (row.key, other.key): formed[row.key]
        for row, other in counterparts(group, at)
        if formed[row.key].value and other is not row
    }


@dataclass(frozen=True)
class Standing:
    """How many tests there are, how many are decided, and the cells that a test which is not needs more launches of.

    ``needed`` are the numbers of blocks that would decide what is left, by the scatter so far, where any would. While
    the machine was too busy, which ``busy`` says, nothing is tested and every cell goes on.
    """

    tests: int
    decided: int
    cells: frozenset[Cell]
    busy: str = ""
    needed: tuple[int, ...] = ()


def standing(records: Sequence[Record], margin: float = MARGIN) -> Standing:
    """What is decided of a run. A launch that failed drops no cell: a pair with too few blocks is not decided.

    Pairs that may not be compared have no ratio, and are none of these.
    """
    if busy := say_too_busy(records):
        return Standing(0, 0, frozenset(record.cell for record in records if record.outcome.ok), busy)
    family = correct_run([Launch(record, str(record.run.get("id", "")), "") for record in records], margin)
    found = {pair: ratio for pair, ratio in family.ratios.items() if ratio.value and ratio.low and ratio.high}
    if not found:  # nothing to decide: as many launches as a fixed number has
        few = len({record.block for record in records}) < LEAST_TESTED
        return Standing(0, 0, frozenset(record.cell for record in records if few and record.outcome.ok))
    left = [pair for pair, ratio in found.items() if ratio.verdict in ("", INCONCLUSIVE)]
    cells = {cell for pair in left for _, cell in pair}
    by_cell: dict[Cell, list[Record]] = {}
    for record in records:
        by_cell.setdefault(record.cell, []).append(record)
    # A cell without any undisturbed launch, or with a flagged one alone, has no ratio yet; no partner leaves before.
    unread = [cell for cell, own in by_cell.items() if not cell.recipe and _is_unread(own)]
    cells |= {cell for cell in by_cell if any(cell.workload == each.workload for each in unread)}
    needed = sorted(each for pair in left if (each := found[pair].blocks_to_decide))
    return Standing(len(found) + len(unread), len(found) - len(left), frozenset(cells), needed=tuple(needed))


def _is_unread(records: Sequence[Record]) -> bool:
    counting = select_counting(records)
    return all(map(is_disturbed, records)) or (len(counting) == 1 and bool(find_doubts(counting)))

"""One verdict for one ratio: all comparisons that a run was planned to make are corrected together, once.

A run compares its frameworks in each setting of each workload, and each setting that it varied with the usual one
(`questions`). With Holm's correction over all of them the probability that anything that is
said of the run calls something faster or slower where nothing is stays within `statistics.LEVEL`; lists that are
corrected one by one do so several times as often (``python -m tests.studies.answers``). Every output reads a pair's
verdict from here, so none contradicts another, whatever else is loaded with the run. Pairs that only a reader asks for,
along another axis or to another base, are corrected over the run's own ones and these, and those keep theirs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import median
from types import MappingProxyType
from typing import TypeVar

from suite.analysis.identity.comparability import obstacle
from suite.analysis.identity.verdicts import Verdict, verdicts
from suite.analysis.records.load import Launch
from suite.analysis.rows.axes import AXES, Base, base
from suite.analysis.rows.disturbed import say_too_busy
from suite.analysis.rows.groups import SETTINGS, Group, Row, RowKey, group
from suite.analysis.statistics import inference as statistics
from suite.analysis.statistics.inference import Paired
from suite.analysis.statistics.ratios import OPPOSITE, Ratio, conditions, counterpart, describe, missing, ratio_to
from suite.analysis.statistics.sequential import common
from suite.catalog.settings import OF_A_FRAMEWORK
from suite.catalog.settings import SETTINGS as DECLARED
from suite.plan.cell import Cell
from suite.plan.measuring import LEAST_TESTED, MARGIN
from suite.record.disturbance import is_disturbed
from suite.record.record import Record

Key = TypeVar("Key", bound=Hashable)

#: Ratios by the keys of two rows, the first over the second.
Known = Mapping[tuple[RowKey, RowKey], Ratio]
NOTHING: Known = MappingProxyType({})

UNDECIDED = "inconclusive"


#: The settings whose gains are looked for. Sizes and machines are no settings that one would choose for speed, and
#: numbers of devices have tables of their own (`suite.analysis.scaling.efficiency`).
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


def find_family(group: Group, run: str, margin: float = MARGIN) -> Family:
    """The comparisons of a whole run, of whose rows this group has some."""
    kept = group.runs.computed
    if (run, margin) not in kept:
        kept[run, margin] = correct_run(group.runs.launches.get(run, ()), margin)
    family: Family = kept[run, margin]
    return family


def correct_run(launches: Sequence[Launch], margin: float = MARGIN) -> Family:
    """The comparisons that a run with these launches makes, corrected together."""
    formed: dict[tuple[RowKey, RowKey], Ratio] = {}
    tests: dict[tuple[RowKey, RowKey], Paired] = {}
    for one in group(launches):
        identities, shared = verdicts({row.key: row.ok for row in one.rows}), common(one.rows)
        for row, other in questions(one, identities):
            pair = row.key, other.key
            if row is not other and pair not in formed and pair[::-1] not in formed:
                formed[pair], test = ratio_to(row, other, identities, shared=shared)
                tests |= {pair: test} if test else {}
    return Family(formed | decide(formed, tests, margin), list(tests.values()))


def compare(
    wanted: Mapping[Key, tuple[Row, Row, float]],
    group: Group,
    verdicts: Mapping[RowKey, Verdict],
    margin: float = MARGIN,
    known: Known = NOTHING,
) -> dict[Key, Ratio]:
    """The ratio of each two rows, divided by a number, with its verdict.

    That of the run itself comes first, then one that is ``known``. All others are corrected over them and the run's.
    """
    shared = common(group.rows)
    formed: dict[Key, Ratio] = {}
    tests: dict[str, dict[Key, Paired]] = {}
    for key, (row, other, per) in wanted.items():
        one_run = row.run == other.run
        family = find_family(group, row.run, margin).ratios if one_run else NOTHING
        found = (_look_up(family, row, other) or _look_up(known, row, other)) if per == 1 else None
        if found and found.value and not obstacle(row, other, verdicts, group.across):
            name = describe(row, other)
            formed[key] = replace(found, baseline=name, caveat=conditions(row, other, name))
            continue
        formed[key], test = ratio_to(row, other, verdicts, across=group.across, per=per, shared=shared)
        if test:
            tests.setdefault(row.run if one_run else "", {})[key] = test
    for run, own in tests.items():
        formed |= decide(formed, own, margin, find_family(group, run, margin).tests if run else ())
    return formed


def _look_up(known: Known, row: Row, other: Row) -> Ratio | None:
    if found := known.get((row.key, other.key)):
        return found
    found = known.get((other.key, row.key))
    return found.reverse if found else None


def decide(
    formed: Mapping[Key, Ratio], tests: Mapping[Key, Paired], margin: float = MARGIN, others: Sequence[Paired] = ()
) -> dict[Key, Ratio]:
    """The ratios that were tested, with intervals and verdicts after a correction over these tests and ``others``."""
    found: dict[Key, Ratio] = {}
    corrected = statistics.correct([*tests.values(), *others])
    for (key, alone), (test, p) in zip(tests.items(), corrected, strict=False):
        verdict, before = statistics.verdict(test, margin), statistics.verdict(alone, margin)
        probably = before if before in OPPOSITE else ""
        needed = statistics.blocks_to_decide(test, margin) if verdict == UNDECIDED and not test.stops else None
        found[key] = replace(
            formed[key], value=test.value, low=test.low, high=test.high, p=p, raw=test.p, verdict=verdict,
            blocks_to_decide=needed, level=test.level, tests=len(corrected),
            alone_low=alone.low, alone_high=alone.high, probably=probably if verdict == UNDECIDED else "",
        )  # fmt: skip
    return found


def ratios(
    group: Group, baseline: str | None, verdicts: Mapping[RowKey, Verdict], margin: float = MARGIN
) -> dict[RowKey, Ratio]:
    """A ratio per row, or the reason why there is none: a ratio of runs that are not comparable is worse than none.

    Ratios are formed along the group's axis, to its value ``baseline``; None means the natural one.
    """
    at = base(AXES[group.by], group.rows, baseline)
    pairs = [(row, counterpart(row, group, at) if row.ok else None) for row in group.rows]
    wanted = {row.key: (row, other, 1.0) for row, other in pairs if other}
    formed = compare(wanted, group, verdicts, margin)
    for row, other in pairs:  # of a row that failed its outcome says why
        if not other:
            formed[row.key] = Ratio(reason=f"no ratio: {missing(row, group, at)}") if row.ok else Ratio()
    return {row.key: formed[row.key] for row in group.rows}


def known_ratios(group: Group, at: Base, formed: Mapping[RowKey, Ratio]) -> Known:
    """The ratios of a table to the base ``at``, by the pairs that they are of."""
    pairs = ((row, counterpart(row, group, at)) for row in group.rows if formed[row.key].value)
    return {(row.key, other.key): formed[row.key] for row, other in pairs if other and other is not row}


@dataclass(frozen=True)
class Standing:
    """How many tests there are, how many are decided, and the cells that a test which is not needs more launches of.

    While the machine was too busy, which ``busy`` says, nothing is tested and every cell goes on.
    """

    tests: int
    decided: int
    cells: frozenset[Cell]
    busy: str = ""


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
    left = [pair for pair, ratio in found.items() if ratio.verdict in ("", UNDECIDED)]
    cells = {cell for pair in left for _, cell in pair}
    by_cell: dict[Cell, list[Record]] = {}
    for record in records:
        by_cell.setdefault(record.cell, []).append(record)
    # A cell without any undisturbed launch has no ratio yet, and no partner leaves before it has one.
    unread = [cell for cell, own in by_cell.items() if not cell.recipe and all(map(is_disturbed, own))]
    cells |= {cell for cell in by_cell if any(cell.workload == each.workload for each in unread)}
    return Standing(len(found) + len(unread), len(found) - len(left), frozenset(cells))

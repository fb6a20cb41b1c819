"""Why one row is slower than another, in words."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from framework_training_suite import PROGRAM
from suite.analysis.bottlenecks.causes import AGREES, NAMED_SHARE, UNKNOWN, Cause, Causes
from suite.analysis.findings import EXPLAINED, ExplainedPair
from suite.analysis.rows.blocks import flags_of
from suite.analysis.rows.groups import SETTINGS, WORDS, Row
from suite.analysis.rows.wording import figure, fill, listing, middle
from suite.analysis.statistics.inference import BLOCKS_LEAST
from suite.report.format.names import count, framework
from suite.report.format.text import capital
from suite.report.tables.frame import Table
from suite.report.text.missing import name_settings, name_workloads

#: The way to a profile, where there is none.
PROFILE_COMMAND = f"{PROGRAM} run --profile"
#: Axes that it names whatever their value, as a run without options has others.
ALWAYS = ("workload", "framework", "batch")

#: Calls that differ by this factor are told.
CALLS_FACTOR = 3.0
#: An operation with this share of its category is most of it.
MAIN_SHARE = 0.5


@dataclass(frozen=True)
class PairExplanation:
    """What explains one pair: a heading, the pair's verdict, and sentences."""

    title: str
    verdict: str
    lines: Sequence[str]


def explain_sides(table: Table) -> list[tuple[PairExplanation, list[PairExplanation]]]:
    """Returns what explains each two sides once, where they differ most, and beside it that of their other settings.

    Differences that were tested and not decided are left out.
    """
    sides: dict[frozenset[str], list[tuple[ExplainedPair, PairExplanation]]] = {}
    for pair, told in explain_pairs(table):
        if pair.ratio.verdict in EXPLAINED:
            sides.setdefault(frozenset(_sides(table, pair)), []).append((pair, told))
    found = []
    for each in sides.values():
        _, most = max(each, key=lambda one: abs(math.log(one[0].ratio.value or 1.0)))
        found.append((most, [told for _, told in each if told is not most]))
    return found


def explain_pairs(table: Table) -> list[tuple[ExplainedPair, PairExplanation]]:
    """Returns all pairs with what explains them; none if no launch of the table has a profile."""
    if not is_profiled([table]):
        return []
    return [(pair, _explain_pair(table, pair)) for pair in table.findings.pairs]


def is_profiled(tables: Iterable[Table]) -> bool:
    """Returns whether any launch of these tables has a profile."""
    return any(record.profile for table in tables for row in table.group.rows for record in row.ok)


def no_profile(tables: Iterable[Table], spell: Callable[[str], str] = str) -> str:
    """Returns how to get a profile, for a run without one."""
    rows = [row for table in tables for row in table.group.rows]
    return f"No profile was recorded, so there are no causes. Measure with --profile: {spell(_record(rows))}"


def _record(rows: Iterable[Row]) -> str:
    cells = [row.cell for row in rows if not row.cell.is_of_script]
    named = [*name_workloads(cell.workload for cell in cells), *name_settings(cells, ALWAYS if cells else ())]
    command = PROFILE_COMMAND if cells else f"{PROGRAM} script --profile"
    return " ".join([command, *map(shlex.quote, named)])


def _explain_pair(table: Table, pair: ExplainedPair) -> PairExplanation:
    subject, other = _sides(table, pair)
    n = count(pair.ratio.blocks, "block")
    verdict = pair.ratio.verdict or "not tested"
    title = f"{subject} against {other}{_place(table, pair.row)}: {pair.ratio.value:.2f}x as fast ({verdict}, {n})"
    if pair.causes is None:
        rows = listing([_name(table, row) for row in pair.lacking])
        words = f"No profile of {rows}. Measure with --profile to record one: {_record(pair.lacking)}"
        return PairExplanation(
            title, pair.ratio.verdict, [f"{words}. If it was given, the launch's log says what failed."]
        )
    return PairExplanation(title, pair.ratio.verdict, list(sentences(pair.causes, subject, other)))


def sentences(causes: Causes, subject: str, other: str) -> list[str]:
    """Returns how long both steps take, then a sentence per cause, the largest first, then what limits the answer."""
    ours, theirs = (f"{figure(1e3 * seconds)} ms" for seconds in (causes.step_s, causes.other_step_s))
    times = f"({figure(causes.step_s / causes.other_step_s)} times as long)"
    first = f"A {causes.per} takes {ours} in {subject}, {theirs} in {other} {times}."
    if causes.alike:
        return [first, "They differ by less than 2 %, so there is no difference to explain."]
    lines = [first]
    for cause in causes.causes:
        reasons = [f"Known cause of this: {each.words} ({each.source})." for each in cause.known]
        lines += [f"{capital(_cause(cause))}.", *(words for words in reasons if words not in lines)]
    if causes.against:
        lines.append(f"The other way: {'; '.join(_cause(each) for each in causes.against)}.")
    return [*lines, *_limits(causes, (subject, other))]


def _limits(causes: Causes, subjects: tuple[str, str]) -> list[str]:
    """Describes what the answer does not say: tests, sums that disagree, what is not named, flagged launches."""
    lines = []
    if not causes.tested:
        lines.append(
            f"Not tested: {count(causes.blocks, 'block')} with both profiles, a test needs at least {BLOCKS_LEAST}."
        )
    covered = [each.covered for each in (causes.row, causes.other)]
    if max(abs(each - 1) for each in covered) > AGREES:
        kept = causes.row.kernels_kept and causes.other.kernels_kept
        slowed = "the kernels had kept their times and the host alone" if kept else "everything"
        lines.append(
            f"The profiled steps took {covered[0]:.2f} and {covered[1]:.2f} times as long as the timed ones. The times "
            f"above are scaled to the timed steps, as if {slowed} had slowed."
        )
    if causes.named < NAMED_SHARE:
        rest = causes.longer * (1 - causes.named)
        lines.append(f"The rest, {100 * rest:.0f} % of the difference, is spread over many small parts.")
    if max(causes.unknown) > UNKNOWN:
        shares = " and ".join(f"{100 * share:.0f} %" for share in causes.unknown)
        lines.append(f"No rule knows {shares} of the two steps (other), so causes may hide there.")
    for subject, each in zip(subjects, (causes.row, causes.other), strict=True):
        profiled = [record for record in each.row.ok if record.profile]
        if counts := Counter(flag for record in profiled for flag in flags_of(record)):
            flags = listing([f"{flag} {count}" for flag, count in sorted(counts.items())])
            lines.append(f"Flagged launches among the {len(profiled)} profiled ones of {subject}: {flags}.")
    return lines


def _cause(cause: Cause) -> str:
    """Describes a cause: ``convolution weight gradient: 412 ms against 98 ms, 72 % of the difference``."""
    share = f"{100 * abs(cause.share):.0f} % of the difference"
    text = f"{cause.category}: {figure(1e3 * cause.seconds)} ms against {figure(1e3 * cause.other_seconds)} ms, {share}"
    notes = []
    many, few = max(cause.calls), min(cause.calls)
    if few and many >= CALLS_FACTOR * few:
        notes.append(f"{cause.calls[0]:,.0f} calls against {cause.calls[1]:,.0f}")
    if cause.operation:
        part = "most of it in" if cause.operation_share >= MAIN_SHARE else "the largest part is"
        notes.append(f"{part} {middle(cause.operation, 48)}")
    if tested := cause.difference:
        low, high = (f"{'+' if end > 0 else ''}{figure(1e3 * end)}" for end in (tested.low or 0.0, tested.high or 0.0))
        notes.append(f"95 % interval {low} to {high} ms{'' if cause.certain else ', not significant'}")
    return f"{text} ({'; '.join(notes)})" if notes else text


def _sides(table: Table, pair: ExplainedPair) -> tuple[str, str]:
    by = table.group.by
    if by == "framework":
        return framework(pair.row.cell.framework), framework(pair.other.cell.framework)
    value = table.base.axis.value
    names = [fill(WORDS[by], middle(value(row))) for row in (pair.row, pair.other)]
    return f"{framework(pair.row.cell.framework)} with {names[0]}", names[1]


def _place(table: Table, row: Row) -> str:
    """Returns the settings that tell this pair from the others of its table, after a comma."""
    modes = {(each.cell.framework, each.cell.compile) for each in table.group.rows}
    settled = len(modes) == len({name for name, _ in modes})
    names = [name for name in table.group.varying if name != table.group.by and not (settled and name == "compile")]
    return "".join(f", {fill(WORDS[name], middle(SETTINGS[name](row)))}" for name in names)


def _name(table: Table, row: Row) -> str:
    return table.group.label(row, ", ")

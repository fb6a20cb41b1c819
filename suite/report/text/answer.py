"""The answer of a comparison: a few sentences, and a line for each of its tables that fits on a card.

Every sentence follows from the tests that all outputs show (`suite.analysis.statistics.multiple_testing`). Accuracies
are tested in their own tables. Figures that were not tested are told as what was measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from suite.analysis.records.machines import gpus
from suite.analysis.rows.blocks import flags_of, why_untested
from suite.analysis.rows.groups import Group, Row
from suite.analysis.statistics.accuracy import AccuracyComparison
from suite.analysis.statistics.changes import Speedup
from suite.analysis.statistics.inference import LEAST
from suite.analysis.statistics.sequential import launches_needed
from suite.report.format.names import count, framework, number, times, workload
from suite.report.format.text import capital
from suite.report.tables.frame import Table
from suite.report.text import devices, fastest, training
from suite.report.text.changes import along, along_card, best_setting, switches, training_time

#: The most sentences of an answer.
MOST = 3


@dataclass(frozen=True)
class Card:
    """What one table shows, in a line of at most `fastest.CARD` characters.

    ``title`` names the workload in words. ``launches`` is the largest number of launches of a cell.
    """

    workload: str
    size: str
    title: str
    verdict: str
    launches: int


@dataclass(frozen=True)
class Answer:
    """At most `MOST` sentences, a card per table in the order of the tables, and the machine in words.

    Where the free switches of a CPU were measured, one more sentence is about them.
    """

    sentences: tuple[str, ...]
    cards: tuple[Card, ...]
    machine: str


def answer(tables: Sequence[Table], learned: Sequence[AccuracyComparison] = ()) -> Answer:
    """Returns the answer of a comparison, from its tables of timed cells and of cells that train to their end."""
    timed, every_gain, grown = [], list[tuple[Group, Speedup]](), list[str]()
    cards = []
    for table in tables:
        group, each = table.group, table.findings
        if group.by == "framework":
            text = fastest.sentence(each.contests, _where(group)) + _absent(group)
            verdict = fastest.card(each.contests, fastest.CARD - len(_say_flags(group, short=True)))
            every_gain += [(group, gain) for gain in each.gains]
            grown.append(devices.sentence(table.scalings, f"the {workload(group)}"))
        elif group.by == "devices" and (words := devices.sentence(table.scalings, f"the {workload(group)}")):
            text, verdict = words, devices.card(table.scalings)
        else:
            text = along(group, each.gains, table.baseline)
            verdict = along_card(group, each.gains)
        if busy := _say_busy(group):
            text, verdict = f"{_where(group)}, {busy}", busy
        timed.append(text + _say_flags(group) + _doubt(table))
        doubted = [f"DO NOT TRUST (control differs): {verdict}", "DO NOT TRUST: the control differs"]
        cards.append(
            _card(group, *(doubted if _doubt(table) else [f"{verdict}{_say_flags(group, short=True)}", verdict]))
        )
    if tables and (most := max(_most(table.group) for table in tables)) < min(
        launches_needed(table.group.rows) for table in tables
    ):
        timed[0] = f"measured {times(most)} only, so nothing is tested: {timed[0]}"
    else:
        timed = [text + _say_untested(table) for text, table in zip(timed, tables, strict=True)]
    accuracies, shorter, speeds = [], [], []
    for accuracy in learned:
        each = accuracy.findings
        group = each.group
        accuracies.append(f"{_where(group)}, {training.accuracy(accuracy)}")
        few = "" if _most(group) >= LEAST else f"; speed is not tested with fewer than {number(LEAST)} seeds"
        speeds.append(fastest.sentence(each.contests, _where(group), "seed") + few + _say_flags(group))
        shorter.append(training_time(each.gains, training.same_as_fp32(accuracy)))
        short = training.short(accuracy)
        cards.append(_card(group, f"{short}; {fastest.card(each.contests, fastest.CARD - len(short) - 2)}", short))
    other_gains = [(group, gain) for group, gain in every_gain if gain.axis != "tuning"]
    sentences = _choose_sentences([*timed, *accuracies], [*grown, best_setting(other_gains), *shorter], speeds)
    sentences += [words] if (words := switches(every_gain)) else []
    groups = [*(table.group for table in tables), *(each.group for each in learned)]
    machines = [_machine(row) for group in groups for row in group.rows if row.ok and row.machines]
    words = "; ".join(dict.fromkeys(machines))
    return Answer(tuple(f"{capital(text)}." for text in sentences), tuple(cards), words)


def _where(group: Group) -> str:
    return f"on the {workload(group)}"


def _choose_sentences(first: Sequence[str], second: Sequence[str], third: Sequence[str]) -> list[str]:
    """Returns the sentences that are told: those of every table, then as many more as there is room for."""
    if len(first) > MOST:
        rest = len(first) - MOST + 1
        return [
            *first[: MOST - 1],
            f"{number(rest)} more {'table is' if rest == 1 else 'tables are'} not summarised here",
        ]
    told = [*first, *(text for text in second if text)][:MOST]
    return [*told, *third] if len(told) + len(third) <= MOST else told


def _card(group: Group, *verdicts: str) -> Card:
    """Returns the card with the first verdict that fits, or with the beginning of the last."""
    fitting = next((text for text in verdicts if len(text) <= fastest.CARD), "")
    verdict = fitting or f"{verdicts[-1][: fastest.CARD - 1]}…"
    return Card(group.workload, group.size, capital(workload(group)), verdict, _most(group))


def _most(group: Group) -> int:
    return max((len(row.launches) for row in group.rows), default=0)


def _say_untested(table: Table) -> str:
    """Returns why the fastest row was tested against no other, such as too few blocks; nothing if it was."""
    few, least = _most(table.group), launches_needed(table.group.rows)
    if few < least:
        return f"; nothing is tested with {count(few, 'launch')}"
    if reason := why_untested(*table.group.rows):
        return f"; not tested, since {reason}"
    untested = [each for each in table.findings.contests if each.is_untested and each.rivals]
    shared = [each.gap(each.top, name).blocks for each in untested for name in each.rivals]
    return f"; not tested, with {max(shared)} undisturbed blocks of {least}" if shared and max(shared) < least else ""


def _doubt(table: Table) -> str:
    """Returns a warning if the method failed its check: the same cell, measured twice, came out different."""
    if all(control.sound for control in table.controls):
        return ""
    return "; DO NOT TRUST THIS: a second copy of the same cell came out different (see the control under the table)"


def _say_flags(group: Group, short: bool = False) -> str:
    """Returns the flags that more than half of the launches have, with their number; empty without any."""
    launches = [flags_of(record) for row in group.rows for record in (*row.ok, *row.set_aside)]
    counts = Counter(flag for flags in launches for flag in flags)
    words = [(flag, n) for flag, n in sorted(counts.items()) if 2 * n > len(launches)]
    if short:
        return f" ({', '.join(f'{flag} {n}/{len(launches)}' for flag, n in words)})" if words else ""
    return "".join(f"; {n} of {len(launches)} launches are flagged {flag}" for flag, n in words)


def _say_busy(group: Group) -> str:
    """Returns that a run of the group names no winner, and why; empty if the machine was quiet enough."""
    reasons = [words for words in dict.fromkeys(row.busy for row in group.rows) if words]
    return f"the machine was too busy to answer: no winner is named ({'; '.join(reasons)})" if reasons else ""


def _absent(group: Group) -> str:
    """Returns which frameworks did not succeed in any setting, and how their launches ended."""
    well = {row.cell.framework for row in group.rows if row.ok}
    ended: dict[str, dict[str, None]] = {}
    for row in group.rows:
        if well and row.cell.framework not in well:
            ended.setdefault(row.cell.framework, {})[row.outcome] = None
    return "".join(f"; {framework(name)} has no result ({', '.join(words)})" for name, words in ended.items())


def _machine(row: Row) -> str:
    """Returns processor, cores and GPUs in words, of the first of several machines."""
    name = row.machines[0].replace("; ", ", ", 1)
    if not gpus(row.ok[0]):
        return f"{name}, no GPU"
    return f"{name} (not used)" if row.ok[0].settings.get("device") == "cpu" else name

"""The answer of a comparison: a few sentences, and a line for each of its tables that fits on a card.

Every sentence follows from the tests of the tables. Figures that were not tested are told as what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from suite.analysis.accuracy import Learned
from suite.analysis.contests import contests
from suite.analysis.control import doubtful
from suite.analysis.gains import Gain, gains, gains_along
from suite.analysis.groups import Group, gpus, processor
from suite.analysis.identity import verdicts
from suite.analysis.ratios import ratios
from suite.analysis.statistics import LEAST
from suite.record.record import Record
from suite.report import clauses, training
from suite.report.gains import along, along_card, best_setting, training_time
from suite.report.names import count, framework, number, times, workload
from suite.report.tables import Table

#: The most sentences of an answer.
MOST = 3


@dataclass(frozen=True)
class Card:
    """What one table shows, in a line of at most `clauses.CARD` characters.

    ``title`` names the workload in words. ``launches`` is the largest number of launches of a cell.
    """

    workload: str
    size: str
    title: str
    verdict: str
    launches: int


@dataclass(frozen=True)
class Answer:
    """At most `MOST` sentences, a card per table in the order of the tables, and the machine in words."""

    sentences: tuple[str, ...]
    cards: tuple[Card, ...]
    machine: str


def answer(tables: Sequence[Table], learned: Sequence[Learned] = ()) -> Answer:
    """Returns the answer of a comparison, from its tables of timed cells and of cells that train to their end."""
    timed, every_gain = [], list[tuple[Group, Gain]]()
    cards = []
    for table in tables:
        group = table.group
        if group.by == "framework":
            found = contests(group, table.baseline, table.identities, table.ratios, table.margin)
            text, verdict = clauses.sentence(found, _where(group)) + _absent(group), clauses.card(found)
            every_gain += [(group, gain) for gain in gains(group, table.identities, table.margin)]
        else:
            own = gains_along(group, table.base, table.ratios)
            text, verdict = f"{_where(group)}, {along(group, own, table.baseline)}", along_card(group, own)
        timed.append(text + _doubt(table))
        doubted = [f"DO NOT TRUST (control differs): {verdict}", "DO NOT TRUST: the control differs"]
        cards.append(_card(group, *(doubted if _doubt(table) else [verdict])))
    if tables and (most := max(_most(table.group) for table in tables)) < LEAST:
        timed[0] = f"measured {times(most)} only, so nothing is tested: {timed[0]}"
    else:
        timed = [text + _untested(table) for text, table in zip(timed, tables, strict=True)]
    accuracies, shorter, speeds = [], [], []
    for each in learned:
        group = replace(each.group, by="framework")
        accuracies.append(f"{_where(group)}, {training.accuracy(each)}")
        identities = verdicts({row.key: row.ok for row in group.rows})
        found = contests(group, each.baseline, identities, ratios(group, each.baseline, identities))
        few = "" if _most(group) >= LEAST else f"; speed is not tested with fewer than {number(LEAST)} seeds"
        speeds.append(clauses.sentence(found, _where(group), "seed") + few)
        shorter.append(training_time(gains(group, identities), training.same_as_fp32(each)))
        cards.append(_card(group, f"{training.short(each)}; {clauses.card(found)}", training.short(each)))
    sentences = _chosen([*timed, *accuracies], [best_setting(every_gain), *shorter], speeds)
    groups = [*(table.group for table in tables), *(each.group for each in learned)]
    machines = [_machine(record) for group in groups for row in group.rows for record in row.ok[:1]]
    words = "; ".join(dict.fromkeys(name for name in machines if name))
    return Answer(tuple(f"{capital(text)}." for text in sentences), tuple(cards), words)


def capital(text: str) -> str:
    """Returns the text with a capital at its start, unless its first word is a name such as ``bf16``."""
    first = text.partition(" ")[0]
    return text if any(letter.isdigit() for letter in first) else text[:1].upper() + text[1:]


def _where(group: Group) -> str:
    return f"on the {workload(group)}"


def _chosen(first: Sequence[str], second: Sequence[str], third: Sequence[str]) -> list[str]:
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
    fitting = next((text for text in verdicts if len(text) <= clauses.CARD), "")
    verdict = fitting or f"{verdicts[-1][: clauses.CARD - 1]}…"
    return Card(group.workload, group.size, capital(workload(group)), verdict, _most(group))


def _most(group: Group) -> int:
    return max((len(row.launches) for row in group.rows), default=0)


def _untested(table: Table) -> str:
    few = _most(table.group)
    return f"; nothing is tested with {count(few, 'launch')}" if few < LEAST else ""


def _doubt(table: Table) -> str:
    """Returns a warning if the method failed its check: the same cell, measured twice, came out different."""
    if not doubtful(table.controls):
        return ""
    return "; DO NOT TRUST THIS: a second copy of the same cell came out different (see the control under the table)"


def _absent(group: Group) -> str:
    """Returns which frameworks did not succeed in any setting, and how their launches ended."""
    well = {row.cell.framework for row in group.rows if row.ok}
    ended: dict[str, dict[str, None]] = {}
    for row in group.rows:
        if well and row.cell.framework not in well:
            ended.setdefault(row.cell.framework, {})[row.outcome] = None
    return "".join(f"; {framework(name)} has no result ({', '.join(words)})" for name, words in ended.items())


def _machine(record: Record) -> str:
    """Returns processor, cores and GPUs in words; empty if the record does not say."""
    name, devices = processor(record), gpus(record)
    if not name:
        return ""
    on_cpu = record.settings.get("device") == "cpu"
    return f"{name}, {f'{devices} (not used)' if on_cpu else devices}" if devices else f"{name}, no GPU"

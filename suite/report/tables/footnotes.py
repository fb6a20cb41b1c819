"""Notes below a table: what it could have shown and how many launches would decide the rest, by its own scatter; and
what is known of its rows: releases that compute wrongly, and settings that no tuning has today.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from suite.analysis.rows.blocks import UNSOUND_RELEASE, release_of, unsound
from suite.analysis.rows.conditions import tuning
from suite.analysis.rows.groups import Group
from suite.analysis.rows.wording import listing
from suite.analysis.statistics.inference import BLOCKS_MOST, INCONCLUSIVE
from suite.analysis.statistics.power import DIFFERENCE, LAUNCHES_MOST, POWER
from suite.analysis.statistics.sequential import is_sequential
from suite.catalog.frameworks import FRAMEWORKS
from suite.plan.measuring import LAST_LOOK
from suite.plan.settings.tunings import ALLOCATOR, OTHER
from suite.record.text import clean
from suite.report.format.names import count, workload
from suite.report.format.text import capital
from suite.report.tables.frame import Table

ESTIMATED = "if they scatter as these do (an estimate)"


def undecided(table: Table) -> list[str]:
    """Returns a note for each row that is undecided."""
    return [f"Undecided: {row}. {capital(words)} it, {ESTIMATED}." for row, words in _rows(table)]


def summary(tables: Sequence[Table]) -> list[str]:
    """Returns the same of several tables in a line, by the number of launches; none if all is decided."""
    by_words: dict[str, list[str]] = {}
    for each in tables:
        for row, words in _rows(each):
            by_words.setdefault(words, []).append(f"{workload(each.group)} {row}")
    ordered = sorted(by_words, key=lambda words: ("not" in words, int(re.findall(r"\d+", words)[0])))
    parts = [f"{words} {count(len(by_words[words]), 'row') if 'not' in words else listing(by_words[words])}"
             for words in ordered]  # fmt: skip
    return [f"{capital('; '.join(parts))}, {ESTIMATED}"] if parts else []


def detectable(table: Table) -> list[str]:
    """Describes the smallest difference that the run could detect, and how many launches 5 % needs."""
    power, figures = table.power, []
    if not power.noise:
        return []
    if power.smallest:
        ends = " to ".join("more" if end is None else f"{end:.1%}" for end in power.smallest_range)
        figures.append(f"{power.blocks} launches detect a difference of {power.smallest:.1%} ({ends})")
    if table.margin < DIFFERENCE:
        needed, *ends_needed = (
            str(each or f"more than {LAUNCHES_MOST}") for each in (power.launches, *power.launches_range)
        )
        figures.append(f"a difference of {DIFFERENCE:.0%} needs {needed} launches ({' to '.join(ends_needed)})")
    low, high = power.noise.interval
    source = "this table and its A/A control" if power.noise.of_control else "this table"
    scatter = f"{power.noise.deviation:.1%} ({low:.1%} to {high:.1%}), from {source}"
    words = f"Power of {POWER:.0%}: {'; '.join(figures)}. A block's ratio has a standard deviation of {scatter}."
    return [words] if figures else []


def _rows(table: Table) -> Iterator[tuple[str, str]]:
    for row in table.group.rows:
        if (ratio := table.ratios[row.key]).verdict == INCONCLUSIVE:
            most = LAST_LOOK if is_sequential([row]) else BLOCKS_MOST
            needed = ratio.blocks_to_decide
            words = f"about {needed} launches in all would decide" if needed else f"{most} launches would not decide"
            yield table.group.label(row), words


def known(group: Group) -> list[str]:
    """Returns all notes on the rows."""
    return [*_releases(group), *tunings(group)]


def tunings(group: Group) -> list[str]:
    """Says with what launches started whose tuning is none of those that can be chosen; empty without any."""
    rows = [row for row in group.rows if not row.cell.is_of_script]  # whose variables are its own affair
    records = [record for row in rows for record in row.ok if tuning(record) == OTHER]
    started = ([*map("=".join, _allocator(record.environment["variables"]))] for record in records)
    kinds = dict.fromkeys(clean(" ".join(words) or "no variable of the allocator", 200) for words in started)
    return [f"Tuning {OTHER}: these launches started with {words}, as none of today's tunings does." for words in kinds]


def _allocator(variables: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted((name, str(value)) for name, value in variables.items() if name.startswith(ALLOCATOR))


def _releases(group: Group) -> list[str]:
    """Returns what is known to be wrong with the releases of the rows, a line for each release."""
    wrong: dict[str, list[str]] = {}
    for record in (record for row in group.rows for record in row.ok):
        if defects := unsound(record):
            name = f"{FRAMEWORKS[record.cell.framework].title} {release_of(record)}"
            wrong[name] = [f"{each.happens} ({each.sources[0]})" for each in defects]
    return [
        f"{UNSOUND_RELEASE}: of some programs it is known that {name} {listing(words)}. Rows with the identity `same` "
        "computed what the others did."
        for name, words in wrong.items()
    ]

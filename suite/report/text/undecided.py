"""What a table could have shown, and how many launches would decide what is undecided: by the scatter of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from suite.analysis.rows.wording import listing
from suite.analysis.statistics.inference import BLOCKS_MOST, INCONCLUSIVE
from suite.analysis.statistics.power import DIFFERENCE, LAUNCHES_MOST, POWER
from suite.analysis.statistics.sequential import is_sequential
from suite.plan.measuring import LAST_LOOK
from suite.report.format.names import count, workload
from suite.report.format.text import capital
from suite.report.tables.frame import Table

ESTIMATED = "if they scatter as these do (an estimate)"


def lines(table: Table) -> list[str]:
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
            words = f"about {needed} launches would decide" if needed else f"{most} launches would not decide"
            yield table.group.label(row), words

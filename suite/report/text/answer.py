"""The answer of a comparison: a line per workload and setting, all that was found in sentences, and a card per table.

Every line follows from the tests that all outputs show (`suite.analysis.statistics.multiple_testing`). Accuracies are
tested in their own tables. What was not tested is told as it was measured.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

from suite.analysis.records.machines import gpus
from suite.analysis.rows.blocks import why_untested
from suite.analysis.rows.groups import SETTINGS, Group, Row
from suite.analysis.rows.wording import figure
from suite.analysis.statistics.accuracy import AccuracyComparison
from suite.analysis.statistics.fastest import FastestBySetting
from suite.analysis.statistics.inference import BLOCKS_LEAST
from suite.analysis.statistics.sequential import launches_needed
from suite.report.format.names import count, counts, framework, name_value, workload
from suite.report.format.text import capital, spread
from suite.report.tables.frame import Table
from suite.report.text import changes, fastest, served, started

#: The most words of the lines that are shown before a reader asks for more; figures are not counted.
WORDS_MOST = 60
WORD = re.compile(r"(?<![^\s(])[^\W\d]+[^\s\d]*(?=\s|$)")
INTERVALS = "In parentheses: 95 % intervals, those of ratios corrected for all comparisons of a run"
DOUBTED = "DO NOT TRUST (a second copy of a cell came out different)"
RANGES = "; where not tested, the lowest to the highest"


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
    """``lines`` name what was decided in each setting; ``sentences`` say it with all ratios, and what settings change.

    A card per table is in the order of the tables, and the machine in words.
    """

    lines: tuple[str, ...]
    sentences: tuple[str, ...]
    cards: tuple[Card, ...]
    machine: str

    @property
    def first(self) -> tuple[str, ...]:
        """The lines that a reader sees at once: as many as have `WORDS_MOST` words, and at least one."""
        words = [len(WORD.findall(line)) for line in self.lines]
        fitting = [at for at in range(2, len(words) + 1) if sum(words[:at]) <= WORDS_MOST]
        return self.lines[: max(fitting, default=1)]


@dataclass(frozen=True)
class _Told:
    """What one table says: its lines and sentences, its card, and ``further`` sentences below those of all tables."""

    lines: Sequence[str]
    sentences: Sequence[str]
    card: Card
    further: Sequence[str] = ()


def answer(tables: Sequence[Table], learned: Sequence[AccuracyComparison] = ()) -> Answer:
    """Returns the answer of a comparison, from its tables of timed cells and of cells that train to their end."""
    measured = {row.cell.framework for each in tables for row in each.group.rows}
    made = [*(_timed(each, measured) for each in tables), *map(_trained, learned)]
    gains = [(workload(each.group), gain) for each in tables if _is_of_frameworks(each) for gain in each.findings.gains]
    sentences = [
        *(line for each in made for line in each.sentences),
        *(line for each in made for line in each.further),
        *changes.largest([each for each in gains if each[1].axis != "tuning"]),
        *changes.switches(gains),
        *_explain_bounds(tables, learned, not all(gain.ratio.verdict for _, gain in gains)),
    ]
    groups = [*(each.group for each in tables), *(each.group for each in learned)]
    rows = [row for group in groups for row in group.rows if row.ok and row.machines]
    return Answer(
        tuple(capital(line) for each in made for line in each.lines),
        tuple(map(capital, sentences)),
        tuple(each.card for each in made),
        "; ".join(dict.fromkeys(map(_machine, rows))),
    )


def _explain_bounds(tables: Sequence[Table], learned: Sequence[AccuracyComparison], untested: bool) -> list[str]:
    findings = [*(each.findings for each in tables), *(each.findings for each in learned)]
    contests = [contest for each in findings for contest in each.contests]
    if not any(each.tested for each in tables) and all(each.is_untested for each in contests):
        return []
    return [INTERVALS + RANGES * (untested or any(each.untested for each in contests))]


def _is_of_frameworks(table: Table) -> bool:
    return table.group.by == "framework"


def _timed(table: Table, measured: Set[str]) -> _Told:
    group, each, where = table.group, table.findings, workload(table.group)
    flags, n = _count_flags(group)
    note = f" ({', '.join(f'{flag} {of}/{n}' for flag, of in flags)})" * bool(flags)
    further: list[str] = []
    alone = group.is_of_script and len(group.rows) == 1 and table.cells[0].launches_ok
    if alone:
        verdict = _say_alone(table)
        lines, sentences = [f"{where}: {verdict}"], [f"{where}: {verdict}"]
    elif _is_of_frameworks(table):
        lines, sentences = _say_fastest(each.contests, where)
        own = [*served.saves(table, where), *started.lines(table, where)]
        answers = served.lines(table, where)
        of_training = _say_fastest(each.contests, f"{where}, training")[0] if answers else lines
        lines = [*own, *answers, *of_training]
        absent, verdict = _say_absent(group, measured), fastest.card(each.contests, fastest.CARD - len(note))
        lines[-1], sentences[-1] = lines[-1] + absent, sentences[-1] + absent
        further = [
            *changes.devices(where, table.scalings),
            *served.saves(table, where),
            *started.lines(table, where),
            *served.sentences(table, where),
        ]
    elif group.by == "devices" and (sentences := changes.devices(where, table.scalings)):
        lines, verdict = [*sentences], changes.devices_card(table.scalings)
    else:
        lines, sentences = changes.axis_sentence(where, group.by, each.gains)
        if group.by == "cache":
            lines, sentences = [*started.lines(table, where), *lines], [*started.lines(table, where), *sentences]
        verdict = changes.axis_card(group.by, each.gains)
    further += started.compiled(table, where)
    if reasons := [words for words in dict.fromkeys(row.busy for row in group.rows) if words]:
        verdict = f"the machine was too busy to answer: no winner is named ({'; '.join(reasons)})"
        lines, sentences = [f"{where}: {verdict}"], [f"{where}: {verdict}"]
    sentences[-1] += "".join(f"; {of} of {n} launches are flagged {flag}" for flag, of in flags)
    sentences[-1] += "" if alone else _say_untested(table)
    lines, verdicts = [line + note for line in lines], [verdict + note, verdict]
    if not all(control.sound for control in table.controls):
        lines, sentences = ([f"{DOUBTED}: {line}" for line in each] for each in (lines, sentences))
        verdicts = [f"DO NOT TRUST (control differs): {verdict}", "DO NOT TRUST: the control differs"]
    return _Told(lines, sentences, _card(group, *verdicts), further)


def _say_alone(table: Table) -> str:
    """Returns the throughput of the only row there is."""
    rate, step = table.cells[0].samples_per_s, table.cells[0].step_ms.median
    return f"{spread(rate.median, rate.low, rate.high)} {table.group.unit}/s, a step in {figure(step)} ms"


def _say_fastest(contests: Sequence[FastestBySetting], where: str, unit: str = "launch") -> tuple[list[str], list[str]]:
    """Returns a line for each setting, and a sentence."""
    if not contests:
        words = f"{where}: no launch gave a result that can be ranked"
        return [words], [words]
    shown = [each for each in contests if each.rivals] or contests[:1]
    shared = set.intersection(*({*contest.settings} for contest in shown))
    names = [[name_value(*pair) for pair in each.settings if pair not in shared] for each in shown]
    places = [", ".join([where, *of]) for of in names]
    lines = [fastest.short(*each) for each in zip(shown, places, strict=True)]
    sentences = [fastest.line(*each, unit) for each in zip(shown, places, strict=True)]
    unranked = {framework(name): why for each in contests for name, why in each.unranked.items()}
    lines[-1] += "".join(f"; {name} is not ranked" for name in unranked)
    sentences[-1] += "".join(f"; {name} is not ranked: {why}" for name, why in unranked.items())
    return lines, sentences


def _say_untested(table: Table) -> str:
    few, least = _count_launches(table.group), launches_needed(table.group.rows)
    if few < least:
        return f"; a test needs {least} launches"
    if reason := why_untested(*table.group.rows):
        return f"; not tested, since {reason}"
    untested = [each for each in table.findings.contests if each.is_untested and each.rivals]
    shared = [each.gap(each.top, name).blocks for each in untested for name in each.rivals]
    return f"; not tested, with {max(shared)} undisturbed blocks of {least}" if shared and max(shared) < least else ""


def _say_absent(group: Group, measured: Set[str]) -> str:
    """Names the frameworks of the comparison that have no result here: they failed, or were not launched."""
    well = {row.cell.framework for row in group.rows if row.ok}
    unlaunched = sorted(measured - {row.cell.framework for row in group.rows}) if well else []
    ended: dict[str, dict[str, None]] = {name: {"not launched": None} for name in unlaunched}
    for row in group.rows:
        if well and row.cell.framework not in well:
            ended.setdefault(row.cell.framework, {})[row.outcome] = None
    return "".join(f"; {framework(name)} has no result ({', '.join(words)})" for name, words in ended.items())


def _count_flags(group: Group) -> tuple[list[tuple[str, int]], int]:
    """Returns the flags that more than half of the launches have, with their number, and the number of launches."""
    launches = [
        flags
        for row in group.rows
        for launch, flags in zip(row.launches, row.flags_of_launches, strict=True)
        if launch.record.outcome.ok
    ]
    flags = Counter(flag for each in launches for flag in each)
    return [(flag, n) for flag, n in sorted(flags.items()) if 2 * n > len(launches)], len(launches)


def _trained(table: AccuracyComparison) -> _Told:
    each, where = table.findings, workload(table.group)
    rows = [row for row in table.rows if row["accuracy"] is not None]
    flags, n = _count_flags(table.group)
    lines, speeds = _say_fastest(each.contests, where, "seed")
    speeds[-1] += "" if _count_launches(table.group) >= BLOCKS_LEAST else f"; a test needs {BLOCKS_LEAST} seeds"
    speeds[-1] += "".join(f"; {of} of {n} launches are flagged {flag}" for flag, of in flags)
    columns = zip(table.group.rows, table.rows, strict=True)
    same = {row.key for row, each in columns if each["fp32_verdict"] == "same"}
    times = changes.training_time(where, each.gains, same)
    along = [] if table.group.by == "framework" else times  # what a reader who names a setting asks for
    short = f"{_accuracy_card(rows, table.baseline)}{_say_left_out(rows, table.baseline)}"
    contests = fastest.card(each.contests, fastest.CARD - len(short) - 2)
    card = _card(table.group, f"{short}; {contests}", short)
    return _Told(
        [*along, f"{where}: {short}", *lines],
        [_say_accuracy(table, rows, where)],
        card,
        [*times, *speeds],
    )


def _say_accuracy(table: AccuracyComparison, rows: Sequence[dict[str, Any]], where: str) -> str:
    """Returns the accuracy of each cell, with its difference to the baseline and what the test says of it."""
    if not rows:
        return f"{where}: no training ended well"
    untested = "" if any(row["verdict"] for row in rows) else ", not tested"
    settings = [name for name in table.group.varying if name not in ("framework", "compile")]
    parts = []
    for of, row in zip(table.group.rows, table.rows, strict=True):
        if row["accuracy"] is not None:
            name = " ".join([framework(row["framework"]), *(name_value(each, SETTINGS[each](of)) for each in settings)])
            alone = not untested and not row["verdict"] and row["framework"] != table.baseline
            difference = " (not tested)" if alone else _say_difference(row)
            parts.append(f"{name} {_write_accuracy(row['accuracy'])}{difference}")
    epochs = count(int(max(row["epochs"] for row in rows)), "epoch")
    seeds = counts((int(row["seeds_ok"]) for row in rows), "seed")
    base = f"; differences are to {framework(table.baseline)}, in points" if not untested else ""
    return f"{where}, test accuracy after {epochs} ({seeds}{untested}): {', '.join(parts)}{base}"


def _say_difference(row: dict[str, Any]) -> str:
    if not row["verdict"]:
        return ""
    value, low, high = (100 * row[f"difference_{end}"] for end in ("value", "low", "high"))
    return f" ({value:+.2f}, {low:+.2f} to {high:+.2f}, {row['verdict']})"


def _accuracy_card(rows: Sequence[dict[str, Any]], baseline: str) -> str:
    if not rows:
        return "no training ended well"
    kinds = {row["verdict"] for row in rows} - {""}
    compared = [row for row in rows if row["verdict"] or row["framework"] == baseline] if kinds else rows
    values = [row["accuracy"] for row in compared]
    words = f"accuracy {' to '.join(dict.fromkeys(map(_write_accuracy, (min(values), max(values)))))}"
    if not kinds:
        return f"{words} (n = {min(int(row['seeds_ok']) for row in rows)}, not tested)"
    differ = "which differs" if kinds & {"higher", "lower"} else "the same" if kinds == {"same"} else "not decided"
    return f"{words}, {differ}"


def _say_left_out(rows: Sequence[dict[str, Any]], baseline: str) -> str:
    """Says how many accuracies are in no test, where others are."""
    left = [row for row in rows if not row["verdict"] and row["framework"] != baseline]
    return f"; {len(left)} more not tested" * bool(left and any(row["verdict"] for row in rows))


def _write_accuracy(value: float) -> str:
    return f"{value:.3f}".lstrip("0")


def _card(group: Group, *verdicts: str) -> Card:
    """Returns the card with the first verdict that fits, or with the beginning of the last."""
    fitting = next((text for text in verdicts if len(text) <= fastest.CARD), "")
    verdict = fitting or f"{verdicts[-1][: fastest.CARD - 1]}…"
    return Card(group.workload, group.size, capital(workload(group)), verdict, _count_launches(group))


def _count_launches(group: Group) -> int:
    return max((len(row.launches) for row in group.rows), default=0)


def _machine(row: Row) -> str:
    name = row.machines[0].replace("; ", ", ", 1)
    if not gpus(row.ok[0]):
        return f"{name}, no GPU"
    return f"{name} (not used)" if row.ok[0].settings.get("device") == "cpu" else name

"""The answer of a comparison: a few lines, and a shorter one for each of its tables that fits on a card.

Every line follows from the tests that all outputs show (`suite.analysis.statistics.multiple_testing`). Accuracies are
tested in their own tables. What was not tested is told as it was measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from suite.analysis.records.machines import gpus
from suite.analysis.rows.blocks import flags_of, why_untested
from suite.analysis.rows.groups import SETTINGS, Group, Row
from suite.analysis.statistics.accuracy import AccuracyComparison
from suite.analysis.statistics.fastest import FastestBySetting
from suite.analysis.statistics.inference import LEAST
from suite.analysis.statistics.sequential import launches_needed
from suite.report.format.names import count, counts, framework, name_value, workload
from suite.report.format.text import capital
from suite.report.tables.frame import Table
from suite.report.text import changes, fastest

#: The most lines of an answer, and the most settings of a table that have a line each.
LINES_MOST, SETTINGS_MOST = 7, 2
INTERVALS = "In parentheses: 95 % intervals, those of ratios corrected for all comparisons of a run"
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
    """At most `LINES_MOST` lines, a card per table in the order of the tables, and the machine in words.

    Where allocator and denormal settings were measured, more lines are about them.
    """

    sentences: tuple[str, ...]
    cards: tuple[Card, ...]
    machine: str


def answer(tables: Sequence[Table], learned: Sequence[AccuracyComparison] = ()) -> Answer:
    """Returns the answer of a comparison, from its tables of timed cells and of cells that train to their end."""
    made = [*map(_timed, tables), *map(_trained, learned)]
    gains = [(workload(each.group), gain) for each in tables if _is_of_frameworks(each) for gain in each.findings.gains]
    parts = [
        *(first for first, _, _ in made),
        *([line] for _, further, _ in made for line in further),
        *([line] for line in changes.largest([each for each in gains if each[1].axis != "tuning"])),
    ]
    findings = [*(each.findings for each in tables), *(each.findings for each in learned)]
    contests = [contest for each in findings for contest in each.contests]
    tested = any(each.tested for each in tables) or not all(each.is_untested for each in contests)
    some = any(each.untested for each in contests) or not all(gain.ratio.verdict for _, gain in gains)
    bounds = INTERVALS + RANGES * some
    lines = [*_choose(parts, LINES_MOST - tested), *changes.switches(gains)]
    groups = [*(each.group for each in tables), *(each.group for each in learned)]
    rows = [row for group in groups for row in group.rows if row.ok and row.machines]
    return Answer(
        tuple(map(capital, [*lines, *[bounds] * tested])),
        tuple(card for _, _, card in made),
        "; ".join(dict.fromkeys(map(_machine, rows))),
    )


def _choose(parts: Sequence[Sequence[str]], most: int) -> list[str]:
    """Returns the lines of as many parts as fit, each of them whole, since its last line has its flags."""
    if sum(map(len, parts)) <= most:
        return [line for part in parts for line in part]
    lines: list[str] = []
    for at, part in enumerate(parts):
        if len(lines) + len(part) >= most:
            left = sum(map(len, parts[at:]))
            return [*lines, f"{left} more lines are left out: see the tables"]
        lines += part
    return lines


def _is_of_frameworks(table: Table) -> bool:
    return table.group.by == "framework"


def _timed(table: Table) -> tuple[list[str], list[str], Card]:
    """Returns the lines of a table, those that are told if there is room, and its card."""
    group, each, where = table.group, table.findings, workload(table.group)
    flags, n = _count_flags(group)
    note = f" ({', '.join(f'{flag} {of}/{n}' for flag, of in flags)})" * bool(flags)
    further: list[str] = []
    if _is_of_frameworks(table):
        lines, verdict = _say_fastest(each.contests, where), fastest.card(each.contests, fastest.CARD - len(note))
        lines[-1] += _say_absent(group)
        further = changes.devices(where, table.scalings)
    elif group.by == "devices" and (lines := changes.devices(where, table.scalings)):
        verdict = changes.devices_card(table.scalings)
    else:
        lines, verdict = changes.along(where, group.by, each.gains), changes.along_card(group.by, each.gains)
    if reasons := [words for words in dict.fromkeys(row.busy for row in group.rows) if words]:
        verdict = f"the machine was too busy to answer: no winner is named ({'; '.join(reasons)})"
        lines = [f"{where}: {verdict}"]
    lines[-1] += "".join(f"; {of} of {n} launches are flagged {flag}" for flag, of in flags) + _say_untested(table)
    verdicts = [verdict + note, verdict]
    if not all(control.sound for control in table.controls):
        lines = [f"DO NOT TRUST (a second copy of a cell came out different): {line}" for line in lines]
        verdicts = [f"DO NOT TRUST (control differs): {verdict}", "DO NOT TRUST: the control differs"]
    return lines, further, _card(group, *verdicts)


def _say_fastest(contests: Sequence[FastestBySetting], where: str, unit: str = "launch") -> list[str]:
    """Returns a line for each setting, or of many settings one that counts them."""
    if not contests:
        return [f"{where}: no launch gave a result that can be ranked"]
    shown = [each for each in contests if each.rivals] or contests[:1]
    shared = set.intersection(*({*contest.settings} for contest in shown))
    if len(shown) > SETTINGS_MOST:
        ratios = [contest.gap(contest.top, name) for contest in shown for name in contest.rivals]
        start = fastest.label(f"{where}, {len(shown)} settings", ratios, unit)
        lines = [f"{start}: {fastest.card(contests, 200)}"]
    else:
        names = [[name_value(*pair) for pair in each.settings if pair not in shared] for each in shown]
        lines = [fastest.line(each, ", ".join([where, *of]), unit) for each, of in zip(shown, names, strict=True)]
    unranked = {framework(name): why for each in contests for name, why in each.unranked.items()}
    lines[-1] += "".join(f"; {name} is not ranked: {why}" for name, why in unranked.items())
    return lines


def _say_untested(table: Table) -> str:
    few, least = _count_launches(table.group), launches_needed(table.group.rows)
    if few < least:
        return f"; a test needs {least} launches"
    if reason := why_untested(*table.group.rows):
        return f"; not tested, since {reason}"
    untested = [each for each in table.findings.contests if each.is_untested and each.rivals]
    shared = [each.gap(each.top, name).blocks for each in untested for name in each.rivals]
    return f"; not tested, with {max(shared)} undisturbed blocks of {least}" if shared and max(shared) < least else ""


def _say_absent(group: Group) -> str:
    well = {row.cell.framework for row in group.rows if row.ok}
    ended: dict[str, dict[str, None]] = {}
    for row in group.rows:
        if well and row.cell.framework not in well:
            ended.setdefault(row.cell.framework, {})[row.outcome] = None
    return "".join(f"; {framework(name)} has no result ({', '.join(words)})" for name, words in ended.items())


def _count_flags(group: Group) -> tuple[list[tuple[str, int]], int]:
    """Returns the flags that more than half of the launches have, with their number, and the number of launches."""
    launches = [flags_of(record) for row in group.rows for record in (*row.ok, *row.set_aside)]
    flags = Counter(flag for each in launches for flag in each)
    return [(flag, n) for flag, n in sorted(flags.items()) if 2 * n > len(launches)], len(launches)


def _trained(table: AccuracyComparison) -> tuple[list[str], list[str], Card]:
    each, where = table.findings, workload(table.group)
    rows = [row for row in table.rows if row["accuracy"] is not None]
    flags, n = _count_flags(table.group)
    speeds = _say_fastest(each.contests, where, "seed")
    speeds[-1] += "" if _count_launches(table.group) >= LEAST else f"; a test needs {LEAST} seeds"
    speeds[-1] += "".join(f"; {of} of {n} launches are flagged {flag}" for flag, of in flags)
    columns = zip(table.group.rows, table.rows, strict=True)
    same = {row.key for row, each in columns if each["fp32_verdict"] == "same"}
    further = [*changes.training_time(where, each.gains, same), *speeds]
    short = _accuracy_card(rows, table.baseline)
    contests = fastest.card(each.contests, fastest.CARD - len(short) - 2)
    return [_say_accuracy(table, rows, where)], further, _card(table.group, f"{short}; {contests}", short)


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

"""The words on a plot: names of frameworks and workloads, title, subtitle, labels of rows, and notes below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from suite.analysis.identity.comparability import UNSOUND
from suite.analysis.rows.groups import DEFAULTS, ON_DEMAND, SETTINGS, WORDS, Group, Row, RowKey
from suite.analysis.rows.wording import fill, listing, middle
from suite.plan.cell import USUAL_COMPILE
from suite.record.text import clean
from suite.report.format.names import FRAMEWORKS, SETTING_NAMES, WORKLOADS, count, strategy
from suite.report.tables.frame import Table

#: How the value of a setting is written.
VALUES = {**WORDS, "machine": "{}"}

#: Characters that the font has besides those of Latin alphabets.
SIGNS = "\u2013\u2014\u2026"

#: Marks a label on which the table has notes. A star would mean the best value, as in the table.
NOTED = " !"
NOTED_WORDS = "! marks failed launches, flagged launches and fingerprints that differ: the table has the details."


def explain_noted(labels: Iterable[str]) -> str:
    """Returns what `NOTED` means; nothing if no label has it."""
    return NOTED_WORDS if any(label.endswith(NOTED) for label in labels) else ""


def plain(text: str, limit: int) -> str:
    """Returns text that the font can draw; a missing character would cause a warning and an empty box."""
    return "".join(c if c in SIGNS or c.isascii() or "\u00a0" < c < "\u0180" else "?" for c in clean(text, limit))


def workload_name(group: Group) -> str:
    """Returns the workload in words; one that is not the suite's own keeps its name."""
    name = WORKLOADS.get(group.workload)
    return f"the {name}" if name else plain(group.workload, 40)


def workload_short(group: Group) -> str:
    """Returns the same without the article."""
    return workload_name(group).removeprefix("the ")


def title_of(group: Group, subject: str, without: Sequence[str] = (), of: str = "of") -> str:
    """Returns a title such as ``Training throughput of the CIFAR-100 CNN, by framework and batch size``.

    ``without`` are settings in which the cells differ and which the title need not name. ``of`` joins the subject and
    the workload.
    """
    names = ["framework"] if len({row.cell.framework for row in group.rows}) > 1 else []
    names += [SETTING_NAMES.get(name, name) for name in varying(group) if name not in without]
    by = f", by {listing(names)}" if names else ""
    return f"{subject} {of} {workload_name(group)}{by}"


def subtitle_of(group: Group, per: str) -> list[str]:
    """Returns two lines: the settings that all rows share, and the machine with n, the launches ``per`` what, and date.

    Data that is not real is named in capitals.
    """
    shared = [name for name in SETTINGS if name not in (*ON_DEMAND, "run", *group.varying)]
    values = {name: SETTINGS[name](group.rows[0]) for name in shared}
    words = [fill(VALUES[name], text) for name, text in values.items() if text != DEFAULTS.get(name)]
    if _is_settled(group):
        words.append(_modes(group.rows))
    counts = sorted({len(row.ok) for row in group.rows if row.ok}) or [0]
    n = str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    machines = list(dict.fromkeys(row.machine for row in group.rows if row.machine)) or ["machine not recorded"]
    first = [f"{group.size} size", group.data_words, *words]
    last = [*machines, f"n = {n} launch{'' if n == '1' else 'es'} per {per}", dates(group.rows)]
    return [plain(" · ".join(part for part in parts if part), 300) for parts in (first, last)]


def runs_of(group: Group) -> str:
    """Returns which run the rows are of; empty if the labels say it."""
    names = dict.fromkeys(row.run for row in group.rows)
    return f"Run {next(iter(names))}." if len(names) == 1 else ""


def varying(group: Group) -> list[str]:
    """Returns the settings in which rows of one framework differ.

    The compile mode often differs between frameworks only: each has its usual one, which the subtitle names. So does
    the strategy of several devices.
    """
    settled = {"compile": _is_settled(group), "strategy": group.settled}
    return [name for name in group.varying if not settled.get(name)]


def among(table: Table, rows: Sequence[Row]) -> Group:
    """Returns the table's group with these rows only, so that what they share is said once."""
    return replace(table.group, rows=tuple(rows))


def labels_of(table: Table, rows: Sequence[Row], without: Sequence[str] = ()) -> list[str]:
    """Returns the labels of the rows, without the settings ``without``; with `NOTED` if the table has notes on them."""
    group, noted = among(table, rows), with_notes(table)
    names = [name for name in varying(group) if name not in without]
    return [name_of(row, names) + (NOTED if row.key in noted else "") for row in rows]


def names_of_sets(table: Table, sets: Sequence[Sequence[Row]], without: Sequence[str]) -> list[str]:
    """Returns the labels of sets of rows; with `NOTED` if the table has notes on a row of the set."""
    rows = [row for each in sets for row in each]
    named = dict(zip([row.key for row in rows], labels_of(table, rows, without), strict=True))
    names = [[named[row.key] for row in each] for each in sets]
    return [next((name for name in each if name.endswith(NOTED)), each[0]) for each in names]


def values_of(row: Row, settings: Iterable[str]) -> str:
    """Returns the values of these settings of a row, such as ``fp32 · batch 32``."""
    return " · ".join(filter(None, (_value(row, name) for name in settings)))


def _value(row: Row, name: str) -> str:
    text = plain(middle(SETTINGS[name](row)), 70)
    if name == "devices":
        return count(row.cell.devices, "device")
    return strategy(text) if name == "strategy" else fill(VALUES[name], text)


def with_notes(table: Table) -> set[RowKey]:
    """Returns the rows with failed launches, flags, a fingerprint that differs, or an unaccounted launch."""
    kinds = zip(table.group.rows, table.frame["identity_kind"], strict=True)
    return {row.key for row, kind in kinds if kind in UNSOUND or (row.ok and (row.outcome != "ok" or row.flags))}


def find_unsupported(rows: Iterable[Row]) -> list[Row]:
    """Returns the rows that have no launch but unsupported ones. A plot names them in a note."""
    return [row for row in rows if row.outcome == "unsupported"]


def note_unsupported(table: Table) -> list[str]:
    """Returns a sentence that names the unsupported settings and their frameworks, if there are any.

    A setting is named alone if the framework has no other row with it, else the whole cell is.
    """
    missing = find_unsupported(table.group.rows)
    by_words: dict[str, list[str]] = {}
    for row in missing:
        by_words.setdefault(_lacking(row, table.group), []).append(row.cell.framework)
    by_frameworks: dict[tuple[str, ...], list[str]] = {}
    for lacking, frameworks in by_words.items():
        by_frameworks.setdefault(tuple(dict.fromkeys(frameworks)), []).append(lacking)
    everyone = {row.cell.framework for row in table.group.rows}
    parts = []
    for names, words in by_frameworks.items():
        everywhere = len(names) > 1 and set(names) == everyone
        whose = "all frameworks" if everywhere else listing([FRAMEWORKS[name] for name in names])
        parts.append(f"{listing(words)} ({whose})")
    return [f"Not supported here, so not drawn: {'; '.join(parts)}."] if parts else []


def _lacking(row: Row, group: Group) -> str:
    """Returns the values that no supported row of the framework has; all varying ones if each has been seen."""
    others = [
        each
        for each in group.rows
        if each.cell.framework == row.cell.framework and each not in find_unsupported([each])
    ]
    differing = varying(group)
    alone = [name for name in differing if SETTINGS[name](row) not in {SETTINGS[name](each) for each in others}]
    return values_of(row, alone or differing)


def name_of(row: Row, settings: Sequence[str]) -> str:
    """Returns the framework and the values of these settings, such as ``JAX · bf16``."""
    return " · ".join(part for part in (FRAMEWORKS[row.cell.framework], values_of(row, settings)) if part)


def _is_settled(group: Group) -> bool:
    """Returns whether each framework has one compile mode only, and not all the same one."""
    modes = {(row.cell.framework, row.cell.compile) for row in group.rows}
    return len(modes) == len({framework for framework, _ in modes}) and "compile" in group.varying


def _modes(rows: Iterable[Row]) -> str:
    """Returns the compile mode of each framework in words."""
    modes = dict(sorted({(row.cell.framework, row.cell.compile) for row in rows}))
    if all(USUAL_COMPILE[framework] == mode for framework, mode in modes.items()):
        return "usual compile modes"
    return "compile modes " + listing([f"{mode} ({FRAMEWORKS[name]})" for name, mode in modes.items()])


def dates(rows: Iterable[Row]) -> str:
    """Returns the day of the first and of the last launch."""
    dates = sorted({clean(str(x.record.started)[:10]) for row in rows for x in row.launches if x.record.started})
    return " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "date not recorded"

"""The words on a plot: title, subtitle, labels of rows, and notes below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from suite.analysis.identity.comparability import NOT_PLOTTED
from suite.analysis.rows.groups import DEFAULTS, ON_DEMAND, SETTINGS, WORDS, Group, Row, RowKey
from suite.analysis.rows.wording import fill, listing, middle
from suite.plan.cell import USUAL_COMPILE
from suite.record.text import clean
from suite.report.format.names import FRAMEWORKS, SETTING_NAMES, WORKLOADS, count, counts, strategy
from suite.report.tables.frame import Table

#: How the value of a setting is written.
VALUES = {**WORDS, "machine": "{}"}

#: Characters that the font has besides those of Latin alphabets.
SIGNS = "\u2013\u2014\u2026"

#: Marks a label on which the table has notes. A star would mean the best value, as in the table.
NOTED = " !"
NOTED_WORDS = "! marks failed launches, flagged launches and fingerprints that differ: the table has the details."


def plain(text: str, limit: int) -> str:
    """Returns text that the font can draw; a missing character would cause a warning and an empty box."""
    return "".join(c if c in SIGNS or c.isascii() or "\u00a0" < c < "\u0180" else "?" for c in clean(text, limit))


def workload_name(group: Group) -> str:
    """Returns the workload in words; one that is not the suite's own keeps its name."""
    return WORKLOADS.get(group.workload) or plain(group.workload, 40)


def title_of(group: Group, subject: str, without: Sequence[str] = (), of: str = "of", by: bool = True) -> str:
    """Returns a title such as ``Training throughput of the CIFAR-100 CNN, by framework and batch size``.

    ``without`` are settings in which the cells differ and which the title need not name; it names none unless ``by``.
    """
    names = ["framework"] if len({row.cell.framework for row in group.rows}) > 1 else []
    names += [SETTING_NAMES.get(name, name) for name in varying(group) if name not in without]
    article = "the " if group.workload in WORKLOADS else ""
    return f"{subject} {of} {article}{workload_name(group)}{f', by {listing(names)}' if names and by else ''}"


def subtitle_of(group: Group, per: str) -> list[str]:
    """Returns two lines: the settings that all rows share, and the machine with n, the launches ``per`` what, and date.

    Data that is not real is named in capitals.
    """
    shared = [name for name in SETTINGS if name not in (*ON_DEMAND, "run", *group.varying)]
    values = {name: SETTINGS[name](group.rows[0]) for name in shared}
    words = [fill(VALUES[name], text) for name, text in values.items() if text != DEFAULTS.get(name)]
    n = counts([len(row.ok) for row in group.rows if row.ok] or [0], "launch")
    machines = list(dict.fromkeys(row.machine for row in group.rows if row.machine)) or ["machine not recorded"]
    first = [f"{group.size} size", group.data_words, *words, _modes(group.rows) if _is_settled(group) else ""]
    last = [*machines, f"n = {n} per {per}", dates(group.rows)]
    return [plain(" · ".join(filter(None, parts)), 300) for parts in (first, last)]


def varying(group: Group) -> list[str]:
    """Returns the settings in which rows of one framework differ.

    The compile mode often differs between frameworks only: each has its usual one, which the subtitle names. So does
    the strategy of several devices.
    """
    settled = {"compile": _is_settled(group), "strategy": group.settled}
    return [name for name in group.varying if not settled.get(name)]


def _is_settled(group: Group) -> bool:
    """Returns whether each framework has one compile mode only, and not all the same one."""
    modes = {(row.cell.framework, row.cell.compile) for row in group.rows}
    return len(modes) == len({framework for framework, _ in modes}) and "compile" in group.varying


def _modes(rows: Iterable[Row]) -> str:
    modes = dict(sorted({(row.cell.framework, row.cell.compile) for row in rows}))
    if all(USUAL_COMPILE[framework] == mode for framework, mode in modes.items()):
        return "usual compile modes"
    return "compile modes " + listing([f"{mode} ({FRAMEWORKS[name]})" for name, mode in modes.items()])


def dates(rows: Iterable[Row]) -> str:
    """Returns the day of the first and of the last launch."""
    days = sorted({clean(str(x.record.started)[:10]) for row in rows for x in row.launches if x.record.started})
    return " to ".join(dict.fromkeys([days[0], days[-1]])) if days else "date not recorded"


def among(table: Table, rows: Iterable[Row]) -> Group:
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


def with_notes(table: Table) -> set[RowKey]:
    """Returns the rows with failed launches, flags, a fingerprint that differs, or an unaccounted launch."""
    kinds = zip(table.group.rows, (each["identity_kind"] for each in table.rows), strict=True)
    return {row.key for row, kind in kinds if kind in NOT_PLOTTED or (row.ok and (row.outcome != "ok" or row.flags))}


def name_of(row: Row, settings: Sequence[str]) -> str:
    """Returns the framework and the values of these settings, such as ``JAX · bf16``."""
    return " · ".join(filter(None, (FRAMEWORKS[row.cell.framework], values_of(row, settings))))


def values_of(row: Row, settings: Iterable[str]) -> str:
    """Returns the values of these settings of a row, such as ``fp32 · batch 32``."""
    return " · ".join(filter(None, (_value(row, name) for name in settings)))


def _value(row: Row, name: str) -> str:
    text = plain(middle(SETTINGS[name](row)), 70)
    if name == "devices":
        return count(row.cell.devices, "device")
    return strategy(text) if name == "strategy" else fill(VALUES[name], text) if text else ""


def supported(group: Group) -> list[Row]:
    """Returns the rows that have another launch than unsupported ones."""
    return [row for row in group.rows if row.outcome != "unsupported"]


def note_unsupported(table: Table) -> str:
    """Returns a sentence that names the unsupported settings and their frameworks, if there are any.

    A setting is named alone if the framework has no other row with it, else the whole cell is.
    """
    shown, names = supported(table.group), varying(table.group)
    lacking: dict[str, dict[str, None]] = {}
    for row in table.group.rows:
        if row not in shown:
            others = [each for each in shown if each.cell.framework == row.cell.framework]
            alone = [name for name in names if SETTINGS[name](row) not in {SETTINGS[name](each) for each in others}]
            lacking.setdefault(values_of(row, alone or names), {})[FRAMEWORKS[row.cell.framework]] = None
    words = "; ".join(f"{values} ({listing(list(who))})" for values, who in lacking.items())
    return f"Not supported here, so not drawn: {words}." if words else ""


def note_left_out(table: Table, shown: Iterable[Row], why: str) -> str:
    """Returns a note on the supported cells that are not drawn and ``why``, if there are any."""
    known = {row.key for row in shown}
    more = sum(row.key not in known for row in supported(table.group))
    return f"Not drawn: {count(more, 'cell')} {why}." if more else ""

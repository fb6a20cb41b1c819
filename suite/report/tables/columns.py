"""Columns, each declared once: files, SCHEMA.md, tables, the page and the screen read the declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

from suite.analysis.rows.groups import SETTINGS, Group
from suite.analysis.rows.wording import DASH, NONE, figure, middle
from suite.catalog.metrics import Metric
from suite.catalog.setting import TEXT, WHOLE
from suite.report.format.text import spread
from suite.report.format.view import LEFT, RIGHT, Grid

#: Forms of a value besides `TEXT` and `WHOLE`; the last two have ``value``, ``low`` and ``high``.
NUMBER, FLAG, RATIO, SPREAD = "number", "true or false", "ratio", "spread"

#: Where a column is: it identifies a row; a page hides it until asked for it; a narrow screen keeps it.
NAME, MORE, KEPT = "name", "more", "kept"

#: Settings that are numbers, in a table.
RIGHT_FLUSH = ("batch", "devices")

Read = Callable[[Any], Any]


class Notes:
    """Numbered notes; the same text gets the same number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def mark(self, text: str) -> str:
        return f"[{self._numbers.setdefault(text, len(self._numbers) + 1)}]"

    @property
    def lines(self) -> list[str]:
        return [f"[{number}] {text}" for text, number in self._numbers.items()]


@dataclass(frozen=True)
class Column:
    """``name`` is its name in files, and in tables too unless it has a ``header``; ``read`` its value of a row.

    A table writes a text as it is, a `RATIO` with its notes, and other figures in units of ``per``. ``unit`` and
    ``meaning`` go to SCHEMA.md. A column that does not apply to a row is empty there, never zero. ``link`` returns the
    address that a row's cell leads to, on a page.
    """

    name: str
    read: Read = lambda _: None
    form: str = NUMBER
    unit: str = ""
    meaning: str = ""
    header: str = ""
    per: float = 1.0
    where: tuple[str, ...] = ()
    link: Callable[[Any], str] | None = None

    def text(self, row: Any, notes: Notes) -> str:
        """Returns what a table shows of the row."""
        value = self.read(row)
        if value is None or isinstance(value, str):
            return value or NONE
        if self.form == RATIO:
            return ratio(value, notes)
        if self.form == SPREAD:
            return _ranged(lambda part: figure(part / self.per), value.value, value.low, value.high)
        return figure(value / self.per) if isinstance(value, float) else str(value)


def grid(
    columns: Sequence[Column],
    rows: Iterable[Any],
    notes: Notes | None = None,
    best: Callable[[Any], Iterable[str]] = lambda _: (),
    drop_empty: bool = False,
) -> Grid:
    """Returns the table of these rows; ``best`` names the columns of a row to be marked.

    With ``drop_empty`` columns without any value are left out.
    """
    rows, numbered = list(rows), notes or Notes()
    texts = [[column.text(row, numbered) for column in columns] for row in rows]
    places = {column.name: at for at, column in enumerate(columns)}
    kept = {at for at, column in enumerate(columns) if KEPT in column.where}
    made = Grid(
        [column.header or column.name for column in columns],
        texts,
        [LEFT if column.form == TEXT else RIGHT for column in columns],
        sum(NAME in column.where for column in columns),
        frozenset((at, places[name]) for at, row in enumerate(rows) for name in best(row)),
        frozenset(at for at, column in enumerate(columns) if MORE in column.where),
        frozenset({*range(len(columns))} - kept if kept else ()),
        {(at, places[each.name]): address for at, row in enumerate(rows) for each in columns
         if each.link and (address := each.link(row))},
    )  # fmt: skip
    empty = {at for at in range(len(columns)) if all(row[at] == NONE for row in texts)} if drop_empty else set()
    return made.only([at for at in range(len(columns)) if at not in empty]) if empty else made


def settings(names: Iterable[str], read: Callable[[Any, str], str]) -> list[Column]:
    """Returns the columns of settings that identify a row; ``read`` returns a setting of a row by its name."""
    return [
        Column(name, partial(_setting, read=read, name=name), WHOLE if name in RIGHT_FLUSH else TEXT, where=(NAME,))
        for name in names
    ]


def _setting(row: Any, *, read: Callable[[Any, str], str], name: str) -> str:
    return middle(read(row, name))  # only the name of a run can be long


def compared(name: str, read: Read, tested: bool, verdict: str = "verdict", form: str = TEXT) -> list[Column]:
    """Returns the column of a ratio, and that of its verdict where any was tested."""
    columns = [Column(name, read, RATIO), Column(verdict, lambda row: getattr(read(row), "verdict", ""), form)]
    return columns if tested else columns[:1]


def of_metric(metric: Metric, where: tuple[str, ...] = (), header: str = "") -> Column:
    """Returns the column of a metric of a timed cell, with its bounds if it has any."""

    def scaled(cell: Any, name: str) -> float | None:
        value: float | None = cell.figure(name)
        # The rounding hides the last digits of counters.
        return value if metric.per == 1 or value is None else round(value / metric.per, 6)

    def read(cell: Any) -> str:
        value, *ends = (scaled(cell, name) for name in (metric.name, *metric.ends))
        if metric.form and value is not None and isfinite(value):
            return f"{value:{metric.form}}"
        return spread(value, ends[0], ends[-1]) if ends else figure(value)

    return Column(metric.name, read, header=header or metric.label, where=where)


def ratio(found: Any, notes: Notes | None = None) -> str:
    """Returns ``1.52 (1.49-1.55)``; with ``notes``, marks why there is none, and what to beware of."""
    if not found.blocks or found.value is None or found.low is None or found.high is None:
        return f"{NONE} {notes.mark(found.reason)}" if notes and found.reason else NONE
    caveat = f" {notes.mark(found.caveat)}" if notes and found.caveat else ""
    return f"{bounded((found.value, found.low, found.high))}{caveat}"


def bounded(ratio: Sequence[float] | None) -> str:
    """Returns ``1.52 (1.49-1.55)`` for a ratio and its bounds; empty without one."""
    if not ratio:
        return ""
    value, low, high = ratio
    return _ranged("{:.2f}".format, value, low, high)


def launch_count(ok: int, started: int) -> str:
    """Returns ``6``, or ``4/6`` if not all that started ended well."""
    return str(started) if ok == started else f"{ok}/{started}"


def shares(found: Any) -> str:
    """Returns ``92 % (90-94)`` for a ratio of 0.92 with its bounds."""
    if found is None or found.value is None:
        return NONE
    return _ranged(_percent, found.value, found.low or 0.0, found.high or 0.0, " %")


def communication(cost: Any) -> str:
    """Returns what communication costs; an interval that begins below zero begins at zero."""
    if cost is None:
        return NONE
    low, high = (None if end is None else max(0.0, end) for end in (cost.low, cost.high))
    return _ranged(_percent, cost.value, low, high, " %")


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _ranged(write: Callable[[float], str], value: float, low: float | None, high: float | None, unit: str = "") -> str:
    """Returns a value with its bounds, which are left out where they are missing, or look the same."""
    if low is None or high is None or write(low) == write(high):
        return f"{write(value)}{unit}"
    return f"{write(value)}{unit} ({write(low)}{DASH}{write(high)})"


def varied_settings(group: Group) -> list[str]:
    """Returns the settings that have more than one value within a framework."""
    values: dict[tuple[str, str], set[str]] = {}
    for row in group.rows:
        for name in group.varying:
            values.setdefault((name, row.cell.framework), set()).add(SETTINGS[name](row))
    return list(dict.fromkeys(name for (name, _), each in values.items() if len(each) > 1))


OTHER_LENGTHS = (
    "Rows of other lengths train on the same texts, in other batches and with less padding, which the LSTM reads. "
    "Frameworks are proved to compute the same at the same lengths."
)


def has_several(group: Group) -> bool:
    """Returns whether any row has several devices."""
    return any(row.cell.devices > 1 for row in group.rows)

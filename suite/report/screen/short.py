"""A comparison that fits on one screen: the answer, and of each table the columns that decide.

``training-suite run`` ends with it, and `suite.compare` prints it unless it is asked for more.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from framework_training_suite import typed
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.analysis.rows.wording import NONE
from suite.analysis.statistics.accuracy import AccuracyComparison, compare_accuracies, trains_to_the_end
from suite.catalog.metrics import METRICS
from suite.catalog.settings import SETTINGS
from suite.plan.cell import FRAMEWORKS
from suite.record.record import Record
from suite.record.text import clean
from suite.report.format.names import count
from suite.report.format.terminal import WIDEST_TEXT
from suite.report.format.view import Grid, View
from suite.report.tables import accuracy, inference, timed
from suite.report.tables.cells import TimedCell
from suite.report.tables.columns import Column, Notes, compared, grid, of_metric
from suite.report.tables.frame import Table, table
from suite.report.text.answer import answer

#: Lines of the screen that are left for the rest of pytest's summary, and those of a table besides its rows.
REST, AROUND = 8, 3
#: Lines of notes and characters of a table cell, at most.
NOTES_MOST, CELL_MOST = 4, 40
#: The axes along which memory is half of the question.
OF_MEMORY = tuple(name for name, each in SETTINGS.items() if each.saves_memory)
#: Columns of other tables that a screen leaves out: what happens once, and what explains a result.
LEFT_OUT = ("worst ms", "first request ms", "first batch ms", "memory MiB", "epochs", "identity")


@dataclass(frozen=True)
class Room:
    """The size of a screen, and the command that shows what does not fit."""

    columns: int
    lines: int
    more: str


def short(records: Iterable[Record], run: str, columns: int, lines: int) -> str:
    """Returns a comparison of the records for a screen of ``columns`` and ``lines``; it says if rows are left out."""
    groups = group(Launch(record, clean(run, 80), "") for record in records)
    tables = [table(each) for each in groups if not trains_to_the_end(each)]
    trained = [compare_accuracies(each, FRAMEWORKS[0]) for each in groups if trains_to_the_end(each)]
    room = Room(columns, lines - REST, typed("training-suite compare"))
    return "\n".join(screen(answer(tables, trained).sentences, tables, trained, room))


def screen(
    sentences: Sequence[str],
    tables: Sequence[Table],
    trained: Sequence[AccuracyComparison],
    room: Room,
    last: Sequence[str] = (),
) -> list[str]:
    """Returns the lines of a screen: the answer's sentences, the tables, and the lines ``last``, which always stay."""
    width, notes = min(room.columns - 1, WIDEST_TEXT), Notes()
    blocks = [_show_timed(each, room.columns, notes) for each in tables]
    others = [*(view for each in tables for view in inference.views(each)), *map(accuracy.view, trained)]
    blocks += [_show_other(view, room.columns) for view in others]
    foot = _wrap(last, width)
    head = _most(_wrap(sentences, width), max(2, room.lines // 2 - len(foot)), f"… the whole answer: {room.more}")
    foot = [*_most(_wrap(notes.lines, width), NOTES_MOST, f"… all notes: {room.more}"), *foot]
    shown = _fit(blocks, room.lines - len(head) - len(foot) - 2, room.more)
    cut = [line if len(line) < room.columns else f"{line[: room.columns - 2]}…" for line in [*head, "", *shown]]
    return [*cut, *foot]


def _wrap(texts: Iterable[str], width: int) -> list[str]:
    wrapped = (textwrap.wrap(text, max(20, width), break_on_hyphens=False) or [""] for text in texts)
    return [line for lines in wrapped for line in lines]


def _most(lines: list[str], most: int, rest: str) -> list[str]:
    """Returns the lines, if they are no more than ``most``, or the first of them and what says so."""
    return lines if len(lines) <= most else [*lines[: most - 1], rest]


def _fit(blocks: Sequence[Sequence[str]], room: int, more: str) -> list[str]:
    """Returns the blocks, each with an empty line below, with as many rows as there is room for."""
    if room < len(blocks) * (AROUND + 1):  # not even a row of each
        fitting = max(0, (room - 1) // (AROUND + 1))
        rest = count(len(blocks) - fitting, "table")
        return [*(_fit(blocks[:fitting], room - 1, more) if fitting else []), f"… {rest} not shown: {more}"]
    shown: list[str] = []
    for at, (title, header, *rows) in enumerate(blocks):
        share = (room - len(shown)) // (len(blocks) - at) - AROUND  # a short table leaves its room to the others
        rest = f"… and {count(len(rows) - max(0, share - 1), 'more row')}: {more}"
        shown += [title, header, *_most(rows, max(1, share), rest), ""]
    return shown


def _show_timed(compared_table: Table, columns: int, notes: Notes) -> list[str]:
    """Returns title, header and a line per row; what no framework supports goes last."""
    cells = sorted(compared_table.cells, key=lambda cell: cell.outcome == "unsupported")
    by = compared_table.group.by
    shown = [
        *timed.names(compared_table),
        timed.LAUNCHES,
        of_metric(METRICS["samples_per_s"]),
        *compared(f"to {compared_table.baseline}" if by == "framework" else "ratio", _ratio, compared_table.tested),
        *(timed.of_devices(compared_table) if by == "devices" else []),
        *([of_metric(METRICS["peak_memory_bytes"], header="memory MiB")] if by in OF_MEMORY else []),
        Column("bottleneck", lambda cell: cell.bottleneck.kind),
    ]
    if any(cell.identity and cell.identity.kind != "same" for cell in cells):
        shown.append(Column("identity", lambda cell: cell.identity.kind if cell.identity else NONE))
    if any(cell.outcome != "ok" or cell.flags for cell in cells):
        shown.append(Column("outcome", timed.outcome))
    made = grid(shown, cells, notes)
    return [timed.title(compared_table.group), *_narrow(made, columns, ["bottleneck", "global batch", "communication"])]


def _ratio(cell: TimedCell) -> Any:
    """Returns a ratio whose notes do not say which row it is to, so that equal ones are one note."""
    found = cell.ratio
    reason = found.reason.removeprefix(f"no ratio to {found.baseline}: ")
    caveat = found.caveat.removeprefix(f"ran under different conditions than {found.baseline}: ")
    if not found.baseline:  # its row is missing, which the table shows
        reason = caveat = ""
    return replace(found, reason=reason, caveat=caveat)


def _show_other(view: View, columns: int) -> list[str]:
    """Returns the same for inference, and for cells that train to their end."""
    made = view.grid.without(LEFT_OUT)
    if "outcome" in made.headers and {row[made.headers.index("outcome")] for row in made.rows} == {"ok"}:
        made = made.without(["outcome"])
    served = "with loading" in made.headers or "95th ms" in made.headers
    epochs = [header for header in made.headers if header.startswith("epochs to")]
    yielding = ["with loading", "95th ms"] if served else ["samples/s", *epochs]
    return [view.title, *_narrow(made, columns, yielding)]


def _narrow(shown: Grid, columns: int, yielding: Iterable[str]) -> list[str]:
    """Returns the aligned rows; where they are too wide, without the columns that decide least."""
    for name in yielding:
        if max(map(len, _align(shown))) >= columns:
            shown = shown.without([name])
    return _align(shown)


def _align(shown: Grid) -> list[str]:
    """Returns the header and the rows, in columns as wide as their widest cell."""
    cells = [[clean(cell, CELL_MOST) for cell in line] for line in (shown.headers, *shown.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]

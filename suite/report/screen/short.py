"""A comparison that fits on one screen: the answer, and of each table the columns that decide.

``pytest suite`` ends with it, and `suite.compare` prints it unless it is asked for more.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from framework_training_suite import typed
from suite.analysis.accuracy.comparison import AccuracyComparison, compare_accuracies, trains_to_the_end
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.analysis.rows.wording import NONE
from suite.catalog.metrics import METRICS
from suite.catalog.settings import SETTINGS
from suite.plan.cell import FRAMEWORKS
from suite.record.record import Record
from suite.record.text import clean
from suite.report.format.names import count
from suite.report.format.terminal import WIDEST_TEXT
from suite.report.format.view import Grid, View
from suite.report.tables import inference, timed
from suite.report.tables.accuracy import view
from suite.report.tables.cells import TimedCell
from suite.report.tables.columns import Column, Notes, compared, grid, of_metric
from suite.report.tables.frame import Table, table
from suite.report.tables.timed import title
from suite.report.text.answer import answer

#: Lines of the screen that are left for the rest of pytest's summary.
REST = 8

#: Lines of a table besides its rows: its title, its header, and an empty line.
AROUND = 3

#: The axes along which memory is half of the question.
OF_MEMORY = tuple(name for name, each in SETTINGS.items() if each.saves_memory)

#: Lines of notes, at most.
NOTES_MOST = 4

#: Characters of a table cell, at most.
CELL_MOST = 40


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
    room = Room(columns, lines - REST, typed("python -m suite.compare"))
    return "\n".join(screen(answer(tables, trained).sentences, tables, trained, room))


def screen(
    sentences: Sequence[str],
    tables: Sequence[Table],
    trained: Sequence[AccuracyComparison],
    room: Room,
    last: Sequence[str] = (),
) -> list[str]:
    """Returns the lines of a screen: the answer's sentences, the tables, and the lines ``last``, which always stay."""
    width = min(room.columns - 1, WIDEST_TEXT)
    head = [line for sentence in sentences for line in _wrap(sentence, width)]
    foot = [line for text in last for line in _wrap(text, width)]
    if len(head) > (most := max(2, room.lines // 2 - len(foot))):
        head = [*head[: most - 1], f"… the whole answer: {room.more}"]
    notes = Notes()
    blocks = [_show_timed(each, room.columns, notes) for each in tables]
    blocks += [_show_inference(view, room.columns) for each in tables for view in inference.views(each)]
    blocks += [_show_accuracy(each, room.columns) for each in trained]
    told = [line for text in notes.lines for line in _wrap(text, width)]
    if len(told) > NOTES_MOST:
        told = [*told[: NOTES_MOST - 1], f"… all notes: {room.more}"]
    foot = [*told, *foot]
    shown = _fit(blocks, room.lines - len(head) - len(foot) - 2, room.more)
    cut = [line if len(line) < room.columns else f"{line[: room.columns - 2]}…" for line in [*head, "", *shown]]
    return [*cut, *foot]


def _fit(blocks: Sequence[Sequence[str]], room: int, more: str) -> list[str]:
    """Returns the blocks, each with an empty line below, with as many rows as there is room for."""
    if room < len(blocks) * (AROUND + 1):  # not even a row of each
        fitting = max(0, (room - 1) // (AROUND + 1))
        rest = count(len(blocks) - fitting, "table")
        return [*(_fit(blocks[:fitting], room - 1, more) if fitting else []), f"… {rest} not shown: {more}"]
    shown: list[str] = []
    for at, block in enumerate(blocks):
        share = (room - len(shown)) // (len(blocks) - at)  # a short table leaves its room to the others
        shown += [*_cut(block, share - AROUND, more), ""]
    return shown


def _cut(block: Sequence[str], room: int, more: str) -> list[str]:
    """Returns the block's title, header and as many rows as fit, and how many rows are left out."""
    heading, rows = block[:2], block[2:]
    if len(rows) <= room:
        return [*block]
    kept = rows[: max(0, room - 1)]
    return [*heading, *kept, f"… and {count(len(rows) - len(kept), 'more row')}: {more}"]


def _show_timed(compared_table: Table, columns: int, notes: Notes) -> list[str]:
    """Returns title, header and a line per row; what no framework supports goes last."""
    cells = sorted(compared_table.cells, key=lambda cell: cell.outcome == "unsupported")
    by = compared_table.group.by
    proved = all(not cell.identity or cell.identity.kind == "same" for cell in cells)
    shown = [
        *timed.names(compared_table),
        timed.LAUNCHES,
        of_metric(METRICS["samples_per_s"]),
        *compared(f"to {compared_table.baseline}" if by == "framework" else "ratio", _ratio, compared_table.tested),
        *(timed.of_devices(compared_table) if by == "devices" else []),
        *([of_metric(METRICS["peak_memory_bytes"], header="memory MiB")] if by in OF_MEMORY else []),
        Column("bottleneck", lambda cell: cell.bottleneck.kind),
        *([] if proved else [Column("identity", lambda cell: cell.identity.kind if cell.identity else NONE)]),
    ]
    if any(cell.outcome != "ok" or cell.flags for cell in cells):
        shown.append(Column("outcome", timed.outcome))
    made = grid(shown, cells, notes)
    return [title(compared_table.group), *_narrow(made, columns, ["bottleneck", "global batch", "communication"])]


def _ratio(cell: TimedCell) -> Any:
    """Returns a ratio whose notes do not say which row it is to, so that equal ones are one note."""
    found = cell.ratio
    reason = found.reason.removeprefix(f"no ratio to {found.baseline}: ")
    caveat = found.caveat.removeprefix(f"ran under different conditions than {found.baseline}: ")
    if not found.baseline:  # its row is missing, which the table shows
        reason = caveat = ""
    return replace(found, reason=reason, caveat=caveat)


def _show_inference(shown: View, columns: int) -> list[str]:
    """Returns the same for inference, without what happens once."""
    made = shown.grid.without(["worst ms", "first request ms", "first batch ms", "memory MiB"])
    return [shown.title, *_narrow(made, columns, ["with loading", "95th ms"])]


def _show_accuracy(trained: AccuracyComparison, columns: int) -> list[str]:
    """Returns the same for cells that train to their end."""
    shown = view(trained)
    ran_well = {row[shown.grid.headers.index("outcome")] for row in shown.grid.rows} == {"ok"}
    made = shown.grid.without(["epochs", "identity", *(["outcome"] if ran_well else [])])
    epochs = (header for header in made.headers if header.startswith("epochs to"))
    return [shown.title, *_narrow(made, columns, ["samples/s", *epochs])]


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


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(20, width), break_on_hyphens=False) or [""]

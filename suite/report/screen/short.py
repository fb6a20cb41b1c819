"""A comparison on a screen: of each table the columns that decide, and last, where a terminal stands, the answer.

``training-suite run`` ends with it, and `suite.compare` prints it unless it is asked for more.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import replace

from framework_training_suite import typed
from suite.analysis.bottlenecks.bottleneck import UNDECIDED
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.analysis.rows.wording import NONE
from suite.analysis.statistics.accuracy import AccuracyComparison, compare_accuracies, trains_to_the_end
from suite.analysis.statistics.inference import Estimate
from suite.catalog.metrics import METRICS
from suite.catalog.setting import TEXT
from suite.catalog.settings import SETTINGS
from suite.plan.cell import FRAMEWORKS
from suite.record.record import Record
from suite.record.text import clean
from suite.report.format.names import count
from suite.report.format.terminal import WIDE, WIDEST_TEXT, lines_of
from suite.report.format.text import in_unit
from suite.report.format.view import Grid, View
from suite.report.tables import accuracy, footnotes, inference, timed
from suite.report.tables.columns import Column, Notes, compared, grid, of_metric
from suite.report.tables.frame import Table, table
from suite.report.tables.legend import brief
from suite.report.text.answer import Answer, answer

#: Rows of all tables together, lines of notes and characters of a table cell, at most.
ROWS_MOST, NOTES_MOST, CELL_MOST = 60, 8, 200
MEMORY = "memory MiB"
#: Columns of inference: what loading changes, and the latencies of requests, the first of which is compared.
WITH_LOADING, LATENCIES = "with loading", ("median ms", "95th ms", "99th ms")
#: A screen of fewer columns has none for memory, unless that is the question.
NARROW = 100
#: The axes along which memory is half of the question.
OF_MEMORY = tuple(name for name, each in SETTINGS.items() if each.saves_memory)
#: Columns of other tables that a screen leaves out: what happens once, and what explains a result.
LEFT_OUT = ("worst ms", "first request ms", "first batch ms", "memory MiB", "epochs", "identity")


def short(records: Iterable[Record], run: str, columns: int) -> str:
    """Returns a comparison of the records for a screen of ``columns``; it says if rows are left out."""
    groups = group(Launch(record, clean(run, 80), "") for record in records)
    tables = [table(each) for each in groups if not trains_to_the_end(each)]
    trained = [compare_accuracies(each, FRAMEWORKS[0]) for each in groups if trains_to_the_end(each)]
    more = typed("training-suite compare")
    return "\n".join(screen(answer(tables, trained), tables, trained, columns, more=more))


def screen(
    found: Answer, tables: Sequence[Table], trained: Sequence[AccuracyComparison], columns: int, *, more: str,
    remarks: Sequence[str] = (), last: Sequence[str] = (),
) -> list[str]:  # fmt: skip
    """Returns the lines of a screen: tables, their notes and ``remarks``, the answer, and the lines ``last``.

    ``more`` is the command that shows what is left out.
    """
    width, notes = columns - 1, Notes()
    views = [_show_timed(each, width, notes) for each in tables]
    others = [*(view for each in tables for view in inference.views(each)), *map(accuracy.view, trained)]
    views += [part for view in others for part in _show_other(view, width)]
    shown: list[str] = []
    fits = sum(len(made.rows) for _, made in views) <= ROWS_MOST
    for title, made in views:
        most = len(made.rows) if fits else max(1, ROWS_MOST // len(views))
        rest = len(made.rows) - most
        cut = [f"… and {count(rest, 'more row')}: {more}"] if rest > 0 else []
        shown += [*wrap([title], width), *lines_of(replace(made, rows=made.rows[:most]), width), *cut, ""]
    hidden = len(found.lines) - len(found.first)
    rest_of_answer = [f"… and {count(hidden, 'more line')}: {more}"] if hidden else []
    noted = _most(wrap(notes.lines, width), NOTES_MOST, f"… all notes: {more}")
    older = dict.fromkeys(line for each in tables for line in footnotes.tunings(each.group))
    above = [*noted, *wrap([*brief(tables, trained), *older, *footnotes.summary(tables), *remarks], width)]
    return [*shown, *above, *[""] * bool(above), *wrap([*found.first, *rest_of_answer, *last], width)]


def wrap(texts: Iterable[str], width: int) -> list[str]:
    """Returns the lines of running text; those of a text after its first are indented."""
    width = max(20, min(width, WIDEST_TEXT))
    wrapped = (textwrap.wrap(text, width, subsequent_indent="   ", break_on_hyphens=False) or [""] for text in texts)
    return [line for lines in wrapped for line in lines]


def _most(lines: list[str], most: int, rest: str) -> list[str]:
    """Returns the lines, if they are no more than ``most``, or the first of them and what says so."""
    return lines if len(lines) <= most else [*lines[: most - 1], rest]


def _show_timed(compared_table: Table, width: int, notes: Notes) -> tuple[str, Grid]:
    """Returns title and grid, with a row per cell: those that the answer rests on first, if not all are shown.

    What no framework supports goes last.
    """
    rows = zip(compared_table.group.rows, compared_table.cells, strict=True)
    ranked = {row.key for contest in compared_table.findings.contests for row in contest.rows}
    many = len(compared_table.cells) > ROWS_MOST
    ordered = sorted(rows, key=lambda each: (each[1].outcome == "unsupported", many and each[0].key not in ranked))
    cells = [cell for _, cell in ordered]
    by, ratio_of = compared_table.group.by, timed.ratio_of(compared_table)
    shown = [
        *timed.names(compared_table),
        timed.LAUNCHES,
        of_metric(METRICS["samples_per_s"]),
        *compared(
            f"to {compared_table.baseline}" if by == "framework" else "ratio",
            lambda cell: _ratio(ratio_of(cell)),
            compared_table.tested,
        ),
        *(timed.of_devices(compared_table) if by == "devices" else []),
        *timed.costs(compared_table),
        of_metric(METRICS["peak_memory_bytes"], header=MEMORY),
    ]
    if _tells_bottlenecks(compared_table):
        shown.append(Column("bottleneck", lambda cell: cell.bottleneck.kind, TEXT))
    if any(cell.identity and cell.identity.kind != "same" for cell in cells):
        shown.append(Column("identity", lambda cell: cell.identity.kind if cell.identity else NONE, TEXT))
    if any(cell.outcome != "ok" or cell.flags for cell in cells):
        shown.append(Column("outcome", timed.outcome, TEXT))
    made = grid(shown, cells, notes)
    yielding = ["bottleneck", *[MEMORY] * (width < NARROW and by not in OF_MEMORY), "global batch", "communication"]
    made = replace(made, headers=in_unit(made.headers, compared_table.group.unit))
    return timed.title(compared_table.group), _narrow(made, width, yielding)


def _tells_bottlenecks(compared_table: Table) -> bool:
    """Returns whether phases that tell them were asked for (``--phases``), or no cell is undecided.

    By default few launches have these phases, which take as long again, so that of most cells they decide nothing.
    """
    plans = [record.run.get("plan") for row in compared_table.group.rows for record in row.ok]
    asked = any(plan.get("chosen") and "input" in plan.get("phases", ()) for plan in plans if isinstance(plan, dict))
    return asked or all(cell.bottleneck.kind != UNDECIDED for cell in compared_table.cells)


def _ratio(found: Estimate) -> Estimate:
    """Returns a ratio whose notes do not say which row it is to, so that equal ones are one note."""
    reason = found.reason.removeprefix(f"no ratio to {found.baseline}: ")
    caveat = found.caveat.removeprefix(f"ran under different conditions than {found.baseline}: ")
    if not found.baseline:  # its row is missing, which the table shows
        reason = caveat = ""
    return replace(found, reason=reason, caveat=caveat)


def _show_other(view: View, width: int) -> list[tuple[str, Grid]]:
    """Returns the same for inference, and for cells that train to their end; requests apart where there is no room."""
    made = replace(view.grid.without(LEFT_OUT), best=frozenset())
    if "outcome" in made.headers and {row[made.headers.index("outcome")] for row in made.rows} == {"ok"}:
        made = made.without(["outcome"])
    requests = [name for name in made.headers if name.startswith("request ") or name in LATENCIES]
    epochs = [header for header in made.headers if header.startswith("epochs to")]
    shown = _narrow(made, width, [WITH_LOADING, *LATENCIES[1:]] if requests else ["samples/s", *epochs])
    if not requests or _fits(shown, width):
        return [(view.title, shown)]
    others = [name for name in made.headers[made.names :] if name not in (*requests, "n")]
    parts = (made.without(requests), [WITH_LOADING]), (made.without(others), LATENCIES[1:])
    titles = view.title, f"{view.title}: requests of one sample"
    return [(title, _narrow(part, width, least)) for title, (part, least) in zip(titles, parts, strict=True)]


def _narrow(shown: Grid, width: int, yielding: Iterable[str]) -> Grid:
    """Returns the table; where it is too wide, without the columns that decide least."""
    shown = replace(shown, rows=[[clean(cell, CELL_MOST) for cell in row] for row in shown.rows])
    for name in yielding:
        shown = shown if _fits(shown, width) else shown.without([name])
    return shown


def _fits(shown: Grid, width: int) -> bool:
    cells = zip(shown.headers, *shown.rows, strict=True)
    return sum(max(map(len, column)) + WIDE for column in cells) - WIDE <= width

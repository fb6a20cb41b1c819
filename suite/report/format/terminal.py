"""Tables that fit the width of a terminal; without a terminal, rows are not wrapped and nothing is coloured."""

from __future__ import annotations

import io
import os
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import IO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from suite.report.format.view import LEFT, Grid, View

#: Running text is at most this wide: longer lines are hard to read.
WIDEST_TEXT = 120

#: The width of a pipe or a file: more than any table needs.
ENDLESS = 100_000

STYLES = {"faster": "green", "slower": "red"}

#: Characters between two columns, where they fit and where they do not.
WIDE, NARROW = 2, 1


class Terminal(Console):
    """Standard output or another stream; text is printed without markup.

    In a terminal tables are wrapped to its width, and coloured unless ``NO_COLOR`` is set. Elsewhere, nothing is.
    """

    def __init__(self, file: IO[str] | None = None, width: int | None = None) -> None:
        stream = file or sys.stdout
        is_terminal = stream.isatty()
        coloured = is_terminal and not os.environ.get("NO_COLOR")
        super().__init__(
            file=file,
            width=width or (None if is_terminal else ENDLESS),
            force_terminal=is_terminal,
            color_system="auto" if coloured else None,
            markup=False, emoji=False, highlight=False,
        )  # fmt: skip

    def say(self, text: str) -> None:
        """Print running text; the lines after the first are indented."""
        width = min(self.width, WIDEST_TEXT)
        wrapped = textwrap.fill(text, width, subsequent_indent="   ", break_on_hyphens=False)
        self.print(wrapped, soft_wrap=True)

    def show(self, view: View) -> None:
        """Print a table with its title and its notes."""
        self.say(view.title)
        self.print("=" * min(len(view.title), self.width, WIDEST_TEXT))
        for grid in view.parts:
            self.show_grid(grid)
            self.print()
        for note in view.notes:
            self.say(note)

    def show_rows(self, rows: Iterable[Sequence[str]], styles: Iterable[str]) -> None:
        """Print rows without a header, the first cell of each in a style; the last is wrapped to the width left."""
        table = Table.grid(padding=(0, NARROW, 0, 0))
        for row, style in zip(rows, styles, strict=True):
            table.add_row(Text(row[0], style), *map(Text, row[1:]))
        self.print(_Trimmed(table))

    def show_grid(self, grid: Grid) -> None:
        """Print a grid; columns that do not fit go into another table below."""
        for number, part in enumerate(_parts(_put_stars(grid), self.width)):
            if number:
                self.print()
            self.print(_Trimmed(_table(part, self.width)))


def lines_of(grid: Grid, width: int) -> list[str]:
    """Returns a grid as a terminal of this width shows it, without colour."""
    file = io.StringIO()
    Terminal(file, width).show_grid(grid)
    return file.getvalue().splitlines()


def _put_stars(grid: Grid) -> Grid:
    """Returns the grid with a star at each best value, for terminals without colour."""
    rows = [list(row) for row in grid.rows]
    for row, column in grid.best:
        value, space, rest = rows[row][column].partition(" ")
        rows[row][column] = f"{value}*{space}{rest}"
    return replace(grid, rows=rows)


def _parts(grid: Grid, width: int) -> Iterator[Grid]:
    """Yields the grid, or several grids with the same name columns if its longest words do not fit side by side."""
    least = [longest_word for longest_word, _ in _lengths(grid)]
    names = list(range(grid.names))
    part = list(names)
    for column in range(grid.names, len(least)):
        if len(part) > grid.names and sum(least[at] + NARROW for at in [*part, column]) - NARROW > width:
            yield grid.only(part)
            part = list(names)
        part.append(column)
    yield grid.only(part)


def _table(grid: Grid, width: int) -> Table:
    """Returns a table for rich, with columns as wide as fits."""
    lengths = _lengths(grid)
    gap = WIDE if sum(cell + WIDE for _, cell in lengths) - WIDE <= width else NARROW
    widths = _widths(lengths, width)
    table = Table(box=None, padding=(0, gap, 0, 0), pad_edge=False, header_style="bold")
    for header, side, wide in zip(grid.headers, grid.align, widths, strict=True):
        table.add_column(Text(header), justify="left" if side == LEFT else "right", width=wide, overflow="fold")
    table.add_row(*(Text("-" * wide) for wide in widths))
    for number, row in enumerate(grid.rows):
        table.add_row(*(_cell(text, (number, column) in grid.best) for column, text in enumerate(row)))
    return table


def _cell(text: str, best: bool) -> Text:
    """Returns the text with best values in bold and verdicts in green or red."""
    cell = Text(text, style=STYLES.get(text, ""))
    if best:
        cell.stylize("bold", 0, len(text.partition(" ")[0]))
    return cell


def _lengths(grid: Grid) -> list[tuple[int, int]]:
    """Returns the length of the longest word and of the longest cell of each column."""
    lengths = []
    for column in zip(grid.headers, *grid.rows, strict=True):
        words = {word for cell in column for word in cell.split()}
        lengths.append((max(map(cell_len, words), default=0), max(map(cell_len, column))))
    return lengths


def _widths(lengths: Sequence[tuple[int, int]], width: int) -> list[int]:
    """Returns the width of each column: its longest cell, or less for the widest, down to their longest words."""
    widths = [cell for _, cell in lengths]
    while sum(widths) + NARROW * (len(widths) - 1) > width:
        yielding = [at for at, (word, _) in enumerate(lengths) if widths[at] > word]
        if not yielding:
            break
        widths[max(yielding, key=widths.__getitem__)] -= 1
    return widths


class _Trimmed:
    """A table without the spaces at the ends of its lines, which would be copied with it."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in console.render_lines(self.table, options, pad=False):
            while line and not line[-1].text.strip():
                line.pop()
            yield from line[:-1]
            yield from (Segment(last.text.rstrip(), last.style) for last in line[-1:])
            yield Segment.line()

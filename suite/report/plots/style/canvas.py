"""A sheet with title, subtitle and caption, and axes with a row per cell. Drawn without pyplot and its global state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from suite.analysis.rows.groups import Group, Row
from suite.report.plots.style.look import BEHIND, GRID, INK, KEY, LETTERS, PALE, SMALL, WIDTH_IN, round_ticks, wide
from suite.report.plots.style.naming import (
    among,
    explain_noted,
    find_unsupported,
    labels_of,
    note_unsupported,
    plain,
    runs_of,
    subtitle_of,
    title_of,
    values_of,
    varying,
)
from suite.report.tables.frame import Table

ROW_IN = 0.32  # the height of a row in inches
HEADING = 0.9  # the height in rows of a heading over rows that share settings
LEAST_IN = 3.0  # the least width of the axes
ACROSS_IN, UNITS_IN, CLOSE_IN = 4.0, 0.95, 0.2  # the same beside a legend, the room for y, and between two axes
TITLE, HEAD, CAPTION = 84, 136, 136  # characters of a line
LINE_IN = 0.19  # the height of a line of the subtitle and of the caption
KEY_LINE_IN, KEY_LEAST_IN = 0.17, 1.4  # the height of a line of a legend beside the axes, and the least width of it
SETTINGS_OF_A_HEADING = ("run", "machine", "size", "precision", "batch", "loader", "devices")


@dataclass(frozen=True)
class Sheet:
    """A figure with title and caption around a space of ``inside`` inches (width, height), ``above`` from the top."""

    figure: Figure
    left: float
    above: float
    inside: tuple[float, float]

    def axes(self, x: float = 0.0, y: float = 0.0, width: float | None = None, height: float | None = None) -> Any:
        """Returns axes ``x`` inches from the left and ``y`` from the top of the space; by default as large as it."""
        across, up = self.figure.get_size_inches()
        width, height = width or self.inside[0], height or self.inside[1]
        bottom = up - self.above - y - height
        return self.figure.add_axes(((self.left + x) / across, bottom / up, width / across, height / up))


def sheet(
    group: Group,
    title: str,
    marks: str,
    inside: tuple[float, float],
    *,
    left: float = 0.8,
    right: float = 0.3,
    per: str = "cell",
    notes: Sequence[str] = (),
    labels: Sequence[str] = (),
) -> Sheet:
    """Returns an empty sheet whose title, subtitle and caption say all that a plot without its report needs.

    ``marks`` says what is drawn, ``notes`` what else the reader must know; `NOTED` is explained if one of the
    ``labels`` has it. The subtitle counts the launches ``per`` cell, or per what a mark stands for.
    """
    part = f"Shown: {group.part}." if group.part else ""
    caption = [marks, *notes, explain_noted(labels), part, runs_of(group)]
    return paper(title, subtitle_of(group, per), caption, inside, left=left, right=right)


def keyed_sheet(
    group: Group,
    title: str,
    marks: str,
    heights: Sequence[float],
    handles: Sequence[Any],
    *,
    per: str = "cell",
    notes: Sequence[str] = (),
) -> tuple[Figure, list[Any]]:
    """Returns a figure and its axes, which lie one below the other and share x; on their right is the legend."""
    names = [str(handle.get_label()) for handle in handles]
    lines = [line for name in names for line in name.split("\n")]
    right = max(0.75 + wide(lines, SMALL), KEY_LEAST_IN)
    across = max(ACROSS_IN, WIDTH_IN - UNITS_IN - right)
    high = max(sum(heights) + CLOSE_IN * (len(heights) - 1), KEY_LINE_IN * len(lines) + 0.1 * len(handles))
    layout = sheet(group, title, marks, (across, high), left=UNITS_IN, right=right, per=per, notes=notes, labels=names)
    key = layout.axes(across + 0.1, 0, right - 0.1, high)
    key.set_axis_off()
    key.legend(handles=handles, **{**KEY, "bbox_to_anchor": (0, 1)})
    tops = [sum(heights[:at]) + at * CLOSE_IN for at in range(len(heights))]
    return layout.figure, [layout.axes(0, top, across, high) for top, high in zip(tops, heights, strict=True)]


def paper(
    title: str,
    head: Sequence[str],
    caption: Sequence[str],
    inside: tuple[float, float],
    *,
    left: float,
    right: float,
    beneath: float = 0.62,
) -> Sheet:
    """Returns an empty sheet with these texts, each wrapped. ``beneath`` is for the x axis, in inches."""
    titles = _balance(plain(title, 300), TITLE)
    heads = [line for words in head for line in wrap(words, HEAD)]
    foot = wrap(plain(" ".join(words for words in caption if words), 4000), CAPTION, break_on_hyphens=False)
    above = 0.14 + 0.22 * len(titles) + LINE_IN * len(heads) + 0.36
    width = left + inside[0] + right
    height = above + inside[1] + beneath + LINE_IN * len(foot) + 0.08
    plot = Figure(figsize=(width, height))
    FigureCanvasAgg(plot)
    at = 0.14
    for size, weight, colour, step, lines in ((12, "bold", INK, 0.22, titles), (SMALL, "normal", PALE, LINE_IN, heads)):
        for line in lines:
            at += step
            plot.text(0.2 / width, 1 - at / height, line, size=size, weight=weight, color=colour)
    for line, below in zip(foot, range(len(foot) - 1, -1, -1), strict=True):
        plot.text(0.2 / width, (0.13 + LINE_IN * below) / height, line, size=SMALL, color=PALE)
    return Sheet(plot, left, above, inside)


def _balance(words: str, limit: int) -> list[str]:
    """Returns as few lines as the limit allows, about equally long."""
    lines = wrap(words, limit)
    while len(lines) > 1 and len(narrower := wrap(words, limit := limit - 1)) == len(lines):
        lines = narrower
    return lines


def canvas(
    table: Table,
    subject: str,
    unit: str,
    marks: str,
    *,
    right: float = 0.3,
    rows: Sequence[Row] | None = None,
    notes: Sequence[str] = (),
) -> tuple[Figure, Any, dict[float, Row]]:
    """Returns a figure, its axes, and the rows by their y, the first on top; by default all supported rows.

    ``right`` is the right margin in inches. Rows that share precision, batch and loader stand under a heading if there
    are several such sets. `NOTED` marks rows on which the table has notes. Unsupported cells are named in the caption.
    """
    skipped = {row.key for row in find_unsupported(table.group.rows)}
    rows = [row for row in table.group.rows if row.key not in skipped] if rows is None else rows
    group = among(table, rows)
    places, headings, names = stack_rows(table, rows)
    left = 0.3 + wide(names)
    inside = max(WIDTH_IN - left - right, LEAST_IN), ROW_IN * (max(places) + 1)
    notes = [*notes, *note_unsupported(table)]
    layout = sheet(group, title_of(group, subject), marks, inside, left=left, right=right, notes=notes, labels=names)
    axes = layout.axes()
    rows_of(axes, places, headings, names)
    axes.set_xlabel(unit)
    return layout.figure, axes, places


def stack_rows(table: Table, rows: Sequence[Row]) -> tuple[dict[float, Row], dict[float, str], list[str]]:
    """Returns the rows by their y, the headings over sets of them by their y, and the labels of the rows."""
    shared = [name for name in SETTINGS_OF_A_HEADING if name in varying(among(table, rows))]
    places: dict[float, Row] = {}
    headings: dict[float, str] = {}
    heading = ""
    for row in rows:
        at = max(places, default=-1.0) + 1
        if shared and (words := values_of(row, shared)) != heading:
            heading = words
            headings[at - 0.05] = words
            at += HEADING
        places[at] = row
    return places, headings, labels_of(table, rows, shared)


def rows_of(axes: Any, places: Mapping[float, Row], headings: Mapping[float, str], names: Sequence[str]) -> None:
    """Make axes of rows with these labels and headings, and a grid across."""
    axes.set_yticks(list(places), names)
    axes.set_ylim(max(places) + 0.55, -0.5)
    axes.tick_params(axis="y", length=0)
    for y, words in headings.items():
        place = axes.get_yaxis_transform()
        axes.text(0.0, y, words, transform=place, va="center", size=LETTERS, weight="bold", color=INK, bbox=BEHIND)
    round_ticks(axes.xaxis)
    axes.grid(axis="x", color=GRID, linewidth=0.6)


def note_left_out(table: Table, shown: Iterable[Row], why: str) -> list[str]:
    """Returns a note on the supported cells that are not drawn, if there are any."""
    known = {row.key for row in [*shown, *find_unsupported(table.group.rows)]}
    count = sum(row.key not in known for row in table.group.rows)
    return [f"Not drawn: {count} cell{'' if count == 1 else 's'} {why}."] if count else []

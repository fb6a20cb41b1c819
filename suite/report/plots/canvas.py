"""What all plots share: the look of each framework, a sheet with title and caption, rows and their places, legends.

Plots use matplotlib's objects, without pyplot and its global state. They are readable in black and white and for the
colour-blind: each framework has one colour of Okabe and Ito (https://jfly.uni-koeln.de/color/), one hatch and one
marker in every plot.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.textpath import TextPath
from matplotlib.ticker import FuncFormatter, MaxNLocator

from suite.analysis.groups import Group, Row, RowKey
from suite.plan.cell import FRAMEWORKS
from suite.record.text import clean
from suite.report.tables import Table

FACE = {"pytorch": "#E69F00", "tensorflow": "#56B4E9", "jax": "#009E73"}
HATCH = {"pytorch": "", "tensorflow": "////", "jax": "...."}
MARKER = {"pytorch": "o", "tensorflow": "s", "jax": "^"}

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.parse_math": False,  # a name may hold dollar signs
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.5,
    "svg.hashsalt": "suite",  # else the ids in an SVG are drawn anew each time
}

WIDTH_IN = 9.0
ROW_IN, BAR = 0.34, 0.66  # the height of a row in inches, and of a bar in rows
ABOVE_IN = 1.0
CAPTION = 150  # characters of a line
INK = "#222222"
PALE = "#666666"
GRID = "#DDDDDD"
#: Marks a label on which the table has notes. A star would mean the best value, as in the table.
NOTED = " !"
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}

#: Place of a legend that would cover lines inside the axes.
KEY: dict[str, Any] = {
    "loc": "upper left",
    "bbox_to_anchor": (1.01, 1),
    "frameon": False,
    "fontsize": 8,
    "borderaxespad": 0.2,
    "handlelength": 3.2,
}


@dataclass(frozen=True)
class Sheet:
    """A figure with title and caption around a space of ``inside`` inches (width, height)."""

    figure: Figure
    left: float
    inside: tuple[float, float]

    def axes(self, x: float = 0.0, y: float = 0.0, width: float | None = None, height: float | None = None) -> Any:
        """Returns axes ``x`` inches from the left and ``y`` from the top of the space; by default as large as it."""
        across, up = self.figure.get_size_inches()
        width, height = width or self.inside[0], height or self.inside[1]
        bottom = up - ABOVE_IN - y - height
        return self.figure.add_axes(((self.left + x) / across, bottom / up, width / across, height / up))


def sheet(
    group: Group,
    title: str,
    marks: str,
    inside: tuple[float, float],
    *,
    left: float = 0.8,
    right: float = 0.3,
    notes: Sequence[str] = (),
    noted: bool = False,
) -> Sheet:
    """Returns an empty sheet whose title and caption say all that a plot without its report needs.

    ``marks`` says what is drawn, ``notes`` what else the reader must know, ``noted`` whether a label has `NOTED`.
    """
    caption = _caption(group, marks, notes, noted)
    width = left + inside[0] + right
    height = ABOVE_IN + inside[1] + 0.62 + 0.16 * len(caption)
    plot = Figure(figsize=(width, height))
    FigureCanvasAgg(plot)
    data_note = "" if group.data_kind == "real" else f" \u2014 {group.data_words}"
    words = f"{title}: {group.workload}, size {group.size}{data_note}"
    plot.text(0.25 / width, 1 - 0.3 / height, words, size=12, weight="bold", color=INK)
    plot.text(0.25 / width, 1 - 0.52 / height, plain(group.constant, 120), size=9, color=PALE)
    for i, line in enumerate(reversed(caption)):
        plot.text(0.25 / width, (0.1 + 0.16 * i) / height, line, size=7.5, color=PALE)
    return Sheet(plot, left, inside)


def canvas(
    table: Table,
    title: str,
    unit: str,
    marks: str,
    *,
    right: float = 0.3,
    rows: Sequence[Row] | None = None,
    notes: Sequence[str] = (),
) -> tuple[Figure, Any, dict[float, Row]]:
    """Returns a figure, its axes, and the rows by their y, the first on top; by default all rows of the table.

    ``right`` is the right margin in inches. A gap separates rows whose settings differ. `NOTED` marks rows on which the
    table has notes.
    """
    rows = table.group.rows if rows is None else rows
    places: dict[float, Row] = {}
    for row in rows:
        last = max(places, default=-1.0)
        places[last + (1.5 if places and _settings(row) != _settings(places[last]) else 1)] = row
    names = labels(table, rows)
    left = 0.55 + wide(f"{name}{NOTED}" for name in names)
    inside = max(WIDTH_IN - left - right, 5.5), ROW_IN * (max(places) + 1)
    noted = any(name.endswith(NOTED) for name in names)
    layout = sheet(among(table, rows), title, marks, inside, left=left, right=right, notes=notes, noted=noted)
    axes = layout.axes()
    axes.set_yticks(list(places), names)
    axes.set_ylim(max(places) + 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(unit)
    axes.xaxis.set_major_formatter(plain_numbers())
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    return layout.figure, axes, places


def among(table: Table, rows: Sequence[Row]) -> Group:
    """Returns the table's group with these rows only, so that what they share is said once."""
    return replace(table.group, rows=tuple(rows))


def labels(table: Table, rows: Sequence[Row], without: Sequence[str] = ()) -> list[str]:
    """Returns the labels of the rows, without the settings ``without``; with `NOTED` if the table has notes on them."""
    group, noted = among(table, rows), with_notes(table)
    return [plain(group.label(row, without=without), 70) + (NOTED if row.key in noted else "") for row in rows]


def names_of_sets(table: Table, sets: Sequence[Sequence[Row]], without: Sequence[str]) -> list[str]:
    """Returns the labels of sets of rows; with `NOTED` if the table has notes on a row of the set."""
    rows = [row for each in sets for row in each]
    named = dict(zip([row.key for row in rows], labels(table, rows, without), strict=True))
    names = [[named[row.key] for row in each] for each in sets]
    return [next((name for name in each if name.endswith(NOTED)), each[0]) for each in names]


def with_notes(table: Table) -> set[RowKey]:
    """Returns the rows with failed launches, flags, or a fingerprint that differs."""
    kinds = zip(table.group.rows, table.frame["identity_kind"], strict=True)
    return {row.key for row, kind in kinds if kind == "differs" or (row.ok and (row.outcome != "ok" or row.flags))}


def wide(words: Iterable[str], size: float = 9) -> float:
    """Returns the width in inches of the longest text, from its outline: the exact extent takes ten times as long."""
    return max(float(TextPath((0, 0), word, size=size).vertices[:, 0].max()) for word in words if word.strip()) / 72


def plain(text: str, limit: int) -> str:
    """Returns text that the font can draw; a missing character would cause a warning and an empty box."""
    return "".join(c if c in "·\u2013—…" or c.isascii() or "\u00a0" < c < "\u0180" else "?" for c in clean(text, limit))


def plain_numbers() -> FuncFormatter:
    """Returns a formatter of ticks without powers of ten, with separated thousands."""
    return FuncFormatter(lambda x, _: f"{x:,.10g}")


def from_zero(axes: Any) -> None:
    """Set the y axis from zero to a little above the data."""
    axes.set_ylim(0, 1.08 * axes.dataLim.y1)


def framed(axes: Any, unit: str) -> None:
    """Add a grid and the unit of the y axis."""
    axes.set_ylabel(unit)
    axes.yaxis.set_major_formatter(plain_numbers())
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.grid(color=GRID, linewidth=0.6)
    axes.spines["left"].set_visible(True)


def bars(
    axes: Any, places: Mapping[float, Row], widths: Mapping[float, float], left: Mapping[float, float] | None = None
) -> None:
    """Draw bars in their frameworks' looks; all bars of one look at once, which is faster."""
    for name in FRAMEWORKS:
        at = [y for y in widths if places[y].cell.framework == name]
        begin = [left[y] if left else 0.0 for y in at]
        if at:
            axes.barh(at, [widths[y] for y in at], left=begin, height=BAR, zorder=2, **face(name))


def whiskers(axes: Any, ranges: Mapping[float, tuple[float, float, float]], capsize: float = 3) -> None:
    """Draw a whisker for each (value, low, high)."""
    values = [value for value, _, _ in ranges.values()]
    ends = [[value - low for value, low, _ in ranges.values()], [high - value for value, _, high in ranges.values()]]
    if ranges:
        look = {"ecolor": INK, "capsize": capsize, "elinewidth": 1, "capthick": 1}
        axes.errorbar(values, list(ranges), xerr=ends, fmt="none", **look)


def absent(axes: Any, y: float, row: Row) -> None:
    """Write the row's outcome where its bar would begin."""
    place = axes.get_yaxis_transform()
    axes.text(0.01, y, plain(row.outcome, 60), transform=place, va="center", style="italic", color=PALE, bbox=BEHIND)


def beside(axes: Any, y: float, words: str) -> None:
    """Write text for a row on the right of the axes."""
    axes.text(1.01, y, words, transform=axes.get_yaxis_transform(), va="center", color=INK)


def face(name: str) -> dict[str, Any]:
    """Returns the look of a framework's bars."""
    return {"facecolor": FACE[name], "hatch": HATCH[name], "edgecolor": INK, "linewidth": 0.6}


def swatch(name: str) -> Patch:
    return Patch(**face(name), label=name)


def frameworks(rows: Iterable[Row]) -> list[str]:
    """Returns the frameworks of the rows with a successful launch, in their usual order."""
    shown = {row.cell.framework for row in rows if row.ok}
    return [name for name in FRAMEWORKS if name in shown]


def legend(axes: Any, entries: Sequence[Any]) -> None:
    """Draw a legend in one line above the axes."""
    axes.legend(
        handles=entries,
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=len(entries),
        frameon=False,
        fontsize=8,
        borderaxespad=0.2,
        columnspacing=1.2,
        handlelength=1.6,
    )


def _settings(row: Row) -> tuple[Any, ...]:
    """Returns what a gap separates: run, precision, batch and loader."""
    return row.run, row.cell.precision, row.cell.batch, row.cell.loader


def _caption(group: Group, marks: str, notes: Sequence[str], noted: bool) -> list[str]:
    """Returns the lines of the caption: number of launches, data, date, marks, notes and machines."""
    rows = group.rows
    counts = sorted({len(row.ok) for row in rows if row.ok}) or [0]
    n = str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    dates = sorted({clean(str(x.record.started)[:10]) for row in rows for x in row.launches if x.record.started})
    date = " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "date not recorded"
    note = [f"{NOTED.strip()} failed launches, flags, or a fingerprint that differs: see the table."] if noted else []
    machines = list(dict.fromkeys(row.machine for row in rows if row.machine)) or ["machine not recorded"]
    drawn = f"{marks[:1].upper()}{marks[1:]}."
    first = f"n = {n} launch{'' if n == '1' else 'es'} per cell; {group.data_words}; {date}. {drawn}"
    lines = [line for words in [first, *notes, *note] for line in wrap(words, CAPTION)]
    return [plain(line, CAPTION) for line in [*lines, *machines]]

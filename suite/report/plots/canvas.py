"""What all plots share: a look per framework, a sheet with title and caption, rows by their place, legends.

Drawn through matplotlib's objects, without pyplot and its global state. Readable in black and white and by the
colour-blind: each framework has one colour of Okabe and Ito (https://jfly.uni-koeln.de/color/), one hatch and one
marker, in every plot.
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
#: After a label: the table has more to say. A star is the table's own sign, and means the best in plots too.
NOTED = " !"
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}

#: Where a key stands that would cover lines inside of the axes.
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
    """A figure with title and caption around a space of ``inside`` inches, across and down."""

    figure: Figure
    left: float
    inside: tuple[float, float]

    def axes(self, x: float = 0.0, y: float = 0.0, width: float | None = None, height: float | None = None) -> Any:
        """Axes that many inches from the left and from the top of the space inside; as large as it by default."""
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
    """An empty sheet, which says of the rows of ``group`` what a plot that travels alone must say.

    ``marks`` says what is drawn, ``notes`` what else the reader must know, ``noted`` whether a label bears `NOTED`.
    """
    caption = _caption(group, marks, notes, noted)
    width = left + inside[0] + right
    height = ABOVE_IN + inside[1] + 0.62 + 0.16 * len(caption)
    plot = Figure(figsize=(width, height))
    FigureCanvasAgg(plot)
    loud = "" if group.data_kind == "real" else f" \u2014 {group.data_words}"
    words = f"{title}: {group.workload}, size {group.size}{loud}"
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
    """A figure as high as its rows need, by default all of the table, and the rows by their place, the first on top.

    ``right`` is the margin there in inches. Rows with other settings than the one above stand a little apart. `NOTED`
    marks what the table has more to say on.
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
    made = sheet(among(table, rows), title, marks, inside, left=left, right=right, notes=notes, noted=noted)
    axes = made.axes()
    axes.set_yticks(list(places), names)
    axes.set_ylim(max(places) + 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(unit)
    axes.xaxis.set_major_formatter(plain_numbers())
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    return made.figure, axes, places


def among(table: Table, rows: Sequence[Row]) -> Group:
    """The table's group with these rows alone, so that what they share can be said once."""
    return replace(table.group, rows=tuple(rows))


def labels(table: Table, rows: Sequence[Row], without: Sequence[str] = ()) -> list[str]:
    """What tells these rows apart, but for the settings ``without``; with `NOTED` where the table has more to say."""
    group, noted = among(table, rows), with_notes(table)
    return [plain(group.label(row, without=without), 70) + (NOTED if row.key in noted else "") for row in rows]


def names_of_sets(table: Table, held: Sequence[Sequence[Row]], without: Sequence[str]) -> list[str]:
    """What tells sets of rows apart; with `NOTED` where the table has more to say on one of a set."""
    rows = [row for each in held for row in each]
    named = dict(zip([row.key for row in rows], labels(table, rows, without), strict=True))
    names = [[named[row.key] for row in each] for each in held]
    return [next((name for name in each if name.endswith(NOTED)), each[0]) for each in names]


def with_notes(table: Table) -> set[RowKey]:
    """The rows with failed launches, flags, or a fingerprint that differs."""
    kinds = zip(table.group.rows, table.frame["identity_kind"], strict=True)
    return {row.key for row, kind in kinds if kind == "differs" or (row.ok and (row.outcome != "ok" or row.flags))}


def wide(words: Iterable[str], size: float = 9) -> float:
    """Inches that the longest of these takes, by its outline's points: the exact extent takes ten times as long."""
    return max(float(TextPath((0, 0), word, size=size).vertices[:, 0].max()) for word in words if word.strip()) / 72


def plain(text: str, limit: int) -> str:
    """What the font can draw: a character that it lacks would be a warning and an empty box."""
    return "".join(c if c in "·\u2013—…" or c.isascii() or "\u00a0" < c < "\u0180" else "?" for c in clean(text, limit))


def plain_numbers() -> FuncFormatter:
    """Ticks without powers of ten, thousands parted."""
    return FuncFormatter(lambda x, _: f"{x:,.10g}")


def from_zero(axes: Any) -> None:
    """The upright axis from zero to a little above all that is drawn."""
    axes.set_ylim(0, 1.08 * axes.dataLim.y1)


def framed(axes: Any, unit: str) -> None:
    """Both axes with a grid, and the unit of the upright one."""
    axes.set_ylabel(unit)
    axes.yaxis.set_major_formatter(plain_numbers())
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.grid(color=GRID, linewidth=0.6)
    axes.spines["left"].set_visible(True)


def bars(
    axes: Any, places: Mapping[float, Row], widths: Mapping[float, float], left: Mapping[float, float] | None = None
) -> None:
    """Bars in their frameworks' looks, over whiskers drawn before; all of one look at once, which is faster."""
    for name in FRAMEWORKS:
        at = [y for y in widths if places[y].cell.framework == name]
        begin = [left[y] if left else 0.0 for y in at]
        if at:
            axes.barh(at, [widths[y] for y in at], left=begin, height=BAR, zorder=2, **face(name))


def whiskers(axes: Any, found: Mapping[float, tuple[float, float, float]], capsize: float = 3) -> None:
    """From low to high of each value, low and high."""
    values = [value for value, _, _ in found.values()]
    ends = [[value - low for value, low, _ in found.values()], [high - value for value, _, high in found.values()]]
    if found:
        look = {"ecolor": INK, "capsize": capsize, "elinewidth": 1, "capthick": 1}
        axes.errorbar(values, list(found), xerr=ends, fmt="none", **look)


def absent(axes: Any, y: float, row: Row) -> None:
    """No bar, but its outcome in words, where the bar would begin."""
    place = axes.get_yaxis_transform()
    axes.text(0.01, y, plain(row.outcome, 60), transform=place, va="center", style="italic", color=PALE, bbox=BEHIND)


def beside(axes: Any, y: float, words: str) -> None:
    """Words of a row, on the right of the axes."""
    axes.text(1.01, y, words, transform=axes.get_yaxis_transform(), va="center", color=INK)


def face(name: str) -> dict[str, Any]:
    """How a framework's bars look."""
    return {"facecolor": FACE[name], "hatch": HATCH[name], "edgecolor": INK, "linewidth": 0.6}


def swatch(name: str) -> Patch:
    return Patch(**face(name), label=name)


def frameworks(rows: Iterable[Row]) -> list[str]:
    """Those of the rows that ended well, in the order of all."""
    shown = {row.cell.framework for row in rows if row.ok}
    return [name for name in FRAMEWORKS if name in shown]


def legend(axes: Any, entries: Sequence[Any]) -> None:
    """In one line above the axes."""
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
    """What sets rows apart besides framework and compile mode."""
    return row.run, row.cell.precision, row.cell.batch, row.cell.loader


def _caption(group: Group, marks: str, notes: Sequence[str], noted: bool) -> list[str]:
    """How many launches, which machine, when, and on what data: what a plot that travels alone must say."""
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

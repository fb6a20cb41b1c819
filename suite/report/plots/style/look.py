"""The look of all plots: colours, hatches, markers, sizes of letters, and number formats of axes.

Plots are readable in black and white and for the colour-blind: each framework has one colour of Okabe and Ito
(https://jfly.uni-koeln.de/color/), one hatch and one marker in every plot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.textpath import TextPath
from matplotlib.ticker import FuncFormatter, MaxNLocator

from suite.analysis.rows.groups import Row
from suite.catalog.frameworks import FRAMEWORKS as ALL
from suite.plan.cell import FRAMEWORKS
from suite.report.format.names import framework

FACE = {name: each.colour for name, each in ALL.items()}
HATCH = {name: each.hatch for name, each in ALL.items()}
MARKER = {name: each.marker for name, each in ALL.items()}

#: Inches across every plot: 1080 dots, of which a README shows 880.
WIDTH_IN = 9.0
#: Size in points of the usual letters, and of the smallest: 11.5 dots high where a README shows the plot.
LETTERS, SMALL = 9.0, 8.5

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": LETTERS,
    "text.parse_math": False,  # a name may hold dollar signs
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.5,
    "svg.hashsalt": "suite",  # else the ids in an SVG are drawn anew each time
}

INK = "#222222"
PALE = "#595959"
GRID = "#DDDDDD"
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
#: The dot of a launch.
CROSS: dict[str, Any] = {"color": INK, "markersize": 4.5, "markeredgewidth": 0.9, "zorder": 4}
DOT: dict[str, Any] = {"color": "white", "markeredgecolor": INK, "markersize": 3.2, "markeredgewidth": 0.7}
#: Only these steps and their powers of ten lie between two ticks.
ROUND = (1, 2, 5, 10)
#: A line needs this many points. Two would only be joined.
LINE_LEAST = 3

#: Place of a legend that would cover lines inside the axes.
KEY: dict[str, Any] = {
    "loc": "upper left",
    "bbox_to_anchor": (1.01, 1),
    "frameon": False,
    "fontsize": SMALL,
    "borderaxespad": 0.2,
    "handlelength": 2.6,
}


def face(name: str) -> dict[str, Any]:
    """Returns the look of a framework's bars."""
    return {"facecolor": FACE[name], "hatch": HATCH[name], "edgecolor": INK, "linewidth": 0.6}


def swatch(name: str) -> Patch:
    return Patch(**face(name), label=framework(name))


def mark(name: str) -> Line2D:
    """Returns the entry of a legend for a framework's marks."""
    style: dict[str, Any] = {"markerfacecolor": FACE[name], "markeredgecolor": INK, "markersize": 7}
    return Line2D([], [], linestyle="", marker=MARKER[name], label=framework(name), **style)


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
        fontsize=SMALL,
        borderaxespad=0.2,
        columnspacing=1.2,
        handlelength=1.6,
    )


def wide(words: Iterable[str], size: float = LETTERS) -> float:
    """Returns the width in inches of the longest text, from its outline: the exact extent takes ten times as long."""
    widths = (float(TextPath((0, 0), word, size=size).vertices[:, 0].max()) for word in words if word.strip())
    return max(widths, default=0.0) / 72


def plain_numbers(unit: str = "") -> FuncFormatter:
    """Returns a formatter of ticks without powers of ten, with separated thousands and a unit at each number."""
    return FuncFormatter(lambda x, _: f"{x:,.10g}{unit}")


def round_ticks(axis: Any, most: int = 7) -> None:
    """Put at most so many ticks on the axis, at round numbers."""
    axis.set_major_locator(MaxNLocator(most, steps=ROUND))
    axis.set_major_formatter(plain_numbers())


def from_zero(axes: Any) -> None:
    """Set the y axis from zero to a little above the data."""
    axes.set_ylim(0, 1.08 * axes.dataLim.y1)


def add_frame(axes: Any, unit: str, most: int = 6) -> None:
    """Adds a grid and the unit of the y axis, which has at most so many ticks."""
    axes.set_ylabel(unit)
    round_ticks(axes.yaxis, most)
    axes.grid(color=GRID, linewidth=0.6)
    axes.spines["left"].set_visible(True)


def apart(count: int, reach: float) -> list[float]:
    """Returns offsets of ``count`` things from their middle, so that none covers another; the last is at ``reach``."""
    return [reach * (2 * place / (count - 1) - 1) for place in range(count)] if count > 1 else [0.0] * count

"""The look of all plots, and how it is drawn: a function for each kind of traces, and the axes around them.

Plots are readable in black and white and for the colour-blind: each framework has one colour of Okabe and Ito
(https://jfly.uni-koeln.de/color/), one hatch and one marker in every plot.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from suite.catalog.frameworks import FRAMEWORKS
from suite.report.plots.traces import GRID, INK, LETTERS, PALE, Axis, Panel, Rows, Traces
from suite.report.plots.vectors import point_out

FACE = {name: each.colour for name, each in FRAMEWORKS.items()}

#: Inches across every plot: 1080 dots, of which a README shows 880.
WIDTH_IN = 9.0
#: Size in points of the usual letters, and of the smallest: 11.5 dots high where a README shows the plot.
SMALL = 8.5

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": LETTERS,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.5,
    "svg.hashsalt": "suite",  # so that the ids of matplotlib's own SVG are the same each time
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
}

#: What no style changes: names of others are text, which may hold dollar signs, and which no TeX runs.
PLAIN = {"text.parse_math": False, "text.usetex": False}

#: The dot of a launch, the cross of one that does not count, a mark without a filling, and the line of a reference.
DOT: dict[str, Any] = {"marker": "o", "color": "white", "markersize": 3.2, "markeredgewidth": 0.7}
CROSS: dict[str, Any] = {"marker": "x", "color": INK, "markersize": 4.5, "markeredgewidth": 0.9}
HOLLOW = {"markerfacecolor": "white"}
DOTTED: dict[str, Any] = {"linewidth": 0.9, "linestyle": (0, (1, 2)), "marker": ""}

#: A line with marks needs this many. Two would only be joined.
LINE_LEAST = 3
#: The dashes of a framework's lines, and how their marks are filled, in the order of the lines.
DASHES = ("-", "--", "-.", ":")
SIDES = ("left", "bottom", "right", "top")
FILLINGS = ({}, HOLLOW, *({"fillstyle": side, "markerfacecoloralt": "white"} for side in SIDES))


def face(framework: str) -> dict[str, Any]:
    """Returns the look of a framework's bars."""
    return {"facecolor": FACE[framework], "hatch": FRAMEWORKS[framework].hatch} if framework else {}


def stroke(framework: str) -> dict[str, Any]:
    """Returns the look of a framework's lines and marks."""
    return {"color": FACE[framework], "marker": FRAMEWORKS[framework].marker} if framework else {"color": INK}


def nth(line: int) -> dict[str, Any]:
    """Returns what sets the lines of a framework apart."""
    return {"linestyle": DASHES[line % len(DASHES)], **FILLINGS[line % len(FILLINGS)]}


#: What the key leaves out.
NAMELESS = "_nolegend_"
#: A logarithmic axis has ticks as on a linear one up to this ratio of its ends, and powers of ten alone from the next.
NARROW, FAR = 8, 300


def draw_panel(axes: Any, panel: Panel) -> None:
    """Draws all traces of a panel, its axes, and the words beside its rows."""
    axes.set(xscale="log" if panel.x.log else "linear", yscale="log" if panel.y.log else "linear")
    axes.set_facecolor("none")  # else it covers a long name that begins in the panel on its left
    for each in panel.traces:
        PENS[each.kind](axes, each)
    _scale(axes, axes.xaxis, panel.x)
    axes.tick_params(axis="x", labelbottom=bool(panel.x.label))
    axes.grid(axis="x" if panel.rows else "both", color=GRID, linewidth=0.6)
    if panel.rows:
        _name_rows(axes, panel.rows)
    else:
        _scale(axes, axes.yaxis, panel.y)
        axes.spines["left"].set_visible(True)
    for y, words in panel.beside.items():
        place, weight = axes.get_yaxis_transform(), "bold" if y in panel.bold else "normal"
        look = {"va": "center", "size": SMALL, "weight": weight}
        axes.annotate(words, (1, y), (7, 0), place, "offset points", **look)


def _bars(axes: Any, each: Traces) -> None:
    begins = each.base or [0.0] * len(each.x)
    widths = [end - begin for begin, end in zip(begins, each.x, strict=True)]
    look = {"edgecolor": INK, "linewidth": 0.6, "height": 0.68, "zorder": 2, **face(each.group), **each.look}
    point_out(axes.barh(each.y, widths, left=begins, label=each.name or NAMELESS, **look), each.text)
    _intervals(axes, each, "xerr", each.x)


def _lines(axes: Any, each: Traces) -> None:
    look = {"linewidth": 1.6, "markersize": 5.5, "markeredgecolor": INK, "zorder": 3, **stroke(each.group), **each.look}
    if look.get("marker") and len(each.x) < LINE_LEAST:
        look["linestyle"] = ""
    _intervals(axes, each, "yerr", each.y)
    point_out(axes.plot(each.x, each.y, label=each.name or NAMELESS, **look)[0], each.text)


def _points(axes: Any, each: Traces) -> None:
    look = {"markersize": 7, "zorder": 4, "clip_on": False}
    _lines(axes, replace(each, look={**look, **each.look, "linestyle": ""}))


def _intervals(axes: Any, each: Traces, along: str, middles: Any) -> None:
    for x, y, middle, low, high in zip(each.x, each.y, middles, each.low, each.high, strict=False):
        if low < high:
            # Not below zero: of equal figures, the low one may be above the value by a rounding.
            ends = [[max(0.0, middle - low)], [max(0.0, high - middle)]]
            axes.errorbar(x, y, **{along: ends}, fmt="none", ecolor=INK, capsize=3, elinewidth=0.9, zorder=2.5)


def _words(axes: Any, each: Traces) -> None:
    look = {"xytext": (0, 0), "textcoords": "offset points", "size": SMALL, **each.look}
    for x, y, words in zip(each.x, each.y, each.text, strict=True):
        axes.annotate(words, (x, y), **look)


def _rules(axes: Any, each: Traces) -> None:
    if each.high:
        axes.axvspan(each.low[0], each.high[0], linewidth=0, **{"zorder": 0, **each.look})
    look = {"color": PALE, "linewidth": 0.8, "zorder": 1, "label": each.name or NAMELESS, **each.look}
    for draw, places in ((axes.axvline, each.x), (axes.axhline, each.y)):
        for place in places:
            draw(place, **look)


PENS = {"bars": _bars, "lines": _lines, "points": _points, "words": _words, "rules": _rules}


def _scale(axes: Any, axis: Any, each: Axis) -> None:
    name = axis.axis_name
    top = float(axes.dataLim.max["xy".index(name)])
    above = (1.06 * top if 0 < top < math.inf else 1.0) if each.low == 0 else None
    axes.set(**{f"{name}lim": (each.low, each.high or above), f"{name}label": each.label})
    low, high = axis.get_view_interval()
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
    if each.ticks:
        axis.set_ticks(each.ticks, each.names or None)
    elif each.log and high / low > NARROW:
        axis.set_major_locator(LogLocator(subs=(1.0,) if high / low > FAR else (1.0, 2.0, 5.0)))
    else:
        axis.set_major_locator(MaxNLocator("auto", steps=(1, 2, 5, 10)))


def _name_rows(axes: Any, rows: Rows) -> None:
    axes.set_yticks(list(rows.places), rows.names)
    axes.set_ylim(max(rows.places) + 0.55, -0.5)
    axes.tick_params(axis="y", length=0, pad=7)  # with room for a mark at the begin
    for y, words in rows.headings.items():
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
        place = axes.get_yaxis_transform()
        axes.text(0.0, y, words, transform=place, va="center", weight="bold", bbox=behind)

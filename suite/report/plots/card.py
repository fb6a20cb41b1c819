"""The small picture on a card of the index: bars of throughput, or curves of accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from suite.analysis.rows.wording import figure
from suite.plan.cell import FRAMEWORKS
from suite.report.format.names import framework
from suite.report.plots import use_style
from suite.report.plots.style.bars import BAR
from suite.report.plots.style.look import DOT, FACE, INK, KEY, LETTERS, PALE, SMALL, face
from suite.report.plots.style.vectors import draw_svg, embed

#: Inches: width of a card, height of a bar and of curves, and the room below for the caption.
WIDTH_IN, BAR_IN, CURVES_IN, BELOW_IN = 4.0, 0.28, 1.0, 0.25
#: Where the axes begin, and how wide they are, as shares of the width.
LEFT, ACROSS = 0.21, 0.48

#: By framework, the values of each of its cells.
Values = Mapping[str, Sequence[Sequence[float]]]


def draw_card(values: Values, unit: str, number: int, looks: dict[str, str] | None = None) -> str:
    """Returns a picture for a page, as `embed` does: a bar per framework, or a curve per cell with several values."""
    shown = {name: values[name] for name in FRAMEWORKS if values.get(name)}
    if not shown:
        return ""
    curves = any(len(cell) > 1 for cells in shown.values() for cell in cells)
    up = BELOW_IN + (CURVES_IN if curves else BAR_IN * len(shown))
    several = not curves and any(len(cells) > 1 for cells in shown.values())
    with use_style():
        plot = Figure(figsize=(WIDTH_IN, up))
        FigureCanvasAgg(plot)
        axes = plot.add_axes((LEFT, BELOW_IN / up, ACROSS, 1 - BELOW_IN / up))
        axes.set_axis_off()
        words = _curves(axes, shown) if curves else _bars(axes, shown)
        caption = f"{unit}, higher is better{' (dot: one setting)' if several else ''}"
        plot.text(LEFT, 0.05 / up, caption, size=SMALL, color=PALE)
        return embed(draw_svg(plot), number, f"{unit}: {words}", looks)


def _bars(axes: Any, values: Values) -> str:
    """Draws the highest value of each framework as a bar and all of its cells as dots; returns the values in words."""
    words = []
    highest = max(value for cells in values.values() for (value,) in cells) or 1.0
    for y, (name, cells) in enumerate(values.items()):
        found = sorted(value for (value,) in cells)
        axes.barh([y], [found[-1]], height=BAR, **face(name))
        axes.plot(found, [y] * len(found), "o", **DOT)
        axes.text(-0.02 * highest, y, framework(name), ha="right", va="center", size=LETTERS, color=INK)
        axes.text(found[-1] + 0.03 * highest, y, figure(found[-1]), va="center", size=LETTERS, color=INK)
        words.append(f"{framework(name)} {figure(found[-1])}")
    axes.set_xlim(0, highest)
    axes.set_ylim(len(values) - 0.5, -0.5)
    return ", ".join(words)


def _curves(axes: Any, values: Values) -> str:
    """Draws a line per cell, named at its end; returns the range of the values in words."""
    every = [value for cells in values.values() for cell in cells for value in cell]
    low, high = min(every), max(every)
    for name, cells in values.items():
        for cell in cells:
            axes.plot([at / max(1, len(cell) - 1) for at in range(len(cell))], cell, color=FACE[name])
    axes.legend(handles=[Line2D([], [], color=FACE[name], label=framework(name)) for name in values], **KEY)
    for y, value, up in ((0.0, low, "bottom"), (1.0, high, "top")):
        axes.text(-0.03, y, f"{value:.2f}", transform=axes.transAxes, ha="right", va=up, size=SMALL, color=PALE)
    return f"from {low:.2f} to {high:.2f}, {', '.join(framework(name) for name in values)}"

"""The roofline: rates of the parts of a training step against their arithmetic intensity, all frameworks in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from suite.analysis.bottlenecks.roofline import STEP, Roof, RooflinePart, RooflineRow, roofline
from suite.analysis.rows.groups import SETTINGS, Row
from suite.analysis.rows.wording import figure
from suite.plan.cell import FRAMEWORKS, USUAL_COMPILE
from suite.report.format.names import framework
from suite.report.plots.kinds import kind
from suite.report.plots.style.canvas import note_left_out, sheet
from suite.report.plots.style.look import (
    FACE,
    INK,
    MARKER,
    PALE,
    SMALL,
    WIDTH_IN,
    add_frame,
    frameworks,
    legend,
    mark,
    plain_numbers,
)
from suite.report.plots.style.naming import among, title_of
from suite.report.plots.style.vectors import point_out
from suite.report.tables.frame import Table

#: The letter beside a mark, and what it stands for.
LETTERS_OF = {
    "convolution forward": ("f", "convolutions forward"),
    "convolution input gradient": ("x", "their input gradients"),
    "convolution weight gradient": ("w", "their weight gradients"),
    "matrix products": ("m", "matrix products and recurrent kernels"),
    STEP: ("s", "the whole step (hollow)"),
}
UP_IN, LEFT_IN, RIGHT_IN = 4.2, 0.85, 0.35


@kind(
    "roofline", "Roofline: rate of each part of a training step against its FLOPs per byte, below the peaks", place=14
)
def roof(table: Table) -> Figure | None:
    """A mark per part and framework under the roof, of the setting that most frameworks have."""
    placed = _choose_rows(roofline(table.group))
    marks = [(each, part) for each in placed for part in each.parts if part.intensity]
    if not marks:
        return None
    rows = [each.row for each in placed]
    group = among(table, rows)
    roofs = dict.fromkeys(each.roof for each in placed)
    layout = sheet(
        group,
        title_of(group, "Roofline", of="of"),
        "Line: the most that the device can do, from measured peaks of compute and of memory bandwidth. Mark: a part "
        f"of the step; the nearer to the line, the better the device is used. {_letters(marks)}",
        (WIDTH_IN - LEFT_IN - RIGHT_IN, UP_IN),
        left=LEFT_IN,
        right=RIGHT_IN,
        notes=[
            "FLOPs are the spec's, bytes those of the shapes in the profile.",
            *note_left_out(table, rows, "with other settings, or without a profile, bytes or peaks"),
        ],
    )
    axes = layout.axes()
    at = [part.intensity or 0.0 for _, part in marks]
    rates = [part.flops_per_s / 1e9 for _, part in marks]
    low, high = min(*at, *(each.ridge for each in roofs)) / 3, max(*at, *(each.ridge for each in roofs)) * 3
    for line in roofs:
        _line(axes, line, low, high)
    for (each, part), x, y in zip(marks, at, rates, strict=True):
        name = each.row.cell.framework
        style = {"markeredgecolor": INK, "markersize": 6.5, "markeredgewidth": 0.8, "zorder": 3}
        if part.name == STEP:  # hollow and behind, since it lies among its parts
            style = {"markeredgecolor": FACE[name], "markersize": 9, "markeredgewidth": 1.8, "zorder": 2}
        (drawn,) = axes.plot(x, y, MARKER[name], color="white" if part.name == STEP else FACE[name], **style)
        point_out(drawn, [f"{framework(name)}, {part.name}: {figure(y)} GFLOP/s at {figure(x)} FLOP per byte"])
        axes.annotate(
            LETTERS_OF[part.name][0], (x, y), (6, -3), "data", "offset points", size=SMALL, color=INK, zorder=4
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    lowest = min(*rates, *(each.at(low) / 1e9 for each in roofs))
    axes.set_ylim(lowest / 1.6, 1.8 * max(each.flops_per_s for each in roofs) / 1e9)
    add_frame(axes, "GFLOP/s (higher is better)")
    _ticks(axes)
    axes.set_xlabel("arithmetic intensity in FLOP per byte")
    legend(axes, [*map(mark, frameworks(rows)), Line2D([], [], color=PALE, linewidth=1.6, label="roof")])
    return layout.figure


def _letters(marks: Sequence[tuple[RooflineRow, RooflinePart]]) -> str:
    """Returns what the letters of these marks stand for."""
    drawn = {part.name for _, part in marks}
    return " ".join(f"{letter}: {words}." for name, (letter, words) in LETTERS_OF.items() if name in drawn)


def _choose_rows(placed: Sequence[RooflineRow]) -> list[RooflineRow]:
    """Returns a row of each framework, in the setting that most of them have; each in its usual compile mode."""
    shared = [name for name in SETTINGS if name != "compile"]
    sets: dict[tuple[str, ...], dict[str, RooflineRow]] = {}
    for each in sorted(placed, key=lambda each: not _usual(each.row)):
        values = tuple(SETTINGS[name](each.row) for name in shared)
        sets.setdefault(values, {}).setdefault(each.row.cell.framework, each)
    fullest = max(sets.values(), key=len, default={})
    return [fullest[name] for name in FRAMEWORKS if name in fullest]


def _usual(row: Row) -> bool:
    return row.cell.compile == USUAL_COMPILE[row.cell.framework]


def _line(axes: Any, roof: Roof, low: float, high: float) -> None:
    """Draw a roof, and write both peaks at it."""
    at = np.array([low, min(max(roof.ridge, low), high), high])
    axes.plot(at, [roof.at(x) / 1e9 for x in at], color=PALE, linewidth=1.6, zorder=1)
    words = f"{figure(roof.flops_per_s / 1e9)} GFLOP/s, {figure(roof.bytes_per_s / 1e9)} GB/s"
    # Beside the corner, on the side with more room: parts lie near the roof at its right end.
    corner = min(max(roof.ridge, low), high)
    side, gap = ("left", 4) if corner * corner < low * high else ("right", -4)
    axes.annotate(
        words, (corner, roof.flops_per_s / 1e9), (gap, 5), "data", "offset points", ha=side, size=SMALL, color=PALE
    )


def _ticks(axes: Any) -> None:
    """Put ticks with plain numbers at powers of ten, or closer where an axis has few of those."""
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        axis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 300 else (1.0, 2.0, 5.0)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(plain_numbers())

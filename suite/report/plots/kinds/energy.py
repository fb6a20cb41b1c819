"""Energy per sample against throughput, with the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from math import dist
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from suite.analysis.rows.groups import Row
from suite.analysis.rows.metrics import first_gpu
from suite.analysis.rows.wording import figure
from suite.report.plots.kinds import kind
from suite.report.plots.style.canvas import sheet
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
    round_ticks,
    wide,
)
from suite.report.plots.style.naming import among, labels_of, title_of
from suite.report.plots.style.vectors import point_out
from suite.report.tables.curves import Consumption, consumptions
from suite.report.tables.frame import Table

#: With more cells than this only those on the front are numbered.
NUMBERED = 40
#: Marks closer than this share one label, in inches.
NEAR_IN = 0.22


@kind("energy", "Energy per sample against throughput, with the Pareto front", place=8)
def energy(table: Table) -> Figure | None:
    """A mark per cell, numbered by throughput; marks on the Pareto front are filled and joined by a line."""
    points = sorted(consumptions(table), key=lambda each: -each.samples_per_s)
    if not points:
        return None
    rows = [each.row for each in points]
    named = [each for each in points if each.on_front or len(points) <= NUMBERED]
    names = dict(zip([row.key for row in rows], labels_of(table, rows), strict=True))
    key = [f"{number}  {names[each.row.key]}" for number, each in enumerate(named, 1)]
    right = 0.4 + wide(key, SMALL)
    group = among(table, rows)
    layout = sheet(
        group,
        title_of(group, "Energy and throughput"),
        "Medians over launches. Better is to the right and down.",
        (max(3.6, WIDTH_IN - 0.8 - right), max(4.2, 0.18 * len(key))),
        right=right,
        notes=[_energy_note(rows)],
        labels=list(names.values()),
    )
    axes = layout.axes()
    _front(axes, points)
    for each in points:
        name = each.row.cell.framework
        color = FACE[name] if each.on_front else "white"
        style = {"markeredgecolor": INK if each.on_front else FACE[name], "markersize": 7, "markeredgewidth": 1.2}
        (drawn,) = axes.plot(each.samples_per_s, each.joules, MARKER[name], color=color, **style)
        point_out(
            drawn, [f"{names[each.row.key]}: {figure(each.samples_per_s)} samples/s, {figure(each.joules)} J each"]
        )
    right_most, top = 1.08 * max(each.samples_per_s for each in points), 1.1 * max(each.joules for each in points)
    across, up = layout.inside
    places = [(each.samples_per_s / right_most * across, each.joules / top * up) for each in named]
    for first, last in together(places, NEAR_IN):
        words = f"{first + 1}" if first == last else f"{first + 1}\u2013{last + 1}"
        place = named[first].samples_per_s, named[first].joules
        axes.annotate(words, place, (5, 4), "data", "offset points", size=SMALL, color=INK)
    for number, words in enumerate(key):
        offset = (10, -12.5 * number - 4)
        axes.annotate(words, (1, 1), offset, "axes fraction", "offset points", va="top", size=SMALL)
    axes.set_xlim(0, right_most)
    axes.set_ylim(0, top)
    axes.set_xlabel("samples per second (higher is better)")
    add_frame(axes, "joules per sample (lower is better)", 7)
    round_ticks(axes.xaxis)
    legend(axes, [*map(mark, frameworks(rows)), Line2D([], [], color=PALE, linestyle="--", label="Pareto front")])
    return layout.figure


def together(places: Sequence[tuple[float, float]], near: float) -> list[tuple[int, int]]:
    """Returns first and last index of each run of places that are near their predecessor."""
    runs: list[tuple[int, int]] = []
    for number, place in enumerate(places):
        if runs and dist(place, places[number - 1]) <= near:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return runs


def _front(axes: Any, points: list[Consumption]) -> None:
    """Draw a line through the Pareto front of each machine."""
    for machine in dict.fromkeys(each.row.machine for each in points):
        front = [each for each in points if each.on_front and each.row.machine == machine]
        at = [each.samples_per_s for each in front], [each.joules for each in front]
        axes.plot(*at, color=PALE, linestyle="--", linewidth=1, zorder=1)


def _energy_note(rows: list[Row]) -> str:
    """Describes what the energy is of, and how it was measured."""
    sources = [first_gpu(record).get("energy_source") for row in rows for record in row.ok]
    polled = ", in part from polled power, which is less exact" if "polled power" in sources else ""
    return f"Energy of the first GPU over the training windows{polled}. Filled: no other cell is better in both."

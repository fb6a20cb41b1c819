"""When a compile mode pays off: elapsed time against steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from suite.analysis.rows.wording import figure
from suite.report.plots.kinds import kind
from suite.report.plots.style.canvas import sheet
from suite.report.plots.style.look import (
    FACE,
    INK,
    KEY,
    LETTERS,
    SMALL,
    WIDTH_IN,
    add_frame,
    from_zero,
    round_ticks,
    wide,
)
from suite.report.plots.style.naming import among, names_of_sets, workload_name
from suite.report.plots.style.vectors import point_out
from suite.report.tables.curves import CompileCost, courses
from suite.report.tables.frame import Table

DASHES = {"eager": ":", "graph": "--", "compile": "-", "max": "-.", "nographs": (0, (5, 1, 1, 1, 1, 1))}

#: Inches: least width of the axes, height of each, and the space between two.
ACROSS_IN, UP_IN, BETWEEN_IN = 4.4, 2.3, 0.8
#: Panels that are drawn, at most.
PANELS = 12


@kind("break-even", "Training time by steps for each compile mode, with the points where one pays off", place=9)
def break_even(table: Table) -> Figure | None:
    """A panel per cell that ran in several compile modes: elapsed time against steps, crossings marked."""
    mode_sets = courses(table)
    if not mode_sets:
        return None
    shown = mode_sets[:PANELS]
    rows = [course.row for modes in shown for course in modes]
    verdict_sets = [_verdicts(modes) for modes in shown]
    right = 0.8 + wide((verdict for verdicts in verdict_sets for verdict in verdicts), SMALL)
    more = len(mode_sets) - PANELS
    omitted = [f"Not drawn: {more} more cells with several modes."] if more > 0 else []
    high = len(shown) * UP_IN + (len(shown) - 1) * BETWEEN_IN
    titles = names_of_sets(table, [[course.row for course in modes] for modes in shown], without=("compile",))
    layout = sheet(
        among(table, rows),
        f"When compiling pays off: training time of {workload_name(table.group)}, by compile mode",
        "Lines: time of the first step, which includes compiling, and of so many median steps after it; medians over "
        "launches. Circle: a mode has made up for its longer start.",
        (max(ACROSS_IN, WIDTH_IN - 0.8 - right), high),
        right=right,
        notes=omitted,
        labels=titles,
    )
    for number, (modes, title, verdicts) in enumerate(zip(shown, titles, verdict_sets, strict=True)):
        axes = layout.axes(0, number * (UP_IN + BETWEEN_IN), height=UP_IN)
        add_frame(axes, "seconds (lower is better)")
        axes.set_title(title, loc="left", size=LETTERS, weight="bold", color=INK)
        _courses(axes, modes, verdicts)
    axes.set_xlabel("steps after the first")
    return layout.figure


def _courses(axes: Any, modes: Sequence[CompileCost], verdicts: Sequence[str]) -> None:
    end = _last_step(modes)
    steps = np.array([0.0, end])
    for course, words in zip(modes, verdicts, strict=True):
        style = {"linestyle": DASHES[course.row.cell.compile], "linewidth": 1.8}
        times = course.first_s + steps * course.step_s
        (line,) = axes.plot(steps, times, color=FACE[course.row.cell.framework], **style)
        point_out(line, [words])
        if course.pays_after and course.pays_after <= end:
            place = course.pays_after, course.at(course.pays_after)
            axes.plot(*place, "o", color="white", markeredgecolor=INK, markersize=6, zorder=4)
    axes.set_xlim(0, end)
    from_zero(axes)
    round_ticks(axes.xaxis)
    axes.legend(
        handles=[
            Line2D(
                [], [], color=FACE[c.row.cell.framework], linestyle=DASHES[c.row.cell.compile], linewidth=1.8, label=t
            )
            for c, t in zip(modes, verdicts, strict=True)
        ],
        **KEY,
    )


def _last_step(modes: Sequence[CompileCost]) -> float:
    """Returns where the x axis ends: 1.5 times the last crossing, else when steps took twice the longest first step."""
    crossings = [course.pays_after for course in modes if course.pays_after]
    if crossings:
        return max(2.0, 1.5 * max(crossings))
    return max(2.0, 2 * max(course.first_s for course in modes) / min(course.step_s for course in modes))


def _verdicts(modes: Sequence[CompileCost]) -> list[str]:
    """Returns the legend text of each mode, the usual one first."""
    words = [f"{modes[0].row.cell.compile} (usual)"]
    for course in modes[1:]:
        after = course.pays_after
        pays = "never pays off"
        if after is not None:
            pays = f"pays off after {figure(after)} steps" if after else "pays off at once"
        words.append(f"{course.row.cell.compile}: {pays}")
    return words

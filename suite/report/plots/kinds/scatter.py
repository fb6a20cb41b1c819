"""How times scatter: the steps of each cell around their median, and the latencies of its requests."""

from __future__ import annotations

from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from suite.analysis.rows.groups import Row
from suite.analysis.rows.wording import figure
from suite.analysis.statistics.serving import Serving
from suite.record.text import clean
from suite.report.plots.kinds import kind
from suite.report.plots.style.bars import absent, bars, beside, whiskers
from suite.report.plots.style.canvas import canvas, note_left_out
from suite.report.plots.style.look import FACE, INK, MARKER, PALE, apart, frameworks, legend, mark, plain_numbers, wide
from suite.report.plots.style.vectors import point_out
from suite.report.tables.frame import Table, step_times_ms


@kind("step-times", "Box plot of the scatter of step times around the median of each cell", place=5)
def step_times(table: Table) -> Figure:
    """Boxes: quartiles over the windows of all launches; dots: the windows, a line of dots per launch.

    In percent of the cell's median, which is written beside it: in milliseconds the batch sizes would set the scale
    and hide the scatter. A stalled window does not set the scale either: outliers are named at the margin.
    """
    plot, axes, places = canvas(
        table,
        "Scatter of step times",
        "step time in % of the cell's median (less scatter is better)",
        "Dot: mean of one timed window; each launch has its own line of dots. Box: quartiles. Whisker: lowest to "
        "highest. On the right: the median.",
        right=1.75,
    )
    axes.axvline(100, color=PALE, linewidth=0.8)
    scaled = {y: _percent_of_median(row) for y, row in places.items()}
    quartiles = {
        y: np.percentile(np.concatenate(launches), [0, 25, 75, 100]) for y, launches in scaled.items() if launches
    }
    edge = max(105.0, *(q3 + 5 * (q3 - q1) for _, q1, q3, _ in quartiles.values()))
    # Drawn by hand: matplotlib's boxplot imports pyplot, which looks for a display.
    whiskers(axes, {y: (100.0, low, high) for y, (low, _, _, high) in quartiles.items()}, capsize=4)
    bars(
        axes,
        places,
        {y: q3 - q1 for y, (_, q1, q3, _) in quartiles.items()},
        {
            y: f"half of the windows within {q1:.0f} to {q3:.0f} % of the median"
            for y, (_, q1, q3, _) in quartiles.items()
        },
        {y: each[1] for y, each in quartiles.items()},
    )
    axes.vlines(
        [100] * len(quartiles), [y - 0.33 for y in quartiles], [y + 0.33 for y in quartiles], INK, linewidth=1.6
    )
    dots = [
        (time, y + offset) for y, launches in scaled.items() for offset, times in _lanes(launches) for time in times
    ]
    axes.plot(*zip(*dots, strict=True), "o", color="white", markeredgecolor=INK, markersize=2.4, markeredgewidth=0.5)
    for y, row in places.items():
        if y in quartiles:
            high = quartiles[y][3]
            beyond = f", up to {high:,.0f} %" if high > edge else ""
            beside(axes, y, f"{figure(median(step_times_ms(row.ok)))} ms{beyond}")
        else:
            absent(axes, y, row)
    lowest = min(95.0, *(low for low, *_ in quartiles.values()))
    highest = min(edge, max(105.0, *(high for *_, high in quartiles.values())))
    margin = 0.04 * (highest - lowest)
    axes.set_xlim(lowest - margin, highest + margin)
    return plot


def _percent_of_median(row: Row) -> list[list[float]]:
    """Returns the step times of the windows in percent of the row's median, by launch."""
    times = [step_times_ms([record]) for record in row.ok]
    middle = median(step_times_ms(row.ok)) if times else 1.0
    return [[100 * t / middle for t in launches] for launches in times]


def _lanes(launches: list[list[float]]) -> list[tuple[float, list[float]]]:
    """Returns each launch's step times with the offset of its line of dots from the middle of the box."""
    return list(zip(apart(len(launches), 0.24), launches, strict=True))


#: The marks of a line by figure: what each is called, and its look.
MARKS: dict[str, tuple[str, dict[str, Any]]] = {
    "latency_ms_p95": ("95th percentile", {"marker": "|", "markersize": 9, "markeredgewidth": 1.6}),
    "latency_ms_p99": ("99th percentile", {"marker": "|", "markersize": 14, "markeredgewidth": 1.6}),
    "latency_ms_worst": ("worst", {"marker": "x", "markersize": 6, "markeredgewidth": 1.2}),
}
MEDIAN = "latency_ms_median"


@kind("latencies", "Median, 95th and 99th percentile and worst latency of requests, by cell", place=11)
def latencies(table: Table) -> Figure | None:
    """A line per cell from the median to the worst latency, with a mark at each percentile, over a logarithmic axis."""
    served = table.findings.servings
    rows = [row for row in table.group.rows if row.key in served and MEDIAN in served[row.key].figures]
    if not rows:
        return None
    words = {row.key: _words(served[row.key]) for row in rows}
    plot, axes, places = canvas(
        table,
        "Latency of inference",
        "milliseconds for a request of one sample, logarithmic (lower is better)",
        "Each mark is the median over launches of a launch's own percentile. On the right: median, 95th and 99th "
        "percentile.",
        right=0.25 + wide(words.values()),
        rows=rows,
        notes=note_left_out(table, rows, "without inference"),
    )
    axes.set_xscale("log")
    for y, row in places.items():
        figures = {name: each.value for name, each in served[row.key].figures.items() if name.startswith("latency")}
        name = row.cell.framework
        axes.plot([figures[MEDIAN], max(figures.values())], [y, y], color=FACE[name], linewidth=2.4, zorder=2)
        for each, (called, look) in MARKS.items():
            if each in figures:
                drawn = axes.plot([figures[each]], [y], color=INK, linestyle="", zorder=3, **look)
                point_out(drawn[0], [f"{clean(row.cell.id)}: {called} {figure(figures[each])} ms"])
        style = {"markeredgecolor": INK, "markersize": 7, "zorder": 4}
        drawn = axes.plot([figures[MEDIAN]], [y], MARKER[name], color=FACE[name], **style)
        point_out(drawn[0], [f"{clean(row.cell.id)}: median {figure(figures[MEDIAN])} ms"])
        beside(axes, y, words[row.key])
    axes.xaxis.set_major_formatter(plain_numbers())
    axes.xaxis.set_minor_formatter(NullFormatter())
    entries = [Line2D([], [], color=INK, linestyle="", label=called, **look) for called, look in MARKS.values()]
    legend(axes, [*map(mark, frameworks(rows)), *entries])
    return plot


def _words(serving: Serving) -> str:
    names = (MEDIAN, "latency_ms_p95", "latency_ms_p99")
    return " · ".join(figure(serving.figures[name].value) for name in names if name in serving.figures) + " ms"

"""How the step times of each cell scatter around their median."""

from __future__ import annotations

from statistics import median

import numpy as np
from matplotlib.figure import Figure

from suite.analysis.rows.groups import Row
from suite.analysis.rows.wording import figure
from suite.report.plots.kinds import kind
from suite.report.plots.style.bars import absent, bars, beside, whiskers
from suite.report.plots.style.canvas import canvas
from suite.report.plots.style.look import INK, PALE, apart
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

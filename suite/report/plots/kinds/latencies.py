"""Latencies of inference: the percentiles of each cell's requests."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from suite.analysis.rows.wording import figure
from suite.analysis.statistics.serving import Serving
from suite.record.text import clean
from suite.report.plots.kinds import kind
from suite.report.plots.style.bars import beside
from suite.report.plots.style.canvas import canvas, left_out
from suite.report.plots.style.look import FACE, INK, MARKER, frameworks, legend, mark, plain_numbers, wide
from suite.report.plots.style.vectors import point_out
from suite.report.tables.frame import Table

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
        notes=left_out(table, rows, "without inference"),
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

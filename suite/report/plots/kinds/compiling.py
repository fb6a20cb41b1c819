"""When a compile mode pays off: elapsed time against steps."""

from __future__ import annotations

from collections.abc import Sequence

from suite.analysis.rows.wording import figure
from suite.report.plots import charts, naming
from suite.report.plots.kinds import kind
from suite.report.plots.traces import Axis, Chart, Panel, Traces
from suite.report.tables.curves import CompileCost, courses
from suite.report.tables.frame import Table

DASHES = {"eager": ":", "graph": "--", "compile": "-", "max": "-.", "nographs": (0, (5, 1, 1, 1, 1, 1))}
MARKS = (
    "Lines: time of the first step, which includes compiling, and of so many median steps after it; medians over "
    "launches. Circle: a mode has made up for its longer start."
)
#: Panels that are drawn, at most.
PANELS = 12


@kind("break-even", "Training time by steps for each compile mode, with the points where one pays off", place=9)
def break_even(table: Table) -> Chart | None:
    """A panel per cell that ran in several compile modes: elapsed time against steps, crossings marked."""
    sets = courses(table)
    if not sets:
        return None
    titles = naming.names_of_sets(table, [[mode.row for mode in modes] for modes in sets[:PANELS]], ("compile",))
    group = naming.among(table, (mode.row for modes in sets[:PANELS] for mode in modes))
    more = len(sets) - PANELS
    title = naming.title_of(group, "When compiling pays off: training time", by=False)
    return charts.chart(
        group,
        f"{title}, by compile mode",
        [[_panel(modes, title)] for modes, title in zip(sets, titles, strict=False)],
        [MARKS, f"Not drawn: {more} more cells with several modes." if more > 0 else ""],
    )


def _panel(modes: Sequence[CompileCost], title: str) -> Panel:
    """Returns a line for each mode up to 1.5 times the last crossing, else until steps took twice the longest start."""
    crossings = [mode.pays_after for mode in modes if mode.pays_after]
    steps = 2 * max(mode.first_s for mode in modes) / min(mode.step_s for mode in modes)
    end = max(2.0, 1.5 * max(crossings) if crossings else steps)
    traces = []
    for mode in modes:
        words = _verdict(mode, usual=mode is modes[0])
        look = {"linestyle": DASHES.get(mode.row.cell.compile, "-"), "marker": ""}
        times = mode.first_s, mode.at(end)
        traces.append(Traces("lines", (0, end), times, (), (), [words], mode.row.cell.framework, words, look=look))
    paid = [(mode.pays_after, mode.at(mode.pays_after), "") for mode in modes if mode.pays_after]
    traces.append(charts.points(paid, {"marker": "o", "color": "white", "markersize": 6}))
    return Panel(
        traces, Axis("steps after the first", high=end), Axis("seconds (lower is better)"), title=title, height=2.3
    )


def _verdict(mode: CompileCost, usual: bool) -> str:
    """Returns after how many steps a mode has paid off."""
    if usual:
        return f"{mode.row.cell.compile} (usual)"
    after = {None: "never pays off", 0.0: "pays off at once"}
    return f"{mode.row.cell.compile}: {after.get(mode.pays_after) or f'pays off after {figure(mode.pays_after)} steps'}"

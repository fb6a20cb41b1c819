"""The path of a search: until which launch each cell stayed in the race, and how good it was."""

from __future__ import annotations

import math

from suite.analysis.rows.groups import Row
from suite.analysis.search.state import WORSE, Race
from suite.plan.cell import Cell
from suite.report.format.names import count
from suite.report.plots import charts
from suite.report.plots.traces import INK, Axis, Chart, Panel, Rows, Traces
from suite.report.text.search import label, title, verdict

#: Cells that have a row; of more, those that stayed longest.
ROWS_MOST = 40


def race_plot(race: Race) -> Chart | None:
    """A bar per cell from the first launch to that at which it went, best on top; None before the first launch."""
    if not race.fits:
        return None
    means = {cell: mean for cell, mean in zip(race.cells, race.fits[0].means, strict=True) if not math.isnan(mean)}
    out = sorted(race.out, key=lambda cell: (-race.out[cell].launches, -means.get(cell, -math.inf)))
    launched = [cell for cell in out if race.out[cell].launched or race.records.get(cell)]
    cells = [*filter(race.records.get, race.ranked), *launched][:ROWS_MOST]
    if not cells:
        return None
    rows = Rows(
        {float(y): Row("", cell, ()) for y, cell in enumerate(cells)}, [label(each, race.cells) for each in cells]
    )
    ends = {
        y: float(race.out[row.cell].launches if row.cell in race.out else race.launches)
        for y, row in rows.places.items()
    }
    left = frozenset(y for y, row in rows.places.items() if row.cell not in race.out)
    best = max((means[cell] for cell in race.alive if cell in means), default=math.nan)
    dotted = {"linewidth": 0.6, "linestyle": ":"}
    traces = [
        *charts.bars(rows, {y: (end, end, end) for y, end in ends.items()}, "launches"),
        charts.points([(ends[y], y, "") for y in left], {"marker": "o", "markersize": 4, "color": INK}),
        Traces("rules", [step.launches for step in race.path], look=dotted),
    ]
    beside = {y: _standing(race, row.cell, means.get(row.cell, math.nan) - best) for y, row in rows.places.items()}
    more = len(race.cells) - len(cells)
    caption = [
        "Each bar ends at the launch of the search after which its cell was out; a dot marks cells that are left. "
        "On the right: how good the cell is, as a share of the best one.",
        f"Not drawn: {count(more, 'cell')} that went earlier or never ran." if more else "",
        f"{count(race.launches, 'launch')} in {count(race.blocks, 'block')}, whose ends are dotted lines.",
    ]
    panel = Panel(traces, Axis("launches of the search"), rows=rows, beside=beside, bold=left)
    return charts.finish(Chart(f"The path of the search: {title(race)}", [verdict(race)], caption, [[panel]]))


def _standing(race: Race, cell: Cell, behind: float) -> str:
    if cell in race.out and race.out[cell].kind != WORSE:
        return race.out[cell].kind
    return "" if math.isnan(behind) else f"{math.exp(behind):.2f}"

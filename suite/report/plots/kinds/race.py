"""The path of a search: until which launch each cell stayed in the race, and how good it was."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.figure import Figure

from suite.analysis.search.state import WORSE, Race
from suite.plan.cell import Cell
from suite.report.format.names import count
from suite.report.plots.style.bars import BAR
from suite.report.plots.style.canvas import ROW_IN, paper
from suite.report.plots.style.look import (
    BEHIND,
    GRID,
    INK,
    LETTERS,
    PALE,
    WIDTH_IN,
    face,
    legend,
    round_ticks,
    swatch,
    wide,
)
from suite.report.text.search import label, title, verdict

#: Cells that have a row; of more, those that stayed longest.
ROWS_MOST = 40
#: Inches for the figures on the right.
RIGHT_IN = 1.25
#: What stands on the right of a cell that was not beaten.
ENDS = {"failed": "failed", "limit": "limit", "learned worse": "learned worse", "not proved": "not proved"}


def race_plot(race: Race) -> Figure | None:
    """A bar per cell from the first launch to that at which it went, best on top; None before the first launch."""
    ordered = [cell for cell in _order(race) if race.records.get(cell) or _was_launched(race, cell)]
    if not ordered or not race.fits:
        return None
    cells = ordered[:ROWS_MOST]
    names = [label(cell, race.cells) for cell in cells]
    left = 0.35 + wide(names)
    inside = max(WIDTH_IN - left - RIGHT_IN, 3.0), ROW_IN * (len(cells) + 0.4)
    caption = [
        "Each bar ends at the launch of the search after which its cell was out; a dot marks cells that are left. "
        "On the right: how good the cell is, as a share of the best one.",
        f"Not drawn: {count(len(race.cells) - len(cells), 'cell')} that went earlier or never ran."
        if len(cells) < len(race.cells)
        else "",
        f"{count(race.launches, 'launch')} in {count(race.blocks, 'block')}, whose ends are dotted lines.",
    ]
    head = [verdict(race)]
    sheet = paper(f"The path of the search: {title(race)}", head, caption, inside, left=left, right=RIGHT_IN)
    axes = sheet.axes()
    _bars(axes, race, cells)
    axes.set_yticks(range(len(cells)), names)
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.02 * max(1, race.launches))
    axes.set_xlabel("launches of the search")
    round_ticks(axes.xaxis)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    for step in race.path:
        axes.axvline(step.launches, color=PALE, linewidth=0.6, linestyle=":", zorder=1)
    frameworks = dict.fromkeys(cell.framework for cell in cells)
    legend(axes, [swatch(name) for name in frameworks])
    return sheet.figure


def _bars(axes: Any, race: Race, cells: list[Cell]) -> None:
    means = dict(zip(race.cells, race.fits[0].means, strict=True))
    top = max((mean for cell, mean in means.items() if cell in race.alive and not math.isnan(mean)), default=math.nan)
    for y, cell in enumerate(cells):
        gone = race.out.get(cell)
        axes.barh([y], [gone.launches if gone else race.launches], height=BAR, zorder=2, **face(cell.framework))
        if not gone:
            axes.plot([race.launches], [y], "o", color=INK, markersize=4, zorder=4, clip_on=False)
        words = ENDS.get(gone.kind, "") if gone and gone.kind != WORSE else ""
        share = math.exp(means[cell] - top) if not math.isnan(means[cell] - top) else math.nan
        words = words or ("" if math.isnan(share) else f"{share:.2f}")
        place = axes.get_yaxis_transform()
        weight = "normal" if gone else "bold"
        axes.text(1.03, y, words, transform=place, va="center", size=LETTERS, color=INK, weight=weight, bbox=BEHIND)


def _order(race: Race) -> list[Cell]:
    """The cells that are left, the best first; then the others, those that stayed longest and were better first."""
    means = dict(zip(race.cells, race.fits[0].means, strict=True)) if race.fits else {}

    def key(cell: Cell) -> tuple[int, float]:
        mean = means.get(cell, math.nan)
        return -race.out[cell].launches, math.inf if math.isnan(mean) else -mean

    return [*race.ranked, *sorted(race.out, key=key)]


def _was_launched(race: Race, cell: Cell) -> bool:
    return cell in race.out and race.out[cell].launched > 0

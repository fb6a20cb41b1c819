"""Where the time of a training step goes: a bar per cell, stacked by category."""

from __future__ import annotations

from statistics import median
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from suite.analysis.bottlenecks.costs import Costs, costs
from suite.analysis.rows.wording import figure
from suite.record.parts.profile import CATEGORIES
from suite.report.plots.kinds import kind
from suite.report.plots.style.bars import stack
from suite.report.plots.style.canvas import ROW_IN, note_left_out, rows_of, sheet, stack_rows
from suite.report.plots.style.look import INK, KEY, SMALL, WIDTH_IN, wide
from suite.report.plots.style.naming import among, note_unsupported, title_of
from suite.report.tables.frame import Table

#: Colour and hatch of every category, of one colour those that one kind of layer causes; no framework's colour is among
#: them.
LOOKS = {
    "convolution forward": ("#8DA0CB", ""),
    "convolution input gradient": ("#8DA0CB", "////"),
    "convolution weight gradient": ("#D55E00", ""),
    "matrix product": ("#C49C6B", ""),
    "recurrent kernel": ("#C49C6B", "...."),
    "normalisation": ("#CC79A7", "////"),
    "element-wise": ("#F0E442", ""),
    "reduction and pooling": ("#F0E442", "////"),
    "random numbers and dropout": ("#F0E442", "xxxx"),
    "embedding and gather": ("#CC79A7", "...."),
    "optimizer": ("#CC79A7", ""),
    "copy and layout change": ("#B8B8B8", ""),
    "input pipeline": ("#B8B8B8", "////"),
    "communication": ("#B8B8B8", "xxxx"),
    "host and launch overhead": ("#555555", ""),
    "idle": ("#FFFFFF", ""),
    "other": ("#FFFFFF", "xxxx"),
}
#: A category that takes less than this share of every step is drawn with the others of its size.
SMALLEST = 0.02
REST = "the rest"
#: The height of a line of the legend in inches.
LINE_IN = 0.185


@kind("categories", "Stacked bars of where the time of a training step goes, by category of operations", place=13)
def categories(table: Table) -> Figure | None:
    """Bars: medians over the launches with a profile, scaled to the timed step, which is a mark."""
    found = {row.key: each for row in table.group.rows if (each := costs(row))}
    if not found:
        return None
    rows = [row for row in table.group.rows if row.key in found]
    known = list(found.values())
    batches = {row.key: median(record.effective_batch for record in row.ok) for row in rows}
    per_sample = len(set(batches.values())) > 1
    units = {key: 1e3 / batch if per_sample else 1e3 for key, batch in batches.items()}
    named = [
        name for name in CATEGORIES if any(each.seconds[name] >= SMALLEST * each.step_s for each in found.values())
    ]
    drawn = [*named, *([REST] if any(_rest(each, named) > 0 for each in known) else [])]
    places, headings, names = stack_rows(table, rows)
    left, right = 0.3 + wide(names), 0.75 + wide(drawn, SMALL)
    group = among(table, rows)
    layout = sheet(
        group,
        title_of(group, "Where the time of a training step goes", of="for"),
        "Bar: parts as profiled, scaled to the timed step; medians over the launches with a profile. Number and line: "
        "the timed step.",
        (WIDTH_IN - left - right, max(ROW_IN * (max(places) + 1), LINE_IN * len(drawn))),
        left=left,
        right=right,
        notes=[*note_unsupported(table), *note_left_out(table, rows, "without a profile")],
        labels=names,
    )
    axes = layout.axes()
    rows_of(axes, places, headings, names)
    begins = dict.fromkeys(places, 0.0)
    for name in drawn:
        widths = {
            y: units[row.key] * (_rest(found[row.key], named) if name == REST else found[row.key].seconds[name])
            for y, row in places.items()
        }
        stack(axes, widths, begins, f"{name}: {{}} ms", zorder=2, **_look(name))
    timed = {y: units[row.key] * found[row.key].step_s for y, row in places.items()}
    longest = max(*timed.values(), *begins.values())
    for y, value in timed.items():
        axes.plot([value, value], [y - 0.45, y + 0.45], color=INK, linewidth=1.6, zorder=3)
        end = max(value, begins[y]) + 0.012 * longest
        axes.text(end, y, f"{figure(value)} ms", va="center", color=INK)
    axes.set_xlim(0, 1.16 * longest)
    axes.set_xlabel(f"milliseconds per {'sample' if per_sample else 'step'} (lower is better)")
    axes.legend(handles=[Patch(**_look(name), label=name) for name in drawn], **(KEY | {"handlelength": 1.8}))
    return layout.figure


def _rest(each: Costs, named: list[str]) -> float:
    """Returns the seconds of the categories that are too small to be drawn."""
    return sum(seconds for name, seconds in each.seconds.items() if name not in named)


def _look(name: str) -> dict[str, Any]:
    colour, hatch = LOOKS.get(name, ("#FFFFFF", "...."))
    return {"facecolor": colour, "hatch": hatch, "edgecolor": INK, "linewidth": 0.6}

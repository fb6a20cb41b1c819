"""Plots with a bar per cell: throughput, speed-up by setting, parts of a step, and time to the first step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from suite.analysis.groups import Row
from suite.analysis.statistics import LEAST
from suite.analysis.wording import figure, listing
from suite.report.curves import SpeedUp, StepParts, speed_ups, step_parts
from suite.report.plots.canvas import (
    BAR,
    INK,
    PALE,
    absent,
    bars,
    beside,
    canvas,
    frameworks,
    legend,
    swatch,
    whiskers,
)
from suite.report.tables import Table
from suite.report.text import spread

#: Parts of the time to the end of the first step: key of the record, label, colour, hatch.
PARTS = (
    ("interpreter_s", "interpreter", "#FFFFFF", ""),
    ("import_s", "import", "#56B4E9", ""),
    ("data_s", "open data", "#F0E442", "...."),
    ("build_s", "build model", "#009E73", "////"),
    ("first_batch_s", "first batch", "#CC79A7", "xxxx"),
    ("compile_s", "compile", "#D55E00", "\\\\\\\\"),
    ("first_step_s", "first step", "#555555", ""),
)

#: Style of what loading adds to a step, style of the loader alone, and the most percent on an axis.
ADDED: dict[str, Any] = {"facecolor": "#CC79A7", "hatch": "xxxx", "edgecolor": INK, "linewidth": 0.6}
ALONE: dict[str, Any] = {"color": "white", "markeredgecolor": INK, "markersize": 5}
PERCENT_MOST = 160.0


def throughput(table: Table) -> Figure:
    """Bars: median over launches; whisker: lowest to highest launch; dots: the launches."""
    best = table.leaders.get("samples_per_s", frozenset())
    plot, axes, places = canvas(
        table,
        "Training throughput",
        "samples per second",
        "bar: median; whisker: lowest to highest; dot: a launch",
        notes=["*, bold: the best of one precision and batch, significantly; where several tie, all."] if best else [],
    )
    rates = {y: [rate for record in row.ok if (rate := record.samples_per_s)] for y, row in places.items()}
    medians = {y: median(row_rates) for y, row_rates in rates.items() if row_rates}
    highest = max(max(row_rates) for row_rates in rates.values() if row_rates)
    bars(axes, places, medians)
    whiskers(
        axes, {y: (medians[y], min(row_rates), max(row_rates)) for y, row_rates in rates.items() if len(row_rates) > 1}
    )
    dots = [
        (rate, y + offset)
        for y, row_rates in rates.items()
        for rate, offset in zip(row_rates, _apart(len(row_rates)), strict=True)
    ]
    style = {"color": "white", "markeredgecolor": INK, "markersize": 3.2, "markeredgewidth": 0.7}
    axes.plot(*zip(*dots, strict=True), "o", **style)
    for y, row in places.items():
        if y in medians:
            words, weight = (f"{figure(medians[y])}*", "bold") if row.key in best else (figure(medians[y]), "normal")
            axes.text(max(rates[y]) + 0.012 * highest, y, words, va="center", color=INK, weight=weight)
        else:
            absent(axes, y, row)
    axes.set_xlim(0, 1.1 * highest)
    legend(axes, [swatch(name) for name in frameworks(places.values())])
    return plot


def _apart(count: int) -> list[float]:
    """Returns the offsets of the dots of ``count`` launches from the middle of a bar."""
    return [float(offset) for offset in np.linspace(-0.18, 0.18, count)] if count > 1 else [0.0] * count


def speed_up(table: Table) -> Figure | None:
    """Bars from 1 along a logarithmic axis, so that half as fast is as long as twice as fast."""
    by_row = {each.row.key: each for each in speed_ups(table)}
    if not by_row:
        return None
    plot, axes, places = canvas(
        table,
        "Speed-up by setting",
        "throughput over that of the framework's base cell",
        f"bar: ratio within blocks, {_interval(by_row.values())}",
        right=1.75,
        rows=[row for row in table.group.rows if row.key in by_row],
        notes=[
            *_base_notes(by_row.values(), table),
            *_left_out(table, len(by_row), "without a launch that ended well, a base, or an equal fingerprint"),
        ],
    )
    axes.axvspan(1 / (1 + table.margin), 1 + table.margin, color="#E4E4E4", linewidth=0, zorder=0)
    ratios = {y: each for y, row in places.items() if (each := by_row[row.key]).blocks}
    bars(axes, places, {y: each.value - 1 for y, each in ratios.items()}, dict.fromkeys(ratios, 1.0))
    whiskers(axes, {y: (each.value, each.low, each.high) for y, each in ratios.items() if each.blocks > 1})
    for y in places:
        beside(axes, y, spread(ratios[y].value, ratios[y].low, ratios[y].high) if y in ratios else "base")
    axes.axvline(1, color=INK, linewidth=1)
    low = min(0.9, *(each.low for each in by_row.values())) / 1.06
    high = max(1 / 0.9, *(each.high for each in by_row.values())) * 1.06
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high / low > 8 else MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    legend(axes, [swatch(name) for name in frameworks(places.values())])
    return plot


def _interval(ratios: Iterable[SpeedUp]) -> str:
    """Describes bar and whisker, which depend on the number of blocks."""
    tested = {each.blocks >= LEAST for each in ratios if each.blocks}
    few, many = "median; whisker: lowest to highest", "geometric mean; whisker: 95 % interval"
    return f"{many} (under {LEAST} blocks {few})" if len(tested) > 1 else many if tested == {True} else few


def _base_notes(ratios: Iterable[SpeedUp], table: Table) -> list[str]:
    bases = [each.row.cell for each in ratios if not each.blocks]
    modes = listing(
        [f"{name} {mode}" for name, mode in dict.fromkeys((cell.framework, cell.compile) for cell in bases)]
    )
    sizes = listing([str(size) for size in sorted({cell.batch for cell in bases})])
    base = f"Base: fp32, batch {sizes}, the tuned loader and the usual compile mode ({modes}), in the same run."
    return [base, f"Grey: the margin of {table.margin:.1%}, within which a ratio means nothing."]


def phases(table: Table) -> Figure | None:
    """Bars: the steps, and what loading adds; a mark for the loader alone.

    In percent of the training step, whose time is written beside it: in milliseconds the batch sizes would set the
    scale.
    """
    by_row = {each.row.key: each for each in step_parts(table)}
    if not by_row:
        return None
    plot, axes, places = canvas(
        table,
        "Where the time goes",
        "% of a training step, whose time is on the right",
        "medians; in a framework's look: the same steps on batches already on the device",
        right=2.2,
        rows=[row for row in table.group.rows if row.key in by_row],
        notes=[
            "Input alone: loader and transfer, no steps. What loading adds where that is short is poor overlap.",
            *_left_out(table, len(by_row), "without a launch that ended well"),
        ],
    )
    axes.axvline(100, color=PALE, linewidth=0.8, zorder=3)
    axes.tick_params(axis="y", pad=7)  # room for a mark at zero
    shares = {y: _shares(by_row[row.key]) for y, row in places.items()}
    alone = {y: share for y, (_, _, share) in shares.items() if share is not None}
    top = min(PERCENT_MOST, max(102.0, *(compute + added for compute, added, _ in shares.values()), *alone.values()))
    computes = {y: compute for y, (compute, _, _) in shares.items()}
    bars(axes, places, computes)
    added = [added for _, added, _ in shares.values()]
    axes.barh(list(shares), added, left=list(computes.values()), height=BAR, **ADDED)
    for mark, beyond in (("D", False), (">", True)):
        at = [y for y, share in alone.items() if (share > top) == beyond]
        axes.plot([min(alone[y], top) for y in at], at, mark, **ALONE, clip_on=False)
    for y, row in places.items():
        costs = f", loading {shares[y][1]:.0f} %" if shares[y][1] >= 0.5 else ""
        far = f", input alone {alone[y]:,.0f} %" if alone.get(y, 0.0) > top else ""
        beside(axes, y, f"{figure(1e3 * by_row[row.key].train_s)} ms{costs}{far}")
    axes.set_xlim(0, 1.02 * top)
    swatches = [swatch(name) for name in frameworks(places.values())]
    input_mark = Line2D([], [], linestyle="", marker="D", **ALONE, label="input alone")
    legend(axes, [*swatches, Patch(**ADDED, label="added by loading"), input_mark])
    return plot


def _shares(each: StepParts) -> tuple[float, float, float | None]:
    """Returns compute, what loading adds, and the input alone, in percent of the training step."""
    unit = 100 / each.train_s
    return unit * each.compute_s, unit * each.loading_s, None if each.input_s is None else unit * each.input_s


def _left_out(table: Table, shown: int, why: str) -> list[str]:
    """Returns a note on the cells that are not drawn, if there are any."""
    count = len(table.group.rows) - shown
    return [f"{count} more cell{'' if count == 1 else 's'} of the table not shown: {why}."] if count else []


def first_step(table: Table) -> Figure:
    """Stacked bars: the medians of the parts from the start of the process to the end of the first step."""
    plot, axes, places = canvas(
        table,
        "From spawn to the first step",
        "seconds",
        "each part: median over launches; figure: their sum",
        notes=["Modes that compile within their first step, as torch.compile does, have it in the first step's part."],
    )
    parts = {y: _parts(row) for y, row in places.items() if row.ok}
    longest = max(sum(each.values()) for each in parts.values()) or 1.0
    left = dict.fromkeys(parts, 0.0)
    for key, _, color, hatch in PARTS:
        widths = [each[key] for each in parts.values()]
        look = {"color": color, "hatch": hatch, "edgecolor": INK, "linewidth": 0.6}
        axes.barh(list(parts), widths, left=list(left.values()), height=BAR, **look)
        left = {y: begin + width for (y, begin), width in zip(left.items(), widths, strict=True)}
    for y, row in places.items():
        if y in parts:
            axes.text(left[y] + 0.012 * longest, y, f"{figure(left[y])} s", va="center", color=INK)
        else:
            absent(axes, y, row)
    axes.set_xlim(0, 1.12 * longest)
    shown = [part for part in PARTS if any(row_parts[part[0]] for row_parts in parts.values())]
    legend(axes, [Patch(facecolor=f, hatch=h, edgecolor=INK, linewidth=0.6, label=words) for _, words, f, h in shown])
    return plot


def _parts(row: Row) -> dict[str, float]:
    """Returns seconds by key of `PARTS`; the first step excludes compiling."""
    seconds = {key: _median([r.startup.get(key) for r in row.ok]) for key, *_ in PARTS}
    seconds["compile_s"] = _median([r.compile_s for r in row.ok])
    rest = [max(0.0, r.first_step_s - (r.compile_s or 0)) for r in row.ok if r.first_step_s is not None]
    return seconds | {"first_step_s": _median(rest)}


def _median(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return median(known) if known else 0.0

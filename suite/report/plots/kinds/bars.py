"""Plots with a bar per cell: throughput, speed-up by setting, parts of a step, and time to the first step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from suite.analysis.rows.groups import Row
from suite.analysis.rows.wording import figure, listing
from suite.analysis.statistics.inference import LEAST
from suite.report.format.names import framework
from suite.report.format.text import spread
from suite.report.plots.kinds import kind
from suite.report.plots.style.bars import (
    absent,
    bars,
    beside,
    cross_out,
    note_crosses,
    rate_bars,
    rates_of,
    stack,
    whiskers,
)
from suite.report.plots.style.canvas import canvas, note_left_out
from suite.report.plots.style.look import INK, PALE, ROUND, frameworks, legend, plain_numbers, swatch
from suite.report.tables.curves import SpeedUp, StepParts, speed_ups, step_parts
from suite.report.tables.frame import Table

#: Parts of the time to the end of the first step: key of the record, label, colour, hatch.
PARTS = (
    ("interpreter_s", "start Python", "#FFFFFF", ""),
    ("import_s", "import", "#8DA0CB", ""),
    ("data_s", "open data", "#F0E442", "...."),
    ("build_s", "build model", "#C49C6B", "////"),
    ("first_batch_s", "first batch", "#CC79A7", "xxxx"),
    ("compile_s", "compile", "#D55E00", "\\\\\\\\"),
    ("first_step_s", "first step", "#555555", ""),
)

#: Style of what loading adds to a step, style of the loader alone, and the most percent on an axis.
ADDED: dict[str, Any] = {"facecolor": "#CC79A7", "hatch": "xxxx", "edgecolor": INK, "linewidth": 0.6}
ALONE: dict[str, Any] = {"color": "white", "markeredgecolor": INK, "markersize": 5}
PERCENT_MOST = 160.0

#: What marks a bar as the fastest.
FASTEST = "the significantly fastest of one precision and batch size; if several tie, all."


@kind("throughput", "Bar chart of training throughput by cell, in samples per second; higher is better", place=1)
def throughput(table: Table) -> Figure:
    """Bars: median over launches; whisker: lowest to highest launch; dots: the launches."""
    best = table.leaders.get("samples_per_s", frozenset())
    plot, axes, places = canvas(
        table,
        "Training throughput",
        "samples per second (higher is better)",
        "Bar: median over launches. Whisker: lowest to highest. Dot: one launch.",
        notes=[*([f"Star, bold: {FASTEST}"] if best else []), *note_crosses(table.group.rows)],
    )
    readings = {y: launches for y, row in places.items() if (launches := rates_of(row))}
    highest = rate_bars(axes, places, readings, "samples/s")
    cross_out(axes, places)
    for y, row in places.items():
        if y in readings:
            leads, rates = row.key in best, [rate for rate, _ in readings[y]]
            words, weight = f"{figure(median(rates))}{'*' * leads}", "bold" if leads else "normal"
            axes.text(max(rates) + 0.012 * highest, y, words, va="center", color=INK, weight=weight)
        else:
            absent(axes, y, row)
    axes.set_xlim(0, 1.1 * highest)
    return plot


@kind("speed-up", "Bar chart of each cell's throughput relative to its framework's base cell", place=2)
def speed_up(table: Table) -> Figure | None:
    """Bars from 1 along a logarithmic axis, so that half as fast is as long as twice as fast."""
    by_row = {each.row.key: each for each in speed_ups(table)}
    if not by_row:
        return None
    rows = [row for row in table.group.rows if row.key in by_row]
    plot, axes, places = canvas(
        table,
        "Speed-up",
        "throughput relative to the framework's base (logarithmic; higher is better)",
        f"Bar: ratio within blocks, {_interval(by_row.values())}.",
        right=1.75,
        rows=rows,
        notes=[
            *_base_notes(by_row.values(), table),
            *note_left_out(table, rows, "without a successful launch, a base or an equal fingerprint"),
        ],
    )
    axes.axvspan(1 / (1 + table.margin), 1 + table.margin, color="#E4E4E4", linewidth=0, zorder=0)
    ratios = {y: each for y, row in places.items() if (each := by_row[row.key]).blocks}
    words = {y: spread(each.value, each.low, each.high) for y, each in ratios.items()}
    bars(
        axes,
        places,
        {y: each.value - 1 for y, each in ratios.items()},
        {y: f"{words[y]} times its base, {each.blocks} blocks" for y, each in ratios.items()},
        dict.fromkeys(ratios, 1.0),
    )
    whiskers(axes, {y: (each.value, each.low, each.high) for y, each in ratios.items() if each.blocks > 1})
    for y in places:
        beside(axes, y, words.get(y, "base"))
    axes.axvline(1, color=INK, linewidth=1)
    low = min(0.9, *(each.low for each in by_row.values())) / 1.06
    high = max(1 / 0.9, *(each.high for each in by_row.values())) * 1.06
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high / low > 8 else MaxNLocator(7, steps=ROUND))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(plain_numbers("x"))
    return plot


def _interval(ratios: Iterable[SpeedUp]) -> str:
    """Describes bar and whisker, which depend on the number of blocks."""
    tested = {each.blocks >= LEAST for each in ratios if each.blocks}
    few, many = "median; whisker: lowest to highest", "geometric mean; whisker: corrected interval"
    return f"{many} (under {LEAST} blocks {few})" if len(tested) > 1 else many if tested == {True} else few


def _base_notes(ratios: Iterable[SpeedUp], table: Table) -> list[str]:
    bases = [each.row.cell for each in ratios if not each.blocks]
    modes = dict.fromkeys(f"{framework(cell.framework)} {cell.compile}" for cell in bases)
    sizes = listing([str(size) for size in sorted({cell.batch for cell in bases})])
    base = f"Base: fp32, batch {sizes}, tuned loader, usual compile mode ({listing(list(modes))}), same run."
    return [base, f"Grey: differences within the margin of {table.margin:.1%}, which do not count."]


@kind("phases", "Bar chart of the share of a training step that compute takes, and that loading adds", place=4)
def phases(table: Table) -> Figure | None:
    """Bars: the steps, and what loading adds; a mark for the loader alone.

    In percent of the training step, whose time is written beside it: in milliseconds the batch sizes would set the
    scale.
    """
    by_row = {each.row.key: each for each in step_parts(table)}
    if not by_row:
        return None
    rows = [row for row in table.group.rows if row.key in by_row]
    shares = {row.key: _shares(by_row[row.key]) for row in rows}
    more = "Above 100 %: the steps alone took longer than training, so loading added nothing that could be measured."
    plot, axes, places = canvas(
        table,
        "Compute and loading in a training step",
        "share of a training step in % (less added by loading is better)",
        "Medians over launches. Framework's colour: the same steps on batches that are already on the device. "
        "Diamond: loading and transfer alone, without steps; where it is short although loading adds time, the two "
        "overlap poorly.",
        right=1.75,
        rows=rows,
        notes=[
            *([more] if max(compute for compute, _, _ in shares.values()) > 100.5 else []),
            *note_left_out(table, rows, "without a successful launch"),
        ],
    )
    axes.axvline(100, color=PALE, linewidth=0.8, zorder=3)
    axes.tick_params(axis="y", pad=7)  # room for a mark at zero
    by_y = {y: shares[row.key] for y, row in places.items()}
    alone = {y: share for y, (_, _, share) in by_y.items() if share is not None}
    top = min(PERCENT_MOST, max(102.0, *(compute + added for compute, added, _ in by_y.values()), *alone.values()))
    computes = {y: compute for y, (compute, _, _) in by_y.items()}
    bars(axes, places, computes, {y: f"compute, {figure(compute)} %" for y, compute in computes.items()})
    stack(axes, {y: added for y, (_, added, _) in by_y.items()}, dict(computes), "added by loading: {} %", **ADDED)
    for mark, beyond in (("D", False), (">", True)):
        at = [y for y, share in alone.items() if (share > top) == beyond]
        axes.plot([min(alone[y], top) for y in at], at, mark, **ALONE, clip_on=False)
    for y, row in places.items():
        costs = f", loading {by_y[y][1]:.0f} %" if by_y[y][1] >= 0.5 else ""
        far = f", loading alone {alone[y]:,.0f} %" if alone.get(y, 0.0) > top else ""
        beside(axes, y, f"{figure(1e3 * by_row[row.key].train_s)} ms{costs}{far}")
    axes.set_xlim(0, 1.02 * top)
    swatches = [swatch(name) for name in frameworks(places.values())]
    input_mark = Line2D([], [], linestyle="", marker="D", **ALONE, label="loading alone")
    legend(axes, [*swatches, Patch(**ADDED, label="added by loading"), input_mark])
    return plot


def _shares(each: StepParts) -> tuple[float, float, float | None]:
    """Returns compute, what loading adds, and the input alone, in percent of the training step."""
    unit = 100 / each.train_s
    return unit * each.compute_s, unit * each.loading_s, None if each.input_s is None else unit * each.input_s


@kind("first-step", "Bar chart of the seconds from the start of the process to the end of the first step", place=6)
def first_step(table: Table) -> Figure:
    """Stacked bars: the medians of the parts from the start of the process to the end of the first step."""
    plot, axes, places = canvas(
        table,
        "Time to the first training step",
        "seconds from the start of the process (lower is better)",
        "Each part: median over launches. Number: sum of the parts.",
        notes=["Modes that compile during the first step, such as torch.compile, show that time as first step."],
    )
    parts = {y: _parts(row) for y, row in places.items() if row.ok}
    longest = max(sum(each.values()) for each in parts.values()) or 1.0
    left = dict.fromkeys(parts, 0.0)
    for key, words, color, hatch in PARTS:
        widths = {y: each[key] for y, each in parts.items()}
        stack(axes, widths, left, f"{words}: {{}} s", color=color, hatch=hatch, edgecolor=INK, linewidth=0.6)
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

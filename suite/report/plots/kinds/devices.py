"""Plots of weak and strong scaling: throughput, efficiency and what communication costs, by number of devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from suite.analysis.rows.groups import RowKey
from suite.analysis.scaling.efficiency import STRONG, WEAK, Point, Scaling
from suite.analysis.statistics.inference import LEAST
from suite.plan.cell import STRATEGIES_OF
from suite.plan.strategies import normalised_apart
from suite.report.format.names import FRAMEWORKS, count, strategy
from suite.report.plots.kinds.lines import DASHES, DOTTED, Look
from suite.report.plots.style.canvas import Sheet, sheet
from suite.report.plots.style.look import (
    FACE,
    INK,
    KEY,
    LINE_LEAST,
    PALE,
    SMALL,
    WIDTH_IN,
    apart,
    framed,
    from_zero,
    plain_numbers,
    wide,
)
from suite.report.plots.style.naming import among, values_of, varying, workload_name
from suite.report.tables.frame import Table

KEPT = {WEAK: "the same batch on each device", STRONG: "the same global batch"}
NOTE = {
    WEAK: "More devices see a larger global batch, which is another training: compare the work, not its course.",
    STRONG: "Each device has a part of the same global batch: the same training, with less work for each device.",
}
APART = "Each device has a part of the same global batch, and batch statistics of its own, which is another training."
#: How marks are filled, in the order of a framework's lines: whether hollow, and which half alone.
FILLINGS = ((False, ""), (True, ""), (False, "left"), (False, "bottom"), (False, "right"), (False, "top"))

#: Settings that a line varies or names itself.
OWN = ("devices", "strategy", "batch")

#: Inches: the height of each panel, the space between two, and of a legend's line.
HEIGHTS, CLOSE, LINE_IN = (2.4, 1.7, 1.4), 0.2, 0.17
#: Factor from the fewest and the most devices to the ends of the axis, and how far marks of one place stand apart.
MARGIN, DODGE, DODGE_MOST = 1.3, 0.022, 0.12

Spread = tuple[float, float, float]


def weak(table: Table) -> Figure | None:
    """Throughput, efficiency and communication share where each device has the same batch."""
    return _drawn(table, WEAK)


def strong(table: Table) -> Figure | None:
    """The same where the global batch is the same."""
    return _drawn(table, STRONG)


def _drawn(table: Table, kind: str) -> Figure | None:
    known = {row.key for row in table.group.rows}
    found = [each for each in table.scalings if each.kind == kind and all(row.key in known for row in each.rows)]
    found = [each for each in found if any(point.speed_up.value for point in each.points[1:])]
    if not found:
        return None
    looks = _looks(table, found)
    exchanged = any(point.communication for each in found for point in each.points)
    heights = HEIGHTS if exchanged else HEIGHTS[:2]
    layout, across = _sheet(table, found, looks, heights)
    panels = [layout.axes(0, sum(heights[:at]) + at * CLOSE, across, high) for at, high in enumerate(heights)]
    counts = sorted({point.devices for each in found for point in each.points})
    reach = min(DODGE * (len(found) - 1), DODGE_MOST) * len(counts)
    framed(panels[0], "samples per second\n(higher is better)")
    framed(panels[1], "efficiency\n(higher is better)")
    panels[1].axhline(100, color=PALE, **DOTTED)
    if exchanged:
        framed(panels[2], "communication\n(lower is better)")
    ideals: set[RowKey] = set()
    for scaling, look, power in zip(found, looks, apart(len(found), reach / 2), strict=True):
        points = [point for point in scaling.points if point.speed_up.value]
        places = [point.devices * 2**power for point in points]
        rates = [_rates(point) for point in points]
        if scaling.base.row.key not in ideals:
            ideals.add(scaling.base.row.key)
            along = np.geomspace(scaling.base.devices, counts[-1], 50)
            ideal = rates[0][0] * along / scaling.base.devices
            panels[0].plot(along * 2**power, ideal, color=FACE[look.framework], zorder=1, **DOTTED)
        marked(panels[0], places, rates, look)
        marked(panels[1], places, [_efficiency(point) for point in points], look)
        if exchanged:
            costs = [(place, _cost(point)) for place, point in zip(places, points, strict=True) if point.communication]
            marked(panels[2], [place for place, _ in costs], [cost for _, cost in costs], look)
    for axes in panels:
        from_zero(axes)
        by_devices(axes, counts, last=axes is panels[-1])
    for axes in panels[1:]:
        axes.yaxis.set_major_formatter(plain_numbers(" %"))
    return layout.figure


def _sheet(
    table: Table, found: Sequence[Scaling], looks: Sequence[Look], heights: Sequence[float]
) -> tuple[Sheet, float]:
    """Returns a sheet with a legend on the right, and the width of its axes in inches."""
    kind = found[0].kind
    group = among(table, [row for row in table.group.rows if any(row in each.rows for each in found)])
    another = kind == STRONG and any(normalised_apart(row.cell) for each in found for row in each.rows)
    handles = [
        *(look.handle() for look in looks),
        Line2D([], [], color=PALE, label="ideal: every device\nas fast as one", **DOTTED),
    ]
    lines = [line for handle in handles for line in str(handle.get_label()).split("\n")]
    right = max(0.75 + wide(lines, SMALL), 1.4)
    across = max(4.0, WIDTH_IN - 0.95 - right)
    high = max(sum(heights) + CLOSE * (len(heights) - 1), LINE_IN * len(lines) + 0.1 * len(handles))
    layout = sheet(
        group,
        f"{kind.capitalize()} scaling of {workload_name(group)}: {KEPT[kind]}",
        f"Throughput: median over launches; whisker: lowest to highest. {_interval(found)}",
        (across, high),
        left=0.95,
        right=right,
        notes=[APART if another else NOTE[kind], *_threads(found), _few(found)],
    )
    key = layout.axes(across + 0.1, 0, right - 0.1, high)
    key.set_axis_off()
    key.legend(handles=handles, **{**KEY, "bbox_to_anchor": (0, 1)})
    return layout, across


def _looks(table: Table, found: Sequence[Scaling]) -> list[Look]:
    """Returns a look per line: the framework's colour and marker, a dash and a filling for each line of a framework.

    If a framework has more lines than there are fillings, each of its strategies has its own.
    """
    counts: Counter[str] = Counter()
    lines = Counter(each.framework for each in found)
    looks = []
    rows = [row for each in found for row in each.rows]
    settings = [name for name in varying(among(table, rows)) if name not in OWN]
    batches = {_batch(each) for each in found}
    for each in found:
        index = counts[each.framework]
        counts[each.framework] += 1
        words = [strategy(each.strategy), *([_batch(each)] if len(batches) > 1 else [])]
        words += [values_of(each.points[-1].row, settings)] if settings else []
        name = f"{FRAMEWORKS[each.framework]}\n{' · '.join(filter(None, words))}"
        own = STRATEGIES_OF[each.framework].index(each.strategy)
        hollow, half = FILLINGS[(index if lines[each.framework] <= len(FILLINGS) else own) % len(FILLINGS)]
        looks.append(Look(name, each.framework, DASHES[index % len(DASHES)], hollow, len(each.points), half))
    return looks


def _batch(scaling: Scaling) -> str:
    """Returns the batch that stays the same."""
    cell = scaling.points[-1].row.cell
    batch = cell.batch * cell.accumulate
    return f"batch {batch}" if scaling.kind == WEAK else f"global batch {cell.effective_batch}"


def _rates(point: Point) -> Spread:
    rates = [rate for record in point.row.ok if (rate := record.samples_per_s)]
    return median(rates), min(rates), max(rates)


def _efficiency(point: Point) -> Spread:
    ratio = point.efficiency
    return 100 * (ratio.value or 0.0), 100 * (ratio.low or 0.0), 100 * (ratio.high or 0.0)


def _cost(point: Point) -> Spread:
    assert point.communication
    share = 100 * point.communication.share
    low, high = (point.communication.low, point.communication.high)
    return share, share if low is None else max(0.0, 100 * low), share if high is None else 100 * max(0.0, high)


def marked(axes: Any, places: Sequence[float], values: Sequence[Spread], look: Look) -> None:
    """Draw a mark and a whisker for each value, and a line through three or more."""
    middles = [value for value, _, _ in values]
    ends = [[value - low for value, low, _ in values], [high - value for value, _, high in values]]
    axes.errorbar(places, middles, yerr=ends, fmt="none", ecolor=INK, capsize=2.5, linewidth=0.9, zorder=2)
    axes.plot(places, middles, **look.style(len(places)))


def by_devices(axes: Any, counts: Sequence[int], last: bool) -> None:
    """Make the x axis logarithmic with a tick at each number of devices."""
    axes.set_xscale("log", base=2)
    axes.set_xlim(counts[0] / MARGIN, counts[-1] * MARGIN)
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(plain_numbers())
    axes.tick_params(axis="x", labelbottom=last)
    if last:
        axes.set_xlabel("devices")


def _interval(found: Iterable[Scaling]) -> str:
    """Describes the marks of efficiency, which depend on the number of blocks."""
    tested = {point.efficiency.blocks >= LEAST for each in found for point in each.points[1:] if point.efficiency.value}
    many = "Efficiency: geometric mean over blocks; whisker: 95 % interval."
    few = f"With fewer than {LEAST} blocks: median; whisker: lowest to highest."
    return f"{many} {few}" if tested == {True, False} else many if tested == {True} else f"Efficiency: {few}"


def _threads(found: Iterable[Scaling]) -> list[str]:
    """Says how many threads each device has, where it is a share of one processor."""
    threads: dict[int, dict[str, None]] = {}
    for point in (point for each in found for point in each.points if point.threads):
        threads.setdefault(point.devices, {})[point.threads] = None
    if not threads:
        return []
    parts = (f"{' or '.join(each)} with {count(devices, 'device')}" for devices, each in sorted(threads.items()))
    return [f"Devices of a CPU share its cores (threads of each: {', '.join(parts)})."]


def _few(found: Iterable[Scaling]) -> str:
    few = any(len(each.points) < LINE_LEAST for each in found)
    return f"Fewer than {LINE_LEAST} marks are not joined by a line." if few else ""

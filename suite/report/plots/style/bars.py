"""Bars of cells, with whiskers, a dot per launch, and words beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from suite.analysis.rows.disturbed import flags_of
from suite.analysis.rows.groups import Row
from suite.analysis.rows.wording import figure
from suite.plan.cell import FRAMEWORKS
from suite.record.record import Record
from suite.record.text import clean
from suite.report.plots.style.look import BEHIND, CROSS, DOT, INK, PALE, apart, face
from suite.report.plots.style.naming import plain
from suite.report.plots.style.vectors import point_out

#: The height of a bar in rows.
BAR = 0.68

#: A value, and what a reader sees who points at it.
Reading = tuple[float, str]


def bars(
    axes: Any,
    places: Mapping[float, Row],
    widths: Mapping[float, float],
    texts: Mapping[float, str],
    left: Mapping[float, float] | None = None,
) -> None:
    """Draws bars in their frameworks' looks, all of one look at once, which is faster. ``texts`` say what each is."""
    for name in FRAMEWORKS:
        at = [y for y in widths if places[y].cell.framework == name]
        begin = [left[y] if left else 0.0 for y in at]
        if at:
            drawn = axes.barh(at, [widths[y] for y in at], left=begin, height=BAR, zorder=2, **face(name))
            point_out(drawn, [f"{clean(places[y].cell.id)}: {texts[y]}" for y in at])


def stack(axes: Any, widths: Mapping[float, float], begins: dict[float, float], words: str, **look: Any) -> None:
    """Draws a part of stacked bars, which begin where the parts before it end; ``words`` format the width as text."""
    drawn = axes.barh(list(widths), list(widths.values()), left=[begins[y] for y in widths], height=BAR, **look)
    point_out(drawn, [words.format(figure(width)) for width in widths.values()])
    for y, width in widths.items():
        begins[y] += width


def rates_of(row: Row) -> list[Reading]:
    """Returns the throughputs of the row's launches that count."""
    return list(map(_read, row.ok))


def _read(record: Record) -> Reading:
    rate = record.samples_per_s or 0.0
    return rate, f"{', '.join([f'launch {record.block}', *flags_of(record)])}: {figure(rate, 4)} samples/s"


def cross_out(axes: Any, places: Mapping[float, Row]) -> None:
    """Draws a cross for each launch that was disturbed and does not count."""
    crosses = [(y, places[y].cell, _read(record)) for y in places for record in places[y].set_aside]
    if crosses:
        (drawn,) = axes.plot([rate for *_, (rate, _) in crosses], [y for y, *_ in crosses], "x", **CROSS)
        point_out(drawn, [f"{clean(cell.id)}, {text}" for _, cell, (_, text) in crosses])


def note_crosses(rows: Iterable[Row]) -> list[str]:
    """Says what a cross is, if there is one."""
    return ["Cross: a disturbed launch, in no median and no test."] if any(row.set_aside for row in rows) else []


def rate_bars(axes: Any, places: Mapping[float, Row], readings: Mapping[float, Sequence[Reading]], unit: str) -> float:
    """Draws a bar to the median of each row's readings, a whisker over all, and a dot for each; returns the highest."""
    values = {y: [value for value, _ in each] for y, each in readings.items()}
    medians = {y: median(each) for y, each in values.items()}
    bars(
        axes,
        places,
        medians,
        {y: f"median of {len(values[y])}: {figure(each, 4)} {unit}" for y, each in medians.items()},
    )
    whiskers(axes, {y: (medians[y], min(each), max(each)) for y, each in values.items() if len(each) > 1})
    dots = [
        (value, y + offset, f"{clean(places[y].cell.id)}, {text}")
        for y, each in readings.items()
        for (value, text), offset in zip(each, apart(len(each), 0.18), strict=True)
    ]
    across, up, about = zip(*dots, strict=True)
    point_out(axes.plot(across, up, "o", **DOT)[0], about)
    return float(max(across))


def whiskers(axes: Any, ranges: Mapping[float, tuple[float, float, float]], capsize: float = 3) -> None:
    """Draw a whisker for each (value, low, high)."""
    values = [value for value, _, _ in ranges.values()]
    # Not below zero: of equal figures, the low one may be above the value by a rounding.
    ends = [
        [max(0.0, value - low) for value, low, _ in ranges.values()],
        [max(0.0, high - value) for value, _, high in ranges.values()],
    ]
    if ranges:
        look = {"ecolor": INK, "capsize": capsize, "elinewidth": 1, "capthick": 1}
        axes.errorbar(values, list(ranges), xerr=ends, fmt="none", **look)


def absent(axes: Any, y: float, row: Row) -> None:
    """Write the row's outcome where its bar would begin."""
    place = axes.get_yaxis_transform()
    axes.text(0.01, y, plain(row.outcome, 60), transform=place, va="center", style="italic", color=PALE, bbox=BEHIND)


def beside(axes: Any, y: float, words: str) -> None:
    """Write text for a row on the right of the axes."""
    axes.text(1.01, y, words, transform=axes.get_yaxis_transform(), va="center", color=INK)

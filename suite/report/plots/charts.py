"""What plots are put together from: charts with their words, bars of rows, and lines over a swept setting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from suite.analysis.rows.blocks import flags_of
from suite.analysis.rows.groups import Group, Row
from suite.analysis.rows.wording import figure
from suite.analysis.statistics.inference import BLOCKS_LEAST, Estimate
from suite.plan.cell import FRAMEWORKS
from suite.record.record import Record
from suite.record.text import clean
from suite.report.format.text import spread
from suite.report.plots import naming
from suite.report.plots.pens import CROSS, DOT, nth
from suite.report.plots.traces import Axis, Chart, Panel, Rows, Traces
from suite.report.tables.frame import Table

#: The height of a heading in rows, and the settings that one names, where rows differ in them.
HEADING = 0.9
OF_A_HEADING = ("run", "machine", "size", "precision", "batch", "loader", "devices")
#: How far marks of one place stand apart, and at most all of them together, as a share of the axis.
DODGE, DODGE_MOST = 0.014, 0.07
#: What lies before the first and behind the last place of a swept setting: a part of it, or a factor.
BEFORE, FACTOR = 0.4, 1.25
RATE = Axis("samples per second\n(higher is better)")
CROSSED = "Cross: a disturbed launch, in no median and no test."

#: What is special about marks, in matplotlib's words.
Look = Mapping[str, Any]
#: A value, and what a reader sees who points at it.
Reading = tuple[float, str]
#: A value with the ends of its interval.
Spread = tuple[float, float, float]


def chart(group: Group, title: str, grid: Sequence[Sequence[Panel]], *caption: str, per: str = "cell") -> Chart:
    """Returns a chart whose title, subtitle and caption say all that a plot without its report needs.

    The subtitle counts the launches ``per`` cell, or per what a mark stands for.
    """
    runs = {row.run for row in group.rows}
    last = [f"Shown: {group.part}." if group.part else "", f"Run {runs.pop()}." if len(runs) == 1 else ""]
    return finish(Chart(title, naming.subtitle_of(group, per), caption, grid), *last)


def finish(made: Chart, *last: str) -> Chart:
    """Returns the chart with a caption that explains marked labels and ends with ``last``, in letters of the font."""
    noted = any(line.endswith(naming.NOTED) for label in made.labels for line in label.split("\n"))
    caption = [*made.caption, naming.NOTED_WORDS * noted, *last]
    return replace(
        made,
        title=naming.plain(made.title, 300),
        head=[naming.plain(words, 300) for words in made.head],
        caption=[naming.plain(words, 4000) for words in caption if words],
    )


def stack_rows(table: Table, rows: Sequence[Row] | None = None, named: Sequence[str] = OF_A_HEADING) -> Rows:
    """Returns rows one below the other, by default all supported ones.

    A heading says which settings of ``named`` a set of them shares.
    """
    shown = naming.supported(table.group) if rows is None else rows
    shared = [name for name in named if name in naming.varying(naming.among(table, shown))]
    places: dict[float, Row] = {}
    headings: dict[float, str] = {}
    y, heading = 0.0, ""
    for row in shown:
        if shared and (words := naming.values_of(row, shared)) != heading:
            headings[y - 0.05] = heading = words
            y += HEADING
        places[y] = row
        y += 1
    return Rows(places, naming.labels_of(table, shown, shared), headings)


def rows_chart(table: Table, panel: Panel, subject: str, *caption: str, left_out: str = "", of: str = "of") -> Chart:
    """Returns a chart of rows, whose caption names what is unsupported, and says why other cells are ``left_out``.

    A row without a launch that ended well has its outcome beside it.
    """
    places = panel.rows.places if panel.rows else {}
    outcomes = {y: naming.plain(row.outcome, 60) for y, row in places.items() if not row.ok}
    group = naming.among(table, places.values())
    notes = naming.note_unsupported(table), naming.note_left_out(table, group.rows, left_out)
    panel = replace(panel, beside=outcomes | {**panel.beside})
    return chart(group, naming.title_of(group, subject, of=of), [[panel]], *caption, *notes)


def spread_of(values: Iterable[float]) -> Spread:
    """Returns the median, the lowest and the highest."""
    known = list(values)
    return median(known), min(known), max(known)


def describe_interval(ratios: Iterable[Estimate]) -> str:
    """Describes ratios and their intervals, which depend on the number of blocks, and on whether they were tested."""
    tested = {bool(each.verdict) or each.blocks >= BLOCKS_LEAST for each in ratios if each.blocks}
    few, many = "median; whisker: lowest to highest", "geometric mean; whisker: corrected interval"
    return f"{many} (of too few blocks {few})" if len(tested) > 1 else many if tested == {True} else few


def bars(
    rows: Rows, values: Mapping[float, Spread], unit: str, base: Mapping[float, float] | None = None
) -> list[Traces]:
    """Returns a bar with its interval for each row of ``values``, in the looks of the frameworks."""
    traces = []
    for name in FRAMEWORKS:
        if at := [y for y in values if rows.places[y].cell.framework == name]:
            ends, low, high = zip(*(values[y] for y in at), strict=True)
            about = [f"{clean(rows.places[y].cell.id)}: {spread(*values[y])} {unit}" for y in at]
            traces.append(Traces("bars", ends, at, low, high, about, name, base=[base[y] for y in at] if base else ()))
    return traces


def stack(begins: dict[float, float], widths: Mapping[float, float], name: str, unit: str, look: Look) -> Traces:
    """Returns a part of stacked bars, which begins where those before it end."""
    base = [begins[y] for y in widths]
    begins |= {y: begins[y] + width for y, width in widths.items()}
    text = [f"{name}: {figure(width)} {unit}" for width in widths.values()]
    return Traces("bars", [begins[y] for y in widths], list(widths), text=text, name=name, base=base, look=look)


def points(marks: Sequence[tuple[float, float, str]], look: Look, name: str = "", group: str = "") -> Traces:
    """Returns marks at (x, y), each with its text."""
    x, y, text = zip(*marks, strict=True) if marks else ((), (), ())
    return Traces("points", x, y, text=text, group=group, name=name, look=look)


def rates_of(row: Row) -> list[Reading]:
    """Returns the throughputs of the row's launches that count."""
    return list(map(_read, row.ok))


def _read(record: Record) -> Reading:
    rate = record.samples_per_s or 0.0
    return rate, f"{', '.join([f'launch {record.block}', *flags_of(record)])}: {figure(rate, 4)} samples/s"


def rate_bars(rows: Rows, readings: Mapping[float, Sequence[Reading]], unit: str = "samples/s") -> list[Traces]:
    """Returns a bar to the median of each row's readings, with an interval over all and a dot for each."""
    spreads = {y: spread_of(value for value, _ in each) for y, each in readings.items()}
    dots = [
        (value, y + aside, f"{clean(rows.places[y].cell.id)}, {text}")
        for y, each in readings.items()
        for (value, text), aside in zip(each, spread_around(len(each), 0.18), strict=True)
    ]
    return [*bars(rows, spreads, unit), points(dots, DOT)]


def crosses(rows: Rows) -> Traces:
    """Returns a cross for each launch that was disturbed and does not count."""
    aside = [(y, row, record) for y, row in rows.places.items() for record in row.set_aside]
    marks = [(_read(record)[0], y, f"{clean(row.cell.id)}, {_read(record)[1]}") for y, row, record in aside]
    return points(marks, CROSS)


def spread_around(count: int, reach: float) -> list[float]:
    """Returns offsets of ``count`` things from their middle, so that none covers another; the last is at ``reach``."""
    return [reach * (2 * place / (count - 1) - 1) for place in range(count)] if count > 1 else [0.0] * count


def dodge(count: int, length: float) -> list[float]:
    """Returns how far marks of one place stand aside on an axis of this length, so that none covers another."""
    return spread_around(count, length * min(DODGE * (count - 1), DODGE_MOST) / 2)


@dataclass(frozen=True)
class Line:
    """A line over a swept setting: in each panel a value with its interval at each place."""

    name: str
    framework: str
    panels: Sequence[Mapping[float, Spread]]


def sweep(lines: Sequence[Line], x: Axis, panels: Sequence[Panel], units: Sequence[str]) -> list[Panel]:
    """Returns the panels, one below the other, with all lines, and with ticks of x where lines have marks.

    Each line of a framework has its own dashes and filling. Marks of one place stand side by side.
    """
    places = sorted({place for line in lines for panel in line.panels for place in panel} | {*x.ticks})
    ends = (places[0] / FACTOR, places[-1] * FACTOR) if x.log else (places[0] - BEFORE, places[-1] + BEFORE)
    x = replace(x, low=ends[0], high=ends[1], ticks=x.ticks or places)
    drawn = []
    for number, (panel, unit) in enumerate(zip(panels, units, strict=True)):
        traces = []
        for at, (line, aside) in enumerate(zip(lines, dodge(len(lines), x.length), strict=True)):
            moved = [place * 2**aside if x.log else place + aside for place in line.panels[number]]
            spreads = list(line.panels[number].values())
            values, low, high = zip(*spreads, strict=True) if spreads else ((), (), ())
            name = " · ".join(line.name.split("\n"))
            text = [f"{name}: {spread(*each)} {unit}".rstrip() for each in spreads]
            look = nth(sum(line.framework == each.framework for each in lines[:at]))
            named = "" if number else line.name
            traces.append(Traces("lines", moved, values, low, high, text, line.framework, named, look=look))
        last = number == len(panels) - 1
        drawn.append(replace(panel, traces=traces, x=x if last else replace(x, label="")))
    return drawn

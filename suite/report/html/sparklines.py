"""The timelines of single launches for the report. A click unfolds one; pointing at it shows values and phases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from suite.analysis.rows.timelines import Line, has_lines, lines_of, measured, spans_of
from suite.analysis.rows.wording import figure
from suite.record.record import Record
from suite.record.text import clean
from suite.report.format.text import rounded_up

#: With more launches than this only the first of each cell is drawn, and at most this many: thousands would take a
#: browser minutes.
MOST = 100

WIDTH, HEIGHT, GAP = 600, 40, 18
#: The room for the numbers of the axes.
LEFT = 44

#: Lines are drawn in steps of half a unit: as whole numbers from point to point they take a third of the bytes in git.
STEPS = 2

#: By metric: its description, its unit, and what its values are divided by.
WORDS = {
    "cpu_cores": ("CPU of the worker", "cores", 1.0),
    "rss_bytes": ("resident memory of the worker", "MiB", 2.0**20),
    "gpu_utilisation_percent": ("GPU busy (any kernel running)", "%", 1.0),
    "gpm_sm_utilisation_percent": ("SM active", "%", 1.0),
    "power_w": ("GPU power", "W", 1.0),
    "memory_used_bytes": ("GPU memory", "MiB", 2.0**20),
}


@dataclass(frozen=True)
class Phase:
    """The span of a phase's measured windows: x and width in the drawing."""

    x: str
    width: str
    words: str


@dataclass(frozen=True)
class Tick:
    """A value on the axis of a band: its height in the drawing and its label."""

    y: int
    label: str


@dataclass(frozen=True)
class Band:
    """One metric: the path of each unbroken stretch of its line, in steps, the text above it, and its axis."""

    words: str
    text_y: int
    lines: Sequence[str]
    ticks: Sequence[Tick]


@dataclass(frozen=True)
class Timeline:
    """The drawing of one launch, which begins at ``left`` of ``width``; paths are in ``steps`` to a unit."""

    title: str
    label: str
    left: int
    width: int
    height: int
    steps: int
    end: str
    phases: Sequence[Phase]
    bands: Sequence[Band]


@dataclass(frozen=True)
class Timelines:
    """``drawn`` is iterated once: the lines of all launches at once would not fit into memory."""

    drawn: Iterator[Timeline]
    left_out: str = ""


def timelines(records: Iterable[Record]) -> Timelines:
    """Returns a drawing of each launch that has a timeline, and how many are left out."""
    chosen = [record for record in records if record.metrics and has_lines(record)]
    left_out = ""
    if (count := len(chosen)) > MOST:
        chosen = list({record.cell: record for record in reversed(chosen)}.values())[::-1][:MOST]
        left_out = f" {len(chosen)} of {count} launches, of each cell at most the first."
    return Timelines(map(_timeline, chosen), left_out)


def _timeline(record: Record) -> Timeline:
    spans = spans_of(record)
    lines = measured(lines_of(record), spans)
    end_s = max([line.at_s[-1] for line in lines.values()] + [end for each in spans.values() for _, end in each]) or 1.0
    bursts = [(name, *span) for name, each in spans.items() for span in each]
    rate = f", {figure(record.samples_per_s)} samples/s" if record.samples_per_s else ""
    return Timeline(
        title=f"{clean(record.cell.id)}, {'control, ' if record.control else ''}launch {record.block}{rate}",
        label=f"timeline of {clean(record.cell.id)}",
        left=LEFT,
        width=LEFT + WIDTH,
        height=len(lines) * (HEIGHT + GAP) + GAP,
        steps=STEPS,
        end=f"{end_s:.0f} s",
        phases=[
            Phase(
                x=f"{LEFT + WIDTH * begin / end_s:.1f}",
                width=f"{max(1.0, WIDTH * (end - begin) / end_s):.1f}",
                words=f"{name} phase, {begin:.1f} to {end:.1f} s",
            )
            for name, begin, end in bursts
        ],
        bands=[
            _band(name, line, end_s, GAP + place * (HEIGHT + GAP)) for place, (name, line) in enumerate(lines.items())
        ],
    )


def _band(name: str, line: Line, end_s: float, top: int) -> Band:
    words, unit, divisor = WORDS.get(name, (name, "", 1.0))
    scale = rounded_up(line.highest / divisor)
    stretches: list[list[tuple[int, int]]] = [[]]
    for at_s, value in zip(line.at_s, line.values, strict=True):
        if value is None:  # not read: a gap, no line through it
            stretches.append([])
        else:
            y = top + HEIGHT * (1 - value / divisor / scale)
            stretches[-1].append((round(STEPS * (LEFT + WIDTH * at_s / end_s)), round(STEPS * y)))
    return Band(
        words=f"{words}{f' in {unit}' if unit else ''}, up to {figure(line.highest / divisor)}",
        text_y=top - 4,
        lines=[_path(points) for points in stretches if points],
        ticks=[Tick(top + round(HEIGHT * (1 - share)), f"{scale * share:g}") for share in (1.0, 0.5, 0.0)],
    )


def _path(points: Sequence[tuple[int, int]]) -> str:
    """Returns the points as the data of an SVG path: the first place, then the way to each next one."""
    ways = [f"{x - before_x} {y - before_y}" for (before_x, before_y), (x, y) in pairwise(points)]
    return f"M{points[0][0]} {points[0][1]}l{' '.join(ways or ['0 0'])}"

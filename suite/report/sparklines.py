"""The timelines of single launches for the report: unfolded by a click, values and phases by pointing at them."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from suite.analysis.timelines import Line, has_lines, lines_of
from suite.analysis.wording import figure
from suite.record.record import Record
from suite.record.text import clean

#: Of more launches than this the first of each cell is drawn, and no more of them than this: a page of thousands would
#: take a browser minutes.
MOST = 100

WIDTH, HEIGHT, GAP = 600, 40, 18

#: By metric: its words, its unit, and what its figures are divided by.
WORDS = {
    "cpu_cores": ("CPU of the worker", "cores", 1.0),
    "rss_bytes": ("resident memory of the worker", "MiB", 2.0**20),
    "gpu_utilisation_percent": ("GPU busy (any kernel running)", "%", 1.0),
    "gpm_sm_utilisation_percent": ("SM active", "%", 1.0),
    "power_w": ("GPU power", "W", 1.0),
    "memory_used_bytes": ("GPU memory", "MiB", 2.0**20),
}


def timelines(records: Iterable[Record]) -> list[str]:
    """HTML: a heading, and per launch with a timeline a drawing that a click unfolds; nothing if there is none."""
    told = [record for record in records if record.metrics and has_lines(record)]
    left_out = ""
    if (there := len(told)) > MOST:
        told = list({record.cell: record for record in reversed(told)}.values())[::-1][:MOST]
        left_out = f" {len(told)} of {there} launches, of each cell at most the first."
    if not told:
        return []
    words = (
        "A click unfolds a launch; pointing at a line or at a phase says what it is. Shaded: the windows that count."
    )
    return ["<h2>Timelines</h2>", f"<p class=muted>{words}{left_out}</p>", *map(_launch, told)]


def _launch(record: Record) -> str:
    rate = f", {figure(record.samples_per_s)} samples/s" if record.samples_per_s else ""
    return (
        f"<details><summary>{escape(clean(record.cell.id))}, launch {record.launch}{rate}</summary>"
        f"{_drawing(record)}</details>"
    )


def _drawing(record: Record) -> str:
    lines = lines_of(record)
    end_s = max(line.at_s[-1] for line in lines.values()) or 1.0
    height = len(lines) * (HEIGHT + GAP) + GAP
    parts = [
        f'<rect x="{WIDTH * begin / end_s:.1f}" y="0" width="{max(1.0, WIDTH * (end - begin) / end_s):.1f}" '
        f'height="{height}" fill="#888" fill-opacity=".18"><title>{escape(name)} phase, {begin:.1f} to {end:.1f} s'
        "</title></rect>"
        for name, phase in record.phases.items()
        for begin, end in phase.spans
    ]
    for place, (name, line) in enumerate(lines.items()):
        parts.append(_band(name, line, end_s, GAP + place * (HEIGHT + GAP)))
    parts.append(f'<text x="{WIDTH}" y="{height - 3}" text-anchor="end" font-size="11">{end_s:.0f} s</text>')
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" width="100%" role="img" fill="currentColor" '
        f'aria-label="timeline of {escape(clean(record.cell.id))}">{"".join(parts)}</svg>'
    )


def _band(name: str, line: Line, end_s: float, top: float) -> str:
    words, unit, per = WORDS.get(name, (name, "", 1.0))
    highest = line.highest or 1.0
    runs: list[list[str]] = [[]]
    for at_s, value in zip(line.at_s, line.values, strict=True):
        if value is None:  # not read: a gap, no line through it
            runs.append([])
        else:
            runs[-1].append(f"{WIDTH * at_s / end_s:.1f},{top + HEIGHT * (1 - value / highest):.1f}")
    told = f"{words}: up to {figure(line.highest / per)} {unit}"
    drawn = "".join(
        f'<polyline points="{" ".join(run)}" fill="none" stroke="currentColor"><title>{escape(told)}</title></polyline>'
        for run in runs
        if run
    )
    return f'<text x="2" y="{top - 4:.0f}" font-size="11">{escape(told)}</text>{drawn}'

"""A site's page of releases: what each release of a framework changed, and where the time of its steps goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from suite.analysis.records.load import REPORT
from suite.analysis.rows.wording import DASH, figure
from suite.catalog.setting import TEXT
from suite.report.format.names import count
from suite.report.format.names import framework as named
from suite.report.format.text import spread
from suite.report.html.document import render
from suite.report.html.stored import Change, Line, Release
from suite.report.tables.columns import NAME, Column, bounded, grid

PAGE = "releases.html"


def page(runs: Sequence[tuple[str, Sequence[Line]]]) -> str:
    """Returns the page, from the lines of each folder: a row for each line, the newest first, then all releases."""
    lines = [(f"{quote(folder, safe='')}/{REPORT}", line) for folder, each in sorted(runs) for line in each]
    lines.sort(key=lambda each: each[1].date, reverse=True)
    return render(
        "releases.html.jinja",
        title="Releases of the frameworks",
        counted=f"{count(len(lines), 'line')} of releases in {count(len(runs), 'run')}",
        overview=grid(_overview(), enumerate(lines)),
        parts=[
            {
                "title": f"{named(line.framework)}: {line.workload}",
                "about": " \u00b7 ".join(filter(None, (line.cell, line.machine, line.date))),
                "report": report,
                "grid": grid(_releases(), reversed(line.releases)),
            }
            for report, line in lines
        ],
    )


def _overview() -> list[Column]:
    """Returns the columns of a line, which is read with its number on the page and the address of its report."""

    def text(name: str, read: Callable[[Line], str], **more: Any) -> Column:
        return Column(name, lambda row: read(row[1][1]), TEXT, **more)

    def span(line: Line) -> str:
        return f"{line.releases[0].release}{DASH}{line.releases[-1].release}"

    return [
        text("workload", lambda line: line.workload, where=(NAME,), link=lambda row: f"#line-{row[0]}"),
        text("framework", lambda line: named(line.framework), where=(NAME,)),
        text("releases", span),
        *_changes(lambda row: row[1][1].releases[-1]),
        text("largest change", _largest),
        text("run", lambda line: line.date, link=lambda row: row[1][0]),
    ]


def _releases() -> list[Column]:
    return [
        Column("release", lambda each: each.release, TEXT, where=(NAME,)),
        Column("Python", lambda each: each.python, TEXT),
        Column("n", lambda each: each.n),
        Column("samples/s", lambda each: spread(*each.samples_per_s)),
        *_changes(lambda each: each),
        Column(
            "where the time goes", lambda each: ", ".join(f"{x} {100 * part:.0f} %" for x, part in each.shares), TEXT
        ),
        Column("change per step", lambda each: ", ".join(f"{x} {_signed(by)} ms" for x, by in each.changed), TEXT),
    ]


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{figure(value)}"


def _changes(newest: Callable[[Any], Release]) -> list[Column]:
    """Returns the columns of what a release changed."""
    return [
        *_change("to the one before", lambda row: newest(row).to_before),
        *_change("to the oldest", lambda row: newest(row).to_oldest),
    ]


def _change(name: str, read: Callable[[Any], Change | None]) -> list[Column]:
    def verdict(row: Any) -> str:
        change = read(row)
        return change.verdict or "not tested" if change else ""

    return [
        Column(name, lambda row: bounded(change.ratio) if (change := read(row)) else ""),
        Column("verdict", verdict, TEXT),
    ]


def _largest(line: Line) -> str:
    changes = ((each.release, each.to_before) for each in line.releases)
    decided = [(name, change) for name, change in changes if change and change.verdict in ("faster", "slower")]
    if not decided:
        return "none decided"
    name, change = max(decided, key=lambda each: abs(math.log(each[1].ratio[0] or 1.0)))
    return f"{name}: {change.ratio[0]:.2f} ({change.verdict})"

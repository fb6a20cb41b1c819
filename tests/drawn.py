"""What a chart says, as text, and its traces."""

from __future__ import annotations

from suite.report.plots.traces import Chart, Panel, Traces


def panels(chart: Chart | None) -> list[Panel]:
    assert chart is not None
    return [panel for row in chart.grid for panel in row]


def said(chart: Chart | None) -> str:
    """All words of a chart but those that a reader has to point at, in one line."""
    assert chart is not None
    words = [chart.title, *chart.head, *chart.caption, *chart.labels]
    for each in panels(chart):
        words += [each.head, each.x.label, each.y.label, *each.y.names, *each.beside.values()]
        words += each.rows.headings.values() if each.rows else ()
    return " ".join(" ".join(words).split())


def traces(chart: Chart | None, kind: str, **looks: str) -> list[Traces]:
    """The traces of a kind that have these fields, or these parts of their look."""
    found = [each for panel in panels(chart) for each in panel.traces if each.kind == kind]
    return [each for each in found if all(getattr(each, k, each.look.get(k)) == v for k, v in looks.items())]

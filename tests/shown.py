"""Tables as a reader sees them."""

from __future__ import annotations

import io

from suite.analysis.statistics.accuracy import AccuracyComparison
from suite.report.format.terminal import Terminal
from suite.report.format.view import View
from suite.report.screen import markdown
from suite.report.tables import accuracy, timed
from suite.report.tables.frame import Table


def terminal(table: Table | AccuracyComparison, width: int | None = 120) -> str:
    """On a terminal of this width; with None, in a pipe."""
    stream = io.StringIO()
    Terminal(stream, width).show(view(table))
    return stream.getvalue()


def in_markdown(table: Table | AccuracyComparison) -> str:
    return markdown.document(view(table))


def view(table: Table | AccuracyComparison) -> View:
    return accuracy.view(table) if isinstance(table, AccuracyComparison) else timed.view(table)

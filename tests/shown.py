"""Tables as a reader sees them."""

from __future__ import annotations

import io

from suite.analysis.accuracy import Learned
from suite.report import accuracy, columns, markdown
from suite.report.tables import Table
from suite.report.terminal import Terminal
from suite.report.view import View


def terminal(table: Table | Learned, width: int | None = 120) -> str:
    """On a terminal of this width; with None, in a pipe."""
    stream = io.StringIO()
    Terminal(stream, width).show(view(table))
    return stream.getvalue()


def in_markdown(table: Table | Learned) -> str:
    return markdown.document(view(table))


def view(table: Table | Learned) -> View:
    return accuracy.view(table) if isinstance(table, Learned) else columns.view(table)

"""Launches as a group, and tables as a reader sees them."""

from __future__ import annotations

import io
from collections.abc import Iterable

from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import Group, group
from suite.analysis.statistics.accuracy import AccuracyComparison
from suite.record.record import Record
from suite.report.format.terminal import Terminal
from suite.report.format.view import View
from suite.report.screen import markdown
from suite.report.tables import accuracy, timed
from suite.report.tables.frame import Table


def grouped(held: Iterable[Record], by: str = "framework", across: bool = False) -> Group:
    """The only group that these launches make."""
    (one,) = group([Launch(each, str(each.run["id"]), "a.json") for each in held], by, across)
    return one


def terminal(table: Table | AccuracyComparison, width: int | None = 120) -> str:
    """On a terminal of this width; with None, in a pipe."""
    stream = io.StringIO()
    Terminal(stream, width).show(view(table))
    return stream.getvalue()


def in_markdown(table: Table | AccuracyComparison) -> str:
    return markdown.document(view(table))


def view(table: Table | AccuracyComparison) -> View:
    return accuracy.view(table) if isinstance(table, AccuracyComparison) else timed.view(table)

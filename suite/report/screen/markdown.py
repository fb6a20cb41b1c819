"""Tables as Markdown, for `table.md` and the summary of a CI step; text from records is escaped."""

from __future__ import annotations

from collections.abc import Sequence

from suite.report.format.view import LEFT, Grid, View
from suite.report.text.why import PairExplanation


def document(view: View) -> str:
    """Returns title, tables and notes."""
    tables = "\n\n".join(_table(grid) for grid in view.parts)
    notes = "\n".join(f"- {escape(note)}" for note in view.notes)
    return f"## {escape(view.title)}\n\n{tables}\n\n{notes}\n"


def explanation(told: PairExplanation, others: Sequence[PairExplanation] = ()) -> str:
    """Returns what explains a pair as a heading and a list, and folded below it that of its other settings."""
    text = f"### Why: {escape(told.title)}\n\n{_list(told)}\n"
    for other in others:
        text += f"\n<details>\n<summary>Likewise: {escape(other.title)}</summary>\n\n{_list(other)}\n\n</details>\n"
    return text


def _list(told: PairExplanation) -> str:
    return "\n".join(f"- {escape(line)}" for line in told.lines)


def escape(text: str) -> str:
    """Returns text that Markdown shows literally, in table cells too."""
    text = text.replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for special in "|`*_~[]$!":
        text = text.replace(special, f"\\{special}")
    # Else some renderers make links of bare addresses.
    return text.replace("#", "&#35;").replace("://", "&#58;//").replace("www.", "www&#46;")


def _table(grid: Grid) -> str:
    rows = [[escape(text) for text in row] for row in grid.rows]
    for row, column in grid.best:
        value, space, rest = rows[row][column].partition(" ")
        rows[row][column] = f"**{value}**{space}{rest}"
    # Padded so that the source is readable too.
    widths = [max(len(header) + 2, *(len(row[at]) for row in rows)) for at, header in enumerate(grid.headers)]
    dashes = ["-" * (width + 1) for width in widths]
    rule = [f":{dash}" if side == LEFT else f"{dash}:" for dash, side in zip(dashes, grid.align, strict=True)]
    lines = [_line(texts, widths, grid.align) for texts in (grid.headers, *rows)]
    return "\n".join([lines[0], f"|{'|'.join(rule)}|", *lines[1:]])


def _line(texts: Sequence[str], widths: Sequence[int], align: Sequence[str]) -> str:
    cells = zip(texts, widths, align, strict=True)
    padded = [text.ljust(width) if side == LEFT else text.rjust(width) for text, width, side in cells]
    return f"| {' | '.join(padded)} |"

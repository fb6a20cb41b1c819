"""A table as strings. The terminal, Markdown and the page show the same view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Alignment of a column: text is flush left, numbers are flush right.
LEFT, RIGHT = "left", "right"


@dataclass(frozen=True)
class Grid:
    """Headers and rows of equal length. The first ``names`` columns identify a row, the others have its values.

    ``best`` has row and column of each value to be marked.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: Sequence[str]
    names: int = 1
    best: frozenset[tuple[int, int]] = frozenset()

    def beside(self, other: Grid) -> Grid:
        """Returns both grids side by side; their rows must be the same, and the name columns are kept once."""
        return Grid(
            [*self.headers, *other.headers[other.names :]],
            [[*row, *further[other.names :]] for row, further in zip(self.rows, other.rows, strict=True)],
            [*self.align, *other.align[other.names :]],
            self.names,
            self.best,
        )


@dataclass(frozen=True)
class View:
    """A table with its title and notes. ``monitored`` goes below ``grid`` if there is no room beside it."""

    title: str
    grid: Grid
    notes: Sequence[str]
    monitored: Grid | None = None

    @property
    def whole(self) -> Grid:
        """All columns in one grid."""
        return self.grid.beside(self.monitored) if self.monitored else self.grid

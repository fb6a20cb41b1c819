"""A table as strings, ready for any output: the terminal, Markdown and the page show the same view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: A column and whether it is flush left, as words are; numbers are flush right.
LEFT, RIGHT = "left", "right"


@dataclass(frozen=True)
class Grid:
    """Headers and rows of equal length. The first ``names`` columns say what a row is, the others what is known of it.

    ``best`` holds row and column of each value to be marked.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: Sequence[str]
    names: int = 1
    best: frozenset[tuple[int, int]] = frozenset()

    def beside(self, other: Grid) -> Grid:
        """Both grids in one, for rows that are the same; the names stand once."""
        return Grid(
            [*self.headers, *other.headers[other.names :]],
            [[*row, *further[other.names :]] for row, further in zip(self.rows, other.rows, strict=True)],
            [*self.align, *other.align[other.names :]],
            self.names,
            self.best,
        )


@dataclass(frozen=True)
class View:
    """A table with its title and the notes under it. ``seen`` goes below ``grid`` where there is no room beside it."""

    title: str
    grid: Grid
    notes: Sequence[str]
    seen: Grid | None = None

    @property
    def whole(self) -> Grid:
        """All columns in one grid."""
        return self.grid.beside(self.seen) if self.seen else self.grid

"""A table as strings. The terminal, Markdown and the page show the same view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

#: Alignment of a column: text is flush left, numbers are flush right.
LEFT, RIGHT = "left", "right"


@dataclass(frozen=True)
class Grid:
    """Headers and rows of equal length. The first ``names`` columns identify a row, the others have its values.

    ``best`` has row and column of each value to be marked. A page hides the columns ``more`` until the reader asks for
    them, and those in ``narrow`` on a narrow screen. ``links`` are addresses by row and column, for a page.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: Sequence[str]
    names: int = 1
    best: frozenset[tuple[int, int]] = frozenset()
    more: frozenset[int] = frozenset()
    narrow: frozenset[int] = frozenset()
    links: Mapping[tuple[int, int], str] = field(default_factory=dict)

    def only(self, columns: Sequence[int]) -> Grid:
        """Returns a grid with these columns only."""
        return replace(
            self,
            headers=[self.headers[at] for at in columns],
            rows=[[row[at] for at in columns] for row in self.rows],
            align=[self.align[at] for at in columns],
            names=sum(at < self.names for at in columns),
            best=frozenset((row, columns.index(at)) for row, at in self.best if at in columns),
            more=frozenset(columns.index(at) for at in self.more if at in columns),
            narrow=frozenset(columns.index(at) for at in self.narrow if at in columns),
            links={(row, columns.index(at)): link for (row, at), link in self.links.items() if at in columns},
        )

    def without(self, headers: Iterable[str]) -> Grid:
        """Returns a grid without the columns of these headers."""
        dropped = set(headers)
        return self.only([at for at, header in enumerate(self.headers) if header not in dropped])


@dataclass(frozen=True)
class View:
    """A table with its title and notes. But on a page, its last columns ``below`` are another table."""

    title: str
    grid: Grid
    notes: Sequence[str]
    below: int = 0

    @property
    def parts(self) -> list[Grid]:
        """The grid, or its two parts, each with the columns that identify a row."""
        first, last = len(self.grid.headers) - self.below, len(self.grid.headers)
        parts = [self.grid.only(range(first))]
        return [*parts, self.grid.only([*range(self.grid.names), *range(first, last)])] if self.below else parts

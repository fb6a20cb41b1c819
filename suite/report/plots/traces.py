"""What a plot shows, as data: a `Chart` of panels of `Traces`. Tests read it, `suite.report.plots` draws it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log2
from typing import Any, Literal

from suite.analysis.rows.groups import Row

#: Colours of text and lines, and the size in points of the usual letters.
INK, PALE, GRID = "#222222", "#595959", "#DDDDDD"
LETTERS = 9.0


@dataclass(frozen=True)
class Traces:
    """Marks of one kind and look at ``x`` and ``y``, with intervals from ``low`` to ``high``: along x for bars.

    Bars go from ``base``, by default 0, to ``x``. Rules go through the whole panel at their ``x`` or ``y``; with
    ``low`` and ``high`` one is a band. ``text`` is what a reader sees who points at a mark, one for each or one for
    all; of words, what they say. ``group`` is the framework whose colour, hatch and marker the marks have, ``name``
    their entry in the key, and ``look`` what is special about them, in matplotlib's words.
    """

    kind: Literal["bars", "lines", "points", "words", "rules"]
    x: Sequence[float] = ()
    y: Sequence[float] = ()
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    text: Sequence[str] = ()
    group: str = ""
    name: str = ""
    base: Sequence[float] = ()
    look: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Axis:
    """An axis from zero to a little above the data, unless ``low`` and ``high`` say otherwise; None follows the data.

    Without ``ticks``, which may have ``names``, there are some at round numbers. Without a ``label`` the numbers along
    x are those of the panel below.
    """

    label: str = ""
    low: float | None = 0.0
    high: float | None = None
    log: bool = False
    ticks: Sequence[float] = ()
    names: Sequence[str] = ()

    @property
    def length(self) -> float:
        """The length between both ends, in octaves where the axis is logarithmic."""
        low, high = self.low or 0.0, self.high or 1.0
        return log2(high / low) if self.log else high - low


@dataclass(frozen=True)
class Rows:
    """Rows one below the other, ``pitch`` inches each: by their y, with labels, and headings over sets of them by y."""

    places: Mapping[float, Row]
    names: Sequence[str]
    headings: Mapping[float, str] = field(default_factory=dict)
    pitch: float = 0.32


@dataclass(frozen=True)
class Panel:
    """Axes with traces. With ``rows`` y names them, and ``beside`` are words on the right by y, ``bold`` some of them.

    ``title`` and ``head`` stand over it. The ``key`` names traces. ``height`` is in inches (rows have their own),
    ``share`` is of the width beside others.
    """

    traces: Sequence[Traces]
    x: Axis = Axis()
    y: Axis = Axis()
    rows: Rows | None = None
    beside: Mapping[float, str] = field(default_factory=dict)
    bold: frozenset[float] = frozenset()
    title: str = ""
    head: str = ""
    key: Literal["above", "right", "inside"] = "right"
    height: float = 2.5
    share: float = 1.0


@dataclass(frozen=True)
class Chart:
    """A plot: its title, the lines of its subtitle, the sentences of its caption, and its panels, row by row."""

    title: str
    head: Sequence[str]
    caption: Sequence[str]
    grid: Sequence[Sequence[Panel]]

    @property
    def labels(self) -> list[str]:
        """All that names rows, traces and panels, or stands at a mark."""
        panels = [panel for row in self.grid for panel in row]
        traces = [each for panel in panels for each in panel.traces]
        names = [name for panel in panels for name in (panel.title, *(panel.rows.names if panel.rows else ()))]
        words = [word for each in traces if each.kind == "words" for word in each.text]
        return [*names, *(each.name for each in traces), *words]

"""Places a chart on paper: title and subtitle, its panels with their keys, and the caption. Drawn without pyplot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from textwrap import wrap
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.textpath import TextPath

from suite.report.plots.pens import SMALL, WIDTH_IN, draw_panel
from suite.report.plots.traces import LETTERS, PALE, Chart, Panel

#: Characters of a line of the title, and of subtitle and caption.
TITLE, TEXT = 84, 136
#: Inches: the edge of the paper, a line of text, of the title and of a key, and the words over a panel.
EDGE_IN, LINE_IN, TITLE_IN, KEY_IN, HEAD_IN = 0.2, 0.19, 0.22, 0.17, 0.5
#: Inches: the numbers and the label of y, the handle of a key, and the least width of a panel alone and beside others.
UNITS_IN, HANDLE_IN, ALONE_IN, LEAST_IN = 0.75, 0.55, 3.0, 0.6
#: Inches below a panel: of numbers with their label, and without.
LABEL_IN, CLOSE_IN = 0.6, 0.2
#: How much wider bold letters are.
BOLD = 1.13


def draw(chart: Chart) -> Figure:
    """Returns the chart as a figure, as wide as `WIDTH_IN` unless its names need more."""
    grid = [part for row in chart.grid for part in _break(row)]
    columns = [[row[at] for row in grid if at < len(row)] for at in range(max(map(len, grid)))]
    sides = [(max(map(_left, column)), max(map(_right, column))) for column in columns]
    width, y, places = WIDTH_IN, 0.0, []
    for row in grid:
        over, high, below = (max(map(part, row)) for part in (_over, _high, _below))
        x = EDGE_IN
        for panel, inside, (left, right) in zip(row, _across(row, sides), sides, strict=False):
            places.append((panel, x, y, (left, over, inside)))
            x += left + inside + right
        width = max(width, x + EDGE_IN)
        y += over + high + below
    figure, above = _lay_paper(chart, width, y)
    for panel, x, y, frame in places:
        _place(figure, panel, x, above + y, frame)
    return figure


def _lay_paper(chart: Chart, width: float, inside: float) -> tuple[Figure, float]:
    """Returns a white card with round corners and all words of the chart, and where its panels begin."""
    titles, head = wrap(chart.title, TITLE), [line for words in chart.head for line in wrap(words, TEXT)]
    foot = wrap(" ".join(chart.caption), TEXT, break_on_hyphens=False)
    above = 0.5 + TITLE_IN * len(titles) + LINE_IN * len(head)
    height = above + inside + LINE_IN * len(foot) + 0.1
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    figure.patch.set_visible(False)
    box = "round,pad=0,rounding_size=0.12"
    paper = FancyBboxPatch((0, 0), width, height, box, transform=figure.dpi_scale_trans, color="white", linewidth=0)
    figure.add_artist(paper).set_zorder(-1)
    _write(figure, titles, 0.14 + TITLE_IN, TITLE_IN, size=12, weight="bold")
    _write(figure, head, above - 0.36 - LINE_IN * (len(head) - 1), LINE_IN, size=SMALL, color=PALE)
    _write(figure, foot, height - 0.13 - LINE_IN * (len(foot) - 1), LINE_IN, size=SMALL, color=PALE)
    return figure, above


def _place(figure: Figure, panel: Panel, x: float, y: float, frame: tuple[float, float, float]) -> None:
    """Draws a panel at (x, y) inches, with room on its left and over it, and so many inches inside."""
    (width, height), (left, over, inside) = figure.get_size_inches(), frame
    high = _high(panel)
    axes = figure.add_axes(((x + left) / width, 1 - (y + over + high) / height, inside / width, high / height))
    draw_panel(axes, panel)
    _write(figure, [panel.title], y + 0.08, 0, x, weight="bold")
    _write(figure, [panel.head], y + 0.29, 0, x, size=SMALL, color=PALE)
    _add_key(figure, axes, panel, over)


@lru_cache(maxsize=4096)
def _wide(words: str, size: float) -> float:
    """Returns inches, from the letters' outlines: the exact extent takes ten times as long."""
    return float(TextPath((0, 0), words, size=size).vertices[:, 0].max()) / 72 if words.strip() else 0.0


def _widest(words: Iterable[str], size: float = LETTERS) -> float:
    return max((_wide(line, size) for each in words for line in each.split("\n")), default=0.0)


def _left(panel: Panel) -> float:
    names = panel.rows.names if panel.rows else panel.y.names
    return 0.13 + _widest(names) if names else UNITS_IN


def _beside(panel: Panel) -> float:
    return 0.12 + (BOLD if panel.bold else 1.0) * _widest(panel.beside.values(), SMALL) if panel.beside else 0.0


def _key_lines(panel: Panel) -> list[str]:
    names = dict.fromkeys(each.name for each in panel.traces if each.name and panel.key == "right")
    return [line for name in names for line in name.split("\n")]


def _right(panel: Panel) -> float:
    lines = _key_lines(panel)
    return 0.15 + _beside(panel) + (HANDLE_IN + _widest(lines, SMALL) if lines else 0.0)


def _high(panel: Panel) -> float:
    own = panel.rows.pitch * (max(panel.rows.places) + 1) if panel.rows else panel.height
    return max(own, KEY_IN * (len(_key_lines(panel)) + 1))


def _over(panel: Panel) -> float:
    return HEAD_IN if panel.head else HEAD_IN / 2 if panel.title else 0.0


def _below(panel: Panel) -> float:
    return LABEL_IN if panel.x.label else CLOSE_IN


def _across(row: Sequence[Panel], sides: Sequence[tuple[float, float]]) -> list[float]:
    free = WIDTH_IN - 2 * EDGE_IN - sum(map(sum, sides[: len(row)]))
    shares = sum(panel.share for panel in row)
    return [max(ALONE_IN if len(row) == 1 else LEAST_IN, free * panel.share / shares) for panel in row]


def _break(row: Sequence[Panel]) -> list[Sequence[Panel]]:
    """Returns the row, or a row for each of its panels if they lack room side by side."""
    needed = sum(_left(panel) + _right(panel) + LEAST_IN for panel in row)
    return [row] if needed <= WIDTH_IN - 2 * EDGE_IN else [[panel] for panel in row]


def _write(figure: Figure, lines: Iterable[str], top: float, step: float, left: float = EDGE_IN, **look: Any) -> None:
    width, height = figure.get_size_inches()
    for at, line in enumerate(lines):
        figure.text(left / width, 1 - (top + step * at) / height, line, **look)


def _add_key(figure: Figure, axes: Any, panel: Panel, over: float) -> None:
    handles, names = axes.get_legend_handles_labels()
    entries = dict(zip(reversed(names), reversed(handles), strict=True))  # of one name, the first
    entries = {name: entries[name] for name in dict.fromkeys(names)}
    look: dict[str, Any] = {"fontsize": SMALL, "frameon": False, "borderaxespad": 0.2, "handlelength": 1.8}
    frame, (across, up) = axes.get_position(), figure.get_size_inches()
    if panel.key == "above":
        look |= {"loc": "lower right", "ncols": len(entries) or 1, "columnspacing": 1.2}
        look["bbox_to_anchor"] = 1 - EDGE_IN / across / 2, frame.y1 + over / up
    elif panel.key == "right":
        look |= {"loc": "upper left", "bbox_to_anchor": (frame.x1 + (0.1 + _beside(panel)) / across, frame.y1)}
    else:
        look |= {"loc": "best", "bbox_to_anchor": frame, "frameon": True, "framealpha": 0.8, "edgecolor": "none"}
    if entries:
        place = axes if panel.key == "inside" else figure
        place.legend(list(entries.values()), list(entries), **look)

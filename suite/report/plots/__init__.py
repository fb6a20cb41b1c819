"""Plots of a comparison as files, and as pictures for its page. Each kind is drawn only if the records have its data.

A function in `kinds` makes a chart of traces, which `style` draws. The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from suite.analysis.rows.groups import Group
from suite.analysis.statistics.accuracy import AccuracyComparison
from suite.catalog.metrics import common_unit
from suite.report.format.text import in_unit
from suite.report.plots import layout, vectors
from suite.report.plots.kinds import COMPARISON, TIMED, TRAINED, Kind, find_kinds
from suite.report.plots.pens import PLAIN, STYLE
from suite.report.plots.traces import Chart
from suite.report.tables.frame import Table, excerpt

#: The formats of files, and the ends of the files' names.
FORMATS = ("png", "svg", "pdf")
SUFFIXES = tuple(f".{name}" for name in FORMATS)

#: What each file names as the program that drew it, and the most bytes that one may have.
MARK, LARGEST = "framework-training-suite", 2**26
#: Dots per inch: 1080 across a usual plot, as wide as a page shows it.
DPI = 120


@dataclass(frozen=True)
class Drawing:
    """A plot: the name of its files, a text that describes it, and the picture as SVG. ``leads`` stands first."""

    name: str
    words: str
    svg: str
    leads: bool = False


def draw(
    tables: Sequence[Table], learned: Sequence[AccuracyComparison], folder: Path,
    suffixes: Collection[str] = ("png",), style: Path | None = None,
) -> list[Drawing]:  # fmt: skip
    """Draws every plot of these tables into the folder, in each of the formats; ``style`` is a matplotlib style."""
    with use_style(style):
        return [_draw(*each, folder, suffixes, small=style is None) for each in find_charts(tables, learned)]


def find_charts(tables: Sequence[Table], learned: Sequence[AccuracyComparison]) -> Iterator[tuple[Kind, str, Chart]]:
    """Every plot of these tables that the records have data for: its kind, what it is of, and what is drawn."""
    subjects: list[tuple[str, str, tuple[Any, ...]]] = [(COMPARISON, "", (tables, learned))]
    names: list[str] = []
    parts: list[Any] = [*map(excerpt, tables), *learned]
    for of, each in zip([TIMED] * len(tables) + [TRAINED] * len(learned), parts, strict=True):
        names.append(_name(each.group) + (f"-{each.group.rows[0].cell.recipe}" if of == TRAINED else ""))
        number = names.count(names[-1])  # of a repeated name
        if any(row.ok for row in each.group.rows):
            subjects.append((of, f"{names[-1]}-v{number}" if number > 1 else names[-1], (each,)))
    for of, name, subject in subjects:
        for kind in find_kinds(of):
            if chart := kind.chart(*subject):
                shown: Sequence[Any] = subject if of != COMPARISON else [*tables, *learned]
                yield kind, name, in_unit(chart, common_unit(each.group.unit for each in shown))


def _draw(kind: Kind, name: str, chart: Chart, folder: Path, suffixes: Iterable[str], *, small: bool) -> Drawing:
    stem, words = (mark.join(filter(None, (first, name))) for mark, first in (("-", kind.name), (": ", kind.words)))
    plot = layout.draw(chart)
    svg = vectors.draw_svg(plot)
    for suffix in suffixes:
        _write(plot, folder / f"{stem}.{suffix}", svg if small else "")
    return Drawing(stem, words, svg, leads=kind.of == COMPARISON)


def figure(chart: Chart) -> Figure:
    """Returns a chart as a figure of matplotlib's."""
    with use_style():
        return layout.draw(chart)


def save(chart: Chart, path: Path, style: Path | None = None) -> None:
    """Writes a chart as PNG, or as SVG or PDF where the path ends so; ``style`` is a style file of matplotlib's."""
    with use_style(style):
        plot = layout.draw(chart)
        _write(plot, path, "" if style or path.suffix != ".svg" else vectors.draw_svg(plot))


def is_drawn(path: Path) -> bool:
    """Whether a file is a plot of the suite's, by the mark that each has."""
    return path.stat().st_size <= LARGEST and MARK.encode() in path.read_bytes()


def _write(plot: Figure, path: Path, svg: str) -> None:
    """Writes a figure; ``svg`` is a small SVG of it, which knows the suite's own style alone."""
    if svg and path.suffix == ".svg":
        path.write_text(f"{svg}<!-- {MARK} -->\n", encoding="utf-8")
        return
    if path.suffix != ".png":
        plot.savefig(path, metadata={"CreationDate" if path.suffix == ".pdf" else "Date": None, "Creator": MARK})
        return
    plot.set_dpi(DPI)
    canvas = FigureCanvasAgg(plot)
    canvas.draw()
    # With all colours a file is four times as large.
    drawn = Image.fromarray(np.asarray(canvas.buffer_rgba())).quantize(256, Image.Quantize.FASTOCTREE)
    mark = PngInfo()
    mark.add_text("Software", MARK)
    drawn.save(path, pnginfo=mark)


def use_style(style: Path | None = None) -> Any:
    """Returns a context in which plots look the same whatever the user's settings, but for a ``style`` that is given.

    Raises `OSError`.
    """
    defaults = {name: value for name, value in mpl.rcParamsDefault.items() if name != "backend"}
    own = mpl.rc_params_from_file(style, use_default_template=False) if style else {}
    return mpl.rc_context({**defaults, **STYLE, **own, **PLAIN})


def _name(group: Group) -> str:
    return f"{group.workload}-{group.size}" + ("" if group.data_kind == "real" else f"-{group.data_kind}")

"""Plots of a comparison as files, and as pictures for its page. Each kind is drawn only if the records have its data.

The numbers come from `suite.report.tables.curves`, `suite.analysis.rows.timelines` and the tables. The same input gives
the same bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from suite.analysis.accuracy.comparison import AccuracyComparison
from suite.analysis.rows.groups import Group
from suite.report.plots.kinds import COMPARISON, TIMED, TRAINED, find_kinds
from suite.report.plots.style import image, vectors
from suite.report.plots.style.look import STYLE
from suite.report.tables.frame import Table, excerpt


@dataclass(frozen=True)
class Drawing:
    """A plot: the name of its files, a text that describes it, and the picture as SVG. ``leads`` stands first."""

    name: str
    words: str
    svg: str
    leads: bool = False


def draw(
    tables: Sequence[Table], learned: Sequence[AccuracyComparison], folder: Path, suffixes: Collection[str] = ("png",)
) -> list[Drawing]:
    """Draws every plot of these tables into the folder, in each of the formats."""
    names = [_name(each.group) for each in tables]
    names += [f"{_name(each.group)}-{each.group.rows[0].cell.recipe}" for each in learned]
    subjects: list[tuple[str, str, tuple[Any, ...]]] = [(COMPARISON, "", (tables, learned))]
    parts: list[tuple[str, Any]] = [
        *((TIMED, excerpt(each)) for each in tables),
        *((TRAINED, each) for each in learned),
    ]
    subjects += [
        (of, name, (each,))
        for name, (of, each) in zip(_unique(names), parts, strict=True)
        if any(row.ok for row in each.group.rows)
    ]
    drawings = []
    with use_style():
        for of, name, subject in subjects:
            for kind in find_kinds(of):
                if plot := kind.draw(*subject):
                    stem = "-".join(filter(None, (kind.name, name)))
                    words = ": ".join(filter(None, (kind.words, name)))
                    svg = vectors.draw_svg(plot)
                    for suffix in suffixes:
                        save(plot, folder / f"{stem}.{suffix}", svg)
                    drawings.append(Drawing(stem, words, svg, leads=of == COMPARISON))
    return drawings


def save(plot: Figure, path: Path, svg: str = "") -> None:
    """Writes a figure as PNG, or as SVG where the path ends so; ``svg`` is what it is, if it was drawn already."""
    if path.suffix == ".svg":
        path.write_text(svg or vectors.draw_svg(plot), encoding="utf-8")
    else:
        image.save(plot, path)


def use_style() -> Any:
    """Returns a context in which plots look the same whatever the user's settings."""
    defaults = {name: value for name, value in mpl.rcParamsDefault.items() if name != "backend"}
    return mpl.rc_context({**defaults, **STYLE})


def _name(group: Group) -> str:
    """Returns workload and size, and the kind of data if it is not real."""
    return f"{group.workload}-{group.size}" + ("" if group.data_kind == "real" else f"-{group.data_kind}")


def _unique(names: Sequence[str]) -> list[str]:
    """Returns these names, with a number added to repeated ones."""
    return [f"{name}-v{n + 1}" if (n := names[:place].count(name)) else name for place, name in enumerate(names)]

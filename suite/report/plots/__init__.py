"""Plots of the tables as PNG or SVG. Each kind is drawn only if the records have the data that it needs.

The numbers come from `suite.report.tables.curves`, `suite.analysis.rows.timelines` and the tables. The same input gives
the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from suite.analysis.accuracy.comparison import Learned
from suite.analysis.rows.groups import Group
from suite.report.plots.kinds.bars import first_step, phases, speed_up, throughput
from suite.report.plots.kinds.categories import categories
from suite.report.plots.kinds.compiling import break_even
from suite.report.plots.kinds.devices import strong, weak
from suite.report.plots.kinds.devices_learned import to_accuracy
from suite.report.plots.kinds.energy import energy
from suite.report.plots.kinds.hero import hero
from suite.report.plots.kinds.learning import by_epoch, by_time, first_epoch
from suite.report.plots.kinds.lines import batch, scaling
from suite.report.plots.kinds.roofline import roof
from suite.report.plots.kinds.scatter import step_times
from suite.report.plots.kinds.timeline import timeline
from suite.report.plots.style import image, vectors
from suite.report.plots.style.look import STYLE
from suite.report.tables.frame import Table

__all__ = [
    "KINDS",
    "LEARNING",
    "alt_text",
    "batch",
    "break_even",
    "categories",
    "draw",
    "draw_hero",
    "draw_learned",
    "energy",
    "first_step",
    "hero",
    "phases",
    "roof",
    "scaling",
    "speed_up",
    "step_times",
    "strong",
    "throughput",
    "timeline",
    "to_accuracy",
    "weak",
]

#: Every kind of plot in the order of a report: its name in file names, a description, and the function that draws it.
KINDS: tuple[tuple[str, str, Callable[[Table], Figure | None]], ...] = (
    ("throughput", "Bar chart of training throughput by cell, in samples per second; higher is better", throughput),
    ("speed-up", "Bar chart of each cell's throughput relative to its framework's base cell", speed_up),
    ("batch", "Throughput and peak memory by batch size", batch),
    ("phases", "Bar chart of the share of a training step that compute takes, and that loading adds", phases),
    ("step-times", "Box plot of the scatter of step times around the median of each cell", step_times),
    ("first-step", "Bar chart of the seconds from the start of the process to the end of the first step", first_step),
    ("timeline", "Use of CPU, GPU and memory over the time of one launch per cell", timeline),
    ("energy", "Energy per sample against throughput, with the Pareto front", energy),
    (
        "break-even",
        "Training time by steps for each compile mode, with the points where one pays off",
        break_even,
    ),
    ("scaling", "Throughput by number of loader workers", scaling),
    ("weak-scaling", "Throughput, efficiency and communication by number of devices, the same batch on each", weak),
    ("strong-scaling", "Throughput, efficiency and communication by number of devices, the same global batch", strong),
    ("categories", "Stacked bars of where the time of a training step goes, by category of operations", categories),
    ("roofline", "Roofline: rate of each part of a training step against its FLOPs per byte, below the peaks", roof),
)


#: The same for accuracy tables.
LEARNING: tuple[tuple[str, str, Callable[[Learned], Figure | None]], ...] = (
    ("accuracy-epochs", "Test accuracy by epoch, a line for each framework and seed", by_epoch),
    ("accuracy-time", "Test accuracy by seconds of training, a line for each framework and seed", by_time),
    ("accuracy-devices", "Seconds to the target accuracy, and the last accuracy, by number of devices", to_accuracy),
    ("first-epoch-loss", "Training loss over the steps of the first epoch, a line for each framework", first_epoch),
)

#: The name and description of the overview.
HERO = ("hero", "Overview: training throughput of the frameworks with verdicts, and learning curves if there are any")


#: The function that writes a figure, by the suffix of the file.
WRITERS: dict[str, Callable[[Figure, Path], None]] = {"png": image.save, "svg": vectors.save}


def draw(tables: Sequence[Table], folder: Path, suffixes: Collection[str] = ("png",)) -> list[Path]:
    """Draw the plots of each table that has a successful launch, in each of these formats; returns their paths."""
    return _draw(KINDS, tables, _names([_name(table.group) for table in tables]), folder, suffixes)


def draw_learned(tables: Sequence[Learned], folder: Path, suffixes: Collection[str] = ("png",)) -> list[Path]:
    """Draw the plots of accuracy tables likewise."""
    names = [f"{_name(table.group)}-{table.group.rows[0].cell.recipe}" for table in tables]
    return _draw(LEARNING, tables, _names(names), folder, suffixes)


def draw_hero(
    tables: Sequence[Table], learned: Sequence[Learned], folder: Path, suffixes: Collection[str] = ("png",)
) -> list[Path]:
    """Draw the overview of all tables in each of these formats; returns their paths, none if no launch succeeded."""
    with styled():
        if not (plot := hero(tables, learned)):
            return []
        paths = {suffix: folder / f"{HERO[0]}.{suffix}" for suffix in suffixes}
        for suffix, path in paths.items():
            WRITERS[suffix](plot, path)
    return list(paths.values())


def _draw(
    kinds: Any, tables: Sequence[Any], names: Sequence[str], folder: Path, suffixes: Collection[str]
) -> list[Path]:
    paths = []
    with styled():
        for table, name in zip(tables, names, strict=True):
            if not any(row.ok for row in table.group.rows):
                continue
            for kind, _, make in kinds:
                if plot := make(table):
                    for suffix in suffixes:
                        paths.append(path := folder / f"{kind}-{name}.{suffix}")
                        WRITERS[suffix](plot, path)
    return paths


def styled() -> Any:
    """Returns a context in which plots look the same whatever the user's settings."""
    defaults = {name: value for name, value in mpl.rcParamsDefault.items() if name != "backend"}
    return mpl.rc_context({**defaults, **STYLE})


def alt_text(path: Path) -> str:
    """Returns a text that describes the plot in this file, for readers who cannot see it."""
    for kind, words, _ in (*KINDS, *LEARNING):
        if path.stem.startswith(f"{kind}-"):
            return f"{words}: {path.stem.removeprefix(f'{kind}-')}"
    return HERO[1] if path.stem == HERO[0] else path.stem


def _name(group: Group) -> str:
    """Returns workload and size, and the kind of data if it is not real."""
    return f"{group.workload}-{group.size}" + ("" if group.data_kind == "real" else f"-{group.data_kind}")


def _names(wanted: Sequence[str]) -> list[str]:
    """Returns unique file names: those wanted, with a number added to repeated ones."""
    return [f"{name}-v{n + 1}" if (n := wanted[:place].count(name)) else name for place, name in enumerate(wanted)]

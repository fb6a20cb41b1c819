"""Plots of the tables, as PNG and SVG: each kind is drawn where the records hold what it needs, and nowhere else.

The numbers come from `suite.report.curves`, `suite.analysis.timelines` and the tables; what is here draws them. The
same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from suite.analysis.accuracy import Learned
from suite.analysis.groups import Group
from suite.report.plots.bars import first_step, phases, speed_up, throughput
from suite.report.plots.canvas import STYLE
from suite.report.plots.compiling import break_even
from suite.report.plots.energy import energy
from suite.report.plots.learning import by_epoch, by_time, first_epoch
from suite.report.plots.lines import batch, scaling
from suite.report.plots.scatter import step_times
from suite.report.plots.timeline import timeline
from suite.report.tables import Table

__all__ = [
    "KINDS",
    "LEARNING",
    "batch",
    "break_even",
    "described",
    "draw",
    "draw_learned",
    "energy",
    "first_step",
    "phases",
    "scaling",
    "speed_up",
    "step_times",
    "throughput",
    "timeline",
]

#: Every kind of plot in the order of a report: its name in a file's, what it shows in words, and what draws it.
KINDS: tuple[tuple[str, str, Callable[[Table], Figure | None]], ...] = (
    ("throughput", "Bar chart of training throughput by cell, in samples per second", throughput),
    ("speed-up", "Bar chart of each cell's throughput over that of its framework's base cell", speed_up),
    ("batch", "Lines of throughput and of peak memory against batch size", batch),
    ("phases", "Bar chart of where the time of a training step goes: compute, and what loading adds", phases),
    ("step-times", "Box plot of how the step times of each cell scatter around their median", step_times),
    ("first-step", "Bar chart of the seconds from the start of the process to the end of the first step", first_step),
    ("timeline", "Lines of utilisation, power and memory over the time of one launch per cell", timeline),
    ("energy", "Energy per sample against throughput, with the Pareto front", energy),
    ("break-even", "Lines of time passed against steps trained for each compile mode, crossings marked", break_even),
    ("scaling", "Lines of throughput against the number of loader workers", scaling),
)


#: The same of what was learnt.
LEARNING: tuple[tuple[str, str, Callable[[Learned], Figure | None]], ...] = (
    ("accuracy-epochs", "Lines of test accuracy against epochs of training", by_epoch),
    ("accuracy-time", "Lines of test accuracy against seconds of training", by_time),
    ("first-epoch-loss", "Lines of the training loss over the steps of the first epoch", first_epoch),
)


def draw(tables: Sequence[Table], folder: Path) -> list[Path]:
    """The plots of each table that has a launch that ended well; the paths written, SVG after PNG."""
    return _draw(KINDS, tables, _names([_name(table.group) for table in tables]), folder)


def draw_learned(tables: Sequence[Learned], folder: Path) -> list[Path]:
    """The same of what was learnt."""
    names = [f"{_name(table.group)}-{table.group.rows[0].cell.recipe}" for table in tables]
    return _draw(LEARNING, tables, _names(names), folder)


def _draw(kinds: Any, tables: Sequence[Any], names: Sequence[str], folder: Path) -> list[Path]:
    paths = []
    with _styled():
        for table, name in zip(tables, names, strict=True):
            if not any(row.ok for row in table.group.rows):
                continue
            for kind, _, make in kinds:
                if plot := make(table):
                    paths += _save(plot, folder / f"{kind}-{name}")
    return paths


def _styled() -> Any:
    """A context in which plots look alike, whatever the user's own settings."""
    defaults = {name: value for name, value in mpl.rcParamsDefault.items() if name != "backend"}
    return mpl.rc_context({**defaults, **STYLE})


def _save(plot: Figure, stem: Path) -> list[Path]:
    """Write PNG and SVG, with nothing in them that changes from time to time; the paths written."""
    image, vectors = (stem.with_name(f"{stem.name}.{suffix}") for suffix in ("png", "svg"))
    _save_image(plot, image)
    plot.savefig(vectors, metadata={"Date": None, "Creator": None})
    return [image, vectors]


def described(path: Path) -> str:
    """What a plot shows, by its file's name: for a reader who cannot see it."""
    for kind, words, _ in (*KINDS, *LEARNING):
        if path.stem.startswith(f"{kind}-"):
            return f"{words}: {path.stem.removeprefix(f'{kind}-')}"
    return path.stem


def _save_image(plot: Figure, path: Path) -> None:
    """A PNG of 256 colours, which is all that a plot needs: a third of the bytes, which a report holds many times."""
    plot.set_dpi(_dpi(plot.get_figheight()))
    canvas = FigureCanvasAgg(plot)
    canvas.draw()
    drawn = Image.frombytes("RGBA", canvas.get_width_height(), canvas.buffer_rgba().tobytes()).convert("RGB")
    image = drawn.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    # The octree's white is a shade too dark.
    paper, palette = 3 * image.tobytes()[0], list(image.getpalette() or [])
    palette[paper : paper + 3] = 255, 255, 255
    image.putpalette(palette)
    image.save(path, compress_level=6)


def _dpi(height_in: float) -> float:
    """Dots per inch: fewer where hundreds of rows would make more pixels than Agg draws, which are 2**16 a side."""
    return min(150.0, 60_000 / height_in)


def _name(group: Group) -> str:
    """Workload and size, and the kind of data if it is not real."""
    return f"{group.workload}-{group.size}" + ("" if group.data_kind == "real" else f"-{group.data_kind}")


def _names(wanted: Sequence[str]) -> list[str]:
    """File names: those that are wanted, with a number where one was taken before."""
    return [f"{name}-v{n + 1}" if (n := wanted[:place].count(name)) else name for place, name in enumerate(wanted)]

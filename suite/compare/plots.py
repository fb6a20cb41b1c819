"""Plots of the tables: throughput, time to the first step, and how step times are distributed; PNG and SVG.

Drawn through matplotlib's objects, without pyplot and its global state. Readable in black and white and by the
colour-blind: each framework has one colour of Okabe and Ito (https://jfly.uni-koeln.de/color/) and one hatch, in every
plot. The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.textpath import TextPath
from matplotlib.ticker import FuncFormatter

from suite.cell import FRAMEWORKS
from suite.compare.groups import Row
from suite.compare.tables import Table, step_times_ms
from suite.compare.text import clean, figure

FACE = {"pytorch": "#E69F00", "tensorflow": "#56B4E9", "jax": "#009E73"}
HATCH = {"pytorch": "", "tensorflow": "////", "jax": "...."}

#: What passes from the start of the process to the end of the first step: key of the record, words, colour, hatch.
PARTS = (
    ("interpreter_s", "interpreter", "#FFFFFF", ""),
    ("import_s", "import", "#56B4E9", ""),
    ("data_s", "open data", "#F0E442", "...."),
    ("build_s", "build model", "#009E73", "////"),
    ("first_batch_s", "first batch", "#CC79A7", "xxxx"),
    ("compile_s", "compile", "#D55E00", "\\\\\\\\"),
    ("first_step_s", "first step without compiling", "#555555", ""),
)

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "text.parse_math": False,  # a name may hold dollar signs
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.5,
    "svg.hashsalt": "suite",  # else the ids in an SVG are drawn anew each time
    "svg.fonttype": "path",
}

WIDTH_IN = 9.0
ROW_IN = 0.34
INK = "#222222"
PALE = "#666666"
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}


def draw(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Three plots per table that has a launch that ended well; the paths written, SVG beside PNG."""
    paths = []
    kinds: tuple[tuple[str, Callable[[Table], Figure]], ...] = (
        ("throughput", throughput),
        ("first-step", first_step),
        ("step-times", step_times),
    )
    with styled():
        for table, name in zip(tables, _names(tables), strict=True):
            if not any(row.ok for row in table.group.rows):
                continue
            for kind, make in kinds:
                paths += save(make(table), folder / f"{kind}-{name}")
    return paths


def styled() -> Any:
    """A context in which plots look alike, whatever the user's own settings."""
    defaults = {name: value for name, value in mpl.rcParamsDefault.items() if name != "backend"}
    return mpl.rc_context({**defaults, **STYLE})


def save(plot: Figure, stem: Path) -> list[Path]:
    """Write PNG and SVG, with nothing in them that changes from time to time."""
    paths = []
    for suffix, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
        path = stem.with_name(f"{stem.name}.{suffix}")
        plot.savefig(path, dpi=_dpi(plot.get_figheight()), metadata=metadata)
        paths.append(path)
    return paths


def _dpi(height_in: float) -> float:
    """Dots per inch: fewer where hundreds of rows would make more pixels than Agg draws, which are 2**16 a side."""
    return min(150.0, 60_000 / height_in)


def throughput(table: Table) -> Figure:
    """Bars: median over launches; whisker: lowest to highest launch; dots: the launches."""
    plot, axes, places = _canvas(
        table, "Training throughput", "samples per second", "bar: median; whisker: lowest to highest; dot: a launch"
    )
    rates = [[rate for record in row.ok if (rate := record.samples_per_s)] for row in places.values()]
    highest = max(max(each) for each in rates if each)
    for (y, row), held in zip(places.items(), rates, strict=True):
        if not held:
            _absent(axes, y, row)
            continue
        name = row.cell.framework
        axes.barh(y, median(held), height=0.66, color=FACE[name], hatch=HATCH[name], edgecolor=INK, linewidth=0.6)
        if len(held) > 1:
            low, high = median(held) - min(held), max(held) - median(held)
            axes.errorbar(median(held), y, xerr=[[low], [high]], color=INK, capsize=3, linewidth=1)
        offsets = np.linspace(-0.18, 0.18, len(held)) if len(held) > 1 else np.zeros(1)
        axes.plot(held, y + offsets, "o", color="white", markeredgecolor=INK, markersize=3.2, markeredgewidth=0.7)
        axes.text(max(held) + 0.012 * highest, y, figure(median(held)), va="center", color=INK)
    axes.set_xlim(0, 1.1 * highest)
    _legend(axes, [_swatch(name) for name in _frameworks(places.values())])
    return plot


def first_step(table: Table) -> Figure:
    """Stacked bars: the parts from the start of the process to the end of the first step, each its median."""
    plot, axes, places = _canvas(
        table, "From spawn to the first step", "seconds", "each part: median over launches; figure: their sum"
    )
    parts = [_parts(row) for row in places.values()]
    longest = max(sum(each.values()) for each in parts) or 1.0
    for (y, row), held in zip(places.items(), parts, strict=True):
        if not row.ok:
            _absent(axes, y, row)
            continue
        left = 0.0
        for key, _, face, hatch in PARTS:
            axes.barh(y, held[key], left=left, height=0.66, color=face, hatch=hatch, edgecolor=INK, linewidth=0.6)
            left += held[key]
        axes.text(left + 0.012 * longest, y, f"{figure(left)} s", va="center", color=INK)
    axes.set_xlim(0, 1.12 * longest)
    shown = [part for part in PARTS if any(held[part[0]] for held in parts)]
    _legend(axes, [Patch(facecolor=f, hatch=h, edgecolor=INK, linewidth=0.6, label=words) for _, words, f, h in shown])
    return plot


def step_times(table: Table) -> Figure:
    """Boxes: quartiles over the windows of all launches; dots: the windows, a line of dots per launch.

    In percent of the cell's median, which is written beside it: in milliseconds the batch sizes would set the scale
    and the scatter could not be seen. Nor may one stalled window set it: what lies far out is named at the margin.
    """
    plot, axes, places = _canvas(
        table,
        "Scatter of step times",
        "step time in % of the cell's median, which is on the right",
        "dot: mean of a window, a line of dots per launch; box: quartiles; whisker: lowest to highest",
        right=1.9,
    )
    axes.axvline(100, color=PALE, linewidth=0.8)
    scaled = {y: _percent_of_median(row) for y, row in places.items()}
    quartiles = {y: np.percentile(np.concatenate(held), [0, 25, 75, 100]) for y, held in scaled.items() if held}
    edge = max(105.0, *(q3 + 5 * (q3 - q1) for _, q1, q3, _ in quartiles.values()))
    for y, row in places.items():
        if y not in quartiles:
            _absent(axes, y, row)
            continue
        name = row.cell.framework
        low, q1, q3, high = quartiles[y]
        # By hand: matplotlib's own boxplot imports pyplot, and that looks for a display.
        axes.errorbar(100, y, xerr=[[100 - low], [high - 100]], color=INK, capsize=4, linewidth=1)
        box = {"facecolor": FACE[name], "hatch": HATCH[name], "edgecolor": INK, "linewidth": 0.6, "zorder": 2}
        axes.barh(y, q3 - q1, left=q1, height=0.66, **box)
        axes.plot([100, 100], [y - 0.33, y + 0.33], color=INK, linewidth=1.6)
        offsets = np.linspace(-0.24, 0.24, len(scaled[y])) if len(scaled[y]) > 1 else [0.0]
        for offset, held in zip(offsets, scaled[y], strict=True):
            axes.plot(held, [y + offset] * len(held), "o", color="white", markeredgecolor=INK, markersize=2.4, mew=0.5)
        words = f"{figure(median(step_times_ms(row.ok)))} ms" + (f", up to {high:,.0f} %" if high > edge else "")
        axes.text(1.01, y, words, transform=axes.get_yaxis_transform(), va="center", color=INK)
    lowest = min(95.0, *(low for low, *_ in quartiles.values()))
    highest = min(edge, max(105.0, *(high for *_, high in quartiles.values())))
    margin = 0.04 * (highest - lowest)
    axes.set_xlim(lowest - margin, highest + margin)
    _legend(axes, [_swatch(name) for name in _frameworks(places.values())])
    return plot


def _percent_of_median(row: Row) -> list[list[float]]:
    """Step times of the windows in percent of the row's median, by launch."""
    times = [step_times_ms([record]) for record in row.ok]
    middle = median(step_times_ms(row.ok)) if times else 1.0
    return [[100 * t / middle for t in held] for held in times]


def _canvas(
    table: Table, title: str, unit: str, marks: str, right: float = 0.3
) -> tuple[Figure, Any, dict[float, Row]]:
    """A figure as high as its rows need, with title and caption, and the rows by their place, the first on top.

    ``marks`` says what is drawn; ``right`` is the margin there in inches. Rows with other settings than the one above
    stand a little apart. A star marks what the table has more to say on.
    """
    group = table.group
    places: dict[float, Row] = {}
    for row in group.rows:
        last = max(places, default=-1.0)
        places[last + (1.5 if places and _settings(row) != _settings(places[last]) else 1)] = row
    labels = [_plain(group.label(row), 70) for row in group.rows]
    differs = [kind == "differs" for kind in table.frame["identity_kind"]]
    told = [row.ok and (row.outcome != "ok" or bool(row.flags)) for row in group.rows]
    stars = [bool(one or other) for one, other in zip(differs, told, strict=True)]
    caption = _caption(table, marks, any(stars))
    above, below = 1.0, 0.62 + 0.16 * len(caption)
    height = above + ROW_IN * (max(places) + 1) + below
    left = 0.5 + max(TextPath((0, 0), f"{label} *", size=9).get_extents().x1 for label in labels) / 72
    width = max(WIDTH_IN, left + 5.5 + right)
    plot = Figure(figsize=(width, height))
    FigureCanvasAgg(plot)
    across, up = (width - left - right) / width, 1 - (above + below) / height
    axes = plot.add_axes((left / width, below / height, across, up))
    loud = "" if group.data_kind == "real" else f" \u2014 {group.data_words}"
    words = f"{title}: {group.workload}, size {group.size}{loud}"
    plot.text(0.25 / width, 1 - 0.3 / height, words, size=12, weight="bold", color=INK)
    plot.text(0.25 / width, 1 - 0.52 / height, _plain(group.constant, 120), size=9, color=PALE)
    for i, line in enumerate(reversed(caption)):
        plot.text(0.25 / width, (0.1 + 0.16 * i) / height, line, size=7.5, color=PALE)
    axes.set_yticks(list(places), [f"{label} *" if star else label for label, star in zip(labels, stars, strict=True)])
    axes.set_ylim(max(places) + 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(unit)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}"))
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    return plot, axes, places


def _settings(row: Row) -> tuple[Any, ...]:
    """What sets rows apart besides framework and compile mode."""
    return row.run, row.cell.precision, row.cell.batch, row.cell.loader


def _caption(table: Table, marks: str, stars: bool) -> list[str]:
    """How many launches, which machine, when, and on what data: what a plot that travels alone must say."""
    rows = table.group.rows
    counts = sorted({len(row.ok) for row in rows if row.ok})
    n = str(counts[0]) if counts[0] == counts[-1] else f"{counts[0]} to {counts[-1]}"
    dates = sorted({clean(str(x.record.started)[:10]) for row in rows for x in row.launches if x.record.started})
    date = " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "date not recorded"
    star = ["* failed launches, flags, or a fingerprint that differs: see the table."] if stars else []
    machines = list(dict.fromkeys(row.machine for row in rows if row.machine)) or ["machine not recorded"]
    first = (
        f"n = {n} launch{'' if n == '1' else 'es'} per cell; {table.group.data_words}; {date}. {marks.capitalize()}."
    )
    return [_plain(line, 150) for line in [first, *star, *machines]]


def _parts(row: Row) -> dict[str, float]:
    """Seconds by key of `PARTS`; the first step without its compiling."""
    found = {key: _median([r.startup.get(key) for r in row.ok]) for key, *_ in PARTS}
    found["compile_s"] = _median([r.compile_s for r in row.ok])
    rest = [max(0.0, r.first_step_s - (r.compile_s or 0)) for r in row.ok if r.first_step_s is not None]
    return found | {"first_step_s": _median(rest)}


def _median(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return median(known) if known else 0.0


def _absent(axes: Any, y: float, row: Row) -> None:
    """No bar, but its outcome in words, where the bar would begin."""
    place = axes.get_yaxis_transform()
    axes.text(0.01, y, _plain(row.outcome, 60), transform=place, va="center", style="italic", color=PALE, bbox=BEHIND)


def _swatch(name: str) -> Patch:
    return Patch(facecolor=FACE[name], hatch=HATCH[name], edgecolor=INK, linewidth=0.6, label=name)


def _frameworks(rows: Iterable[Row]) -> list[str]:
    shown = {row.cell.framework for row in rows if row.ok}
    return [name for name in FRAMEWORKS if name in shown]


def _legend(axes: Any, entries: list[Patch]) -> None:
    axes.legend(
        handles=entries,
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=len(entries),
        frameon=False,
        fontsize=8,
        borderaxespad=0.2,
        columnspacing=1.2,
        handlelength=1.6,
    )


def _plain(text: str, limit: int) -> str:
    """What the font can draw: a character that it lacks would be a warning and an empty box."""
    return "".join(c if c in "·\u2013—…" or c.isascii() or "\u00a0" < c < "\u0180" else "?" for c in clean(text, limit))


def _names(tables: Sequence[Table]) -> list[str]:
    """File names: workload and size, the kind of data if it is not real, and a number where that is not enough."""
    names: list[str] = []
    for table in tables:
        group = table.group
        name = f"{group.workload}-{group.size}" + ("" if group.data_kind == "real" else f"-{group.data_kind}")
        taken = sum(each == name or each.startswith(f"{name}-v") for each in names)
        names.append(f"{name}-v{taken + 1}" if taken else name)
    return names

"""Plots of learning: accuracy against epoch and against time, and the loss over the first epoch.

Lines that lie on each other can be told apart: their markers stand side by side or take turns. Each seed is a thin
line, so that one bad seed is one line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from suite.analysis.accuracy.comparison import AccuracyComparison, target_of, training_histories
from suite.analysis.rows.groups import Row
from suite.analysis.rows.wording import listing
from suite.report.format.names import framework
from suite.report.plots.kinds import TRAINED, kind
from suite.report.plots.style.canvas import sheet
from suite.report.plots.style.look import (
    FACE,
    INK,
    LINE_LEAST,
    MARKER,
    PALE,
    SMALL,
    WIDTH_IN,
    add_frame,
    apart,
    round_ticks,
)
from suite.report.plots.style.naming import name_of, title_of, varying, workload_short
from suite.report.plots.style.vectors import point_out
from workloads.data.dataset import Array
from workloads.spec import is_loss

INSIDE_IN = (WIDTH_IN - 0.85 - 0.75, 3.4)
DODGE = 0.022  # how far the marks of an epoch stand apart, in epochs
MARKED = 8  # markers along a line of many points
WITHOUT_DROPOUT = "no-dropout"  # the recipe under which frameworks compute the same losses
DASH = 5.0  # the length of a dash in line widths, where the lines' dashes take turns


@dataclass(frozen=True)
class Line:
    """A cell's line: ``x`` and the median ``y`` over seeds (n,), and ``y`` of each seed (seeds, n)."""

    label: str
    framework: str
    precision: str
    x: Array
    middle: Array
    seeds: Array


def accuracy_lines(table: AccuracyComparison, against: str) -> list[Line]:
    """Returns test accuracy ``against`` epochs or seconds of training, for every cell that has one."""
    lines = []
    for row in table.group.rows:
        row_courses = training_histories(row)
        if not row_courses:
            continue
        accuracy = np.array([[epoch.test_accuracy for epoch in course.epochs] for course in row_courses])
        seconds = np.median([course.train_s for course in row_courses], axis=0)
        x = np.arange(1, accuracy.shape[1] + 1) if against == "epochs" else seconds
        lines.append(_line(table, row, x, accuracy))
    return lines


def loss_lines(table: AccuracyComparison, points: int = 120) -> list[Line]:
    """Returns the loss over the steps of the first epoch, averaged over neighbouring steps, for every cell with one."""
    lines = []
    for row in table.group.rows:
        losses = [course.curve for course in training_histories(row) if course.curve]
        if not losses:
            continue
        wide = max(1, len(losses[0]) // points)
        steps = len(losses[0]) // wide * wide
        curves = np.array([curve[:steps] for curve in losses]).reshape(len(losses), -1, wide).mean(2)
        lines.append(_line(table, row, np.arange(curves.shape[1]) * wide + (wide + 1) / 2, curves))
    return lines


@kind("accuracy-epochs", "Test accuracy by epoch, a line for each framework and seed", place=21, of=TRAINED)
def by_epoch(table: AccuracyComparison) -> Figure | None:
    """Test accuracy against epoch; none if there is one epoch only."""
    lines = accuracy_lines(table, "epochs")
    if not lines or max(len(line.x) for line in lines) < 2:
        return None
    plot, axes = _canvas(table, "Test accuracy", lines, ASIDE)
    epochs_axes(axes, table, lines)
    return plot


def epochs_axes(axes: Any, table: AccuracyComparison, lines: Sequence[Line]) -> None:
    """Draw test accuracy against epoch."""
    add_frame(axes, "test accuracy (higher is better)", 7)
    axes.set_xlabel("epoch")
    asides = apart(len(lines), DODGE * (len(lines) - 1) * min(1.0, len(lines[0].x) / 4))
    for line, aside in zip(lines, asides, strict=True):
        _draw(axes, line, line.x + aside)
    _target(axes, table)
    last = max(line.x[-1] for line in lines)
    axes.set_xlim(1 - 0.08 * last, last + 0.08 * last)
    round_ticks(axes.xaxis)
    axes.xaxis.get_major_locator().set_params(integer=True)
    _legend(axes, lines, "lower right")


@kind("accuracy-time", "Test accuracy by seconds of training, a line for each framework and seed", place=22, of=TRAINED)
def by_time(table: AccuracyComparison) -> Figure | None:
    """Test accuracy against the seconds of training that it took, evaluation left out."""
    lines = accuracy_lines(table, "seconds")
    if not lines:
        return None
    plot, axes = _canvas(table, "Test accuracy over training time", lines)
    add_frame(axes, "test accuracy (higher is better)", 7)
    axes.set_xlabel("seconds of training (median over seeds; evaluation not counted; less is better)")
    for line in lines:
        _draw(axes, line, line.x)
    _target(axes, table)
    axes.set_xlim(left=0)
    round_ticks(axes.xaxis)
    _legend(axes, lines, "lower right")
    return plot


@kind("first-epoch-loss", "Training loss over the first epoch, a line for each framework", place=24, of=TRAINED)
def first_epoch(table: AccuracyComparison) -> Figure | None:
    """The training loss of the first epoch."""
    lines = loss_lines(table)
    if not lines:
        return None
    plot, axes = _canvas(table, "Training loss over the first epoch", lines, TURNS, agreement_note([table]))
    loss_axes(axes, lines)
    return plot


def loss_axes(axes: Any, lines: Sequence[Line]) -> None:
    """Draw the training loss against the step. Markers take turns along the lines."""
    add_frame(axes, "training loss (lower is better)", 7)
    axes.set_xlabel("training step")
    count = len(lines)
    apart_by = max(1, len(lines[0].x) // (MARKED * count))
    for place, line in enumerate(lines):
        _draw(axes, line, line.x, every=(apart_by * place, apart_by * count))
        if count > 1 and len(line.seeds) == 1:
            dashes = -DASH * place, (DASH, DASH * (count - 1))
            axes.plot(line.x, line.middle, color=FACE[line.framework], linewidth=2.2, linestyle=dashes, zorder=2.9)
    axes.set_xlim(left=0)
    round_ticks(axes.xaxis)
    _legend(axes, lines, "best")


def agreement(table: AccuracyComparison) -> float | None:
    """Returns the largest difference between two frameworks' losses of one step, relative to the lower one.

    Compared are cells of one precision that share a seed. None with dropout, whose draws differ between frameworks.
    """
    by_seed: dict[tuple[str, str, object], dict[str, Array]] = {}
    for row in table.group.rows:
        for record in row.ok if row.cell.recipe == WITHOUT_DROPOUT else []:
            if record.course and record.course.curve:
                key = row.run, row.cell.precision, record.run.get("seed", record.launch)
                by_seed.setdefault(key, {})[row.cell.framework] = np.array(record.course.curve)
    return max((_difference(list(each.values())) for each in by_seed.values() if len(each) > 1), default=None)


def agreement_note(tables: Sequence[AccuracyComparison]) -> str:
    """Returns a sentence with the largest difference of each table that has one; empty if none has."""
    found = {workload_short(each.group): largest for each in tables if (largest := agreement(each)) is not None}
    words = [f"{100 * value:.2g} %{f' ({name})' if len(tables) > 1 else ''}" for name, value in found.items()]
    return f"Largest difference between two frameworks' losses in any step: {listing(words)}." if words else ""


def _difference(curves: Sequence[Array]) -> float:
    """Returns the largest difference between curves at one step, relative to the lowest of them there."""
    steps = min(len(curve) for curve in curves)
    values = np.array([curve[:steps] for curve in curves])
    return float((np.ptp(values, axis=0) / np.maximum(np.abs(values).min(0), 1e-12)).max())


def _line(table: AccuracyComparison, row: Row, x: Array, values: Array) -> Line:
    settings = [name for name in varying(table.group) if name != "run"]
    return Line(name_of(row, settings), row.cell.framework, row.cell.precision, x, np.median(values, axis=0), values)


def _draw(axes: Any, line: Line, x: Array, every: tuple[int, int] | None = None) -> None:
    """Draw each seed as a thin line, and the median with markers; fewer than three points are not joined."""
    colour, joined, full = FACE[line.framework], len(x) >= LINE_LEAST, line.precision == "fp32"
    if len(line.seeds) > 1:
        thin: dict[str, Any] = {"linewidth": 0.7} if joined else {"linestyle": "", "marker": ".", "markersize": 4}
        for number, seed in enumerate(line.seeds):
            (drawn,) = axes.plot(x, seed, color=colour, alpha=0.45, zorder=2, **thin)
            point_out(drawn, [f"{line.label}, seed {number + 1} of {len(line.seeds)}, in the end {seed[-1]:.4f}"])
    style: dict[str, Any] = {
        "linewidth": 1.5 if every is None else 0.8,
        "linestyle": ("-" if full else "--") if joined else "",
        "markerfacecolor": colour if full else "white",
    }
    (drawn,) = axes.plot(
        x, line.middle, color=colour, marker=MARKER[line.framework], markersize=5.5, markeredgecolor=INK,
        markeredgewidth=0.6, markevery=every, label=line.label, zorder=3, **style,
    )  # fmt: skip
    first, step = every or (0, 1)
    places = line.x if every else range(1, len(x) + 1)
    marks = list(zip(places, line.middle, strict=True))[first::step]
    point_out(drawn, [f"{line.label}, {'step' if every else 'epoch'} {at:.0f}: {value:.4f}" for at, value in marks])


def _target(axes: Any, table: AccuracyComparison) -> None:
    if (target := target_of(table.group)) and not is_loss(target):
        axes.axhline(target, color=PALE, linewidth=0.8, linestyle=(0, (6, 3)))
        place = axes.get_yaxis_transform()
        axes.text(1.01, target, f"target\n{target:g}", transform=place, va="center", color=PALE, size=SMALL)


TURNS = "Markers and dashes take turns, so that lines that lie on each other can be told apart."
ASIDE = "Lines are shifted sideways a little, so that none covers another."


def marks(lines: Sequence[Line], offset: str = "") -> str:
    """Returns what lines and markers are, and how those of several lines are ``offset``."""
    several = max(len(line.seeds) for line in lines) > 1
    drawn = "Thick line: median over seeds. Thin line: one seed." if several else "One seed per line."
    few = max(len(line.x) for line in lines) < LINE_LEAST
    if few:
        drawn = "Large mark: median over seeds. Dot: one seed." if several else "One seed per mark."
    return f"{drawn} {offset}".rstrip() if len(lines) > 1 else drawn


def _canvas(
    table: AccuracyComparison, subject: str, lines: Sequence[Line], offset: str = "", note: str = ""
) -> tuple[Figure, Any]:
    recipe = f"Recipe: {table.group.rows[0].cell.recipe}. Frameworks share each seed's weights and order of samples."
    words = title_of(table.group, subject)
    notes = [note, recipe]
    layout = sheet(table.group, words, marks(lines, offset), INSIDE_IN, left=0.85, right=0.75, per="line", notes=notes)
    return layout.figure, layout.axes()


def _legend(axes: Any, lines: Sequence[Line], place: str) -> None:
    """Draw a legend of the lines; where precisions vary, of frameworks and of the dashes, which is shorter."""
    handles, _ = axes.get_legend_handles_labels()
    low = list(dict.fromkeys(line.precision for line in lines if line.precision != "fp32"))
    usual = [(line, handle) for line, handle in zip(lines, handles, strict=True) if line.precision == "fp32"]
    if low and usual and len({(line.framework, line.precision) for line in lines}) == len(lines):
        for line, handle in usual:
            handle.set_label(framework(line.framework))
        other = Line2D(
            [], [], color=PALE, linestyle="--", marker="o", markersize=5.5, label=f"dashed: {', '.join(low)}"
        )
        other.set(markerfacecolor="white", markeredgecolor=INK)
        handles = [*(handle for _, handle in usual), other]
    look = {"frameon": True, "framealpha": 0.8, "edgecolor": "none", "borderpad": 0.1}
    axes.legend(handles=handles, loc=place, fontsize=SMALL, handlelength=2.6, **look)

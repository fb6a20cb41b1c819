"""Plots of learning: accuracy against epoch and against time, and the loss over the first epoch.

Lines differ in colour, dashes and markers, so that they can be told apart in black and white. Bands are from the lowest
to the highest seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from suite.analysis.accuracy import Learned, courses, target_of
from suite.analysis.groups import Row
from suite.record.text import clean
from suite.report.plots.canvas import FACE, GRID, INK, MARKER, PALE, sheet
from workloads.data.dataset import Array

DASHES = {"pytorch": "-", "tensorflow": "--", "jax": ":"}
PRECISION_WIDTH = {"fp32": 1.8, "bf16": 1.1, "fp16": 1.1}
INSIDE_IN = (6.6, 3.1)


@dataclass(frozen=True)
class Line:
    """A cell's line: ``x`` and the median, lowest and highest ``y`` over ``seeds`` seeds, all (n,)."""

    label: str
    framework: str
    precision: str
    x: Array
    middle: Array
    low: Array
    high: Array
    seeds: int


def accuracy_lines(table: Learned, against: str) -> list[Line]:
    """Returns test accuracy ``against`` epochs or seconds of training, for every cell that has one."""
    lines = []
    for row in table.group.rows:
        row_courses = courses(row)
        if not row_courses:
            continue
        accuracy = np.array([[epoch.test_accuracy for epoch in course.epochs] for course in row_courses])
        seconds = np.median([course.train_s for course in row_courses], axis=0)
        x = np.arange(1, accuracy.shape[1] + 1) if against == "epochs" else seconds
        lines.append(_line(table, row, x, accuracy))
    return lines


def loss_lines(table: Learned, points: int = 120) -> list[Line]:
    """Returns the loss over the steps of the first epoch, averaged over neighbouring steps, for every cell with one."""
    lines = []
    for row in table.group.rows:
        losses = [course.curve for course in courses(row) if course.curve]
        if not losses:
            continue
        wide = max(1, len(losses[0]) // points)
        steps = len(losses[0]) // wide * wide
        curves = np.array([curve[:steps] for curve in losses]).reshape(len(losses), -1, wide).mean(2)
        lines.append(_line(table, row, np.arange(curves.shape[1]) * wide + (wide + 1) / 2, curves))
    return lines


def by_epoch(table: Learned) -> Figure | None:
    """Test accuracy against epoch."""
    lines = accuracy_lines(table, "epochs")
    if not lines:
        return None
    plot, axes = _canvas(table, "Test accuracy by epoch", "epoch", "test accuracy", lines)
    _lines(axes, lines, marked=True)
    _target(axes, table)
    axes.set_xlim(0.6, max(line.x[-1] for line in lines) + 0.4)
    axes.xaxis.get_major_locator().set_params(integer=True)
    _legend(axes, "lower right")
    return plot


def by_time(table: Learned) -> Figure | None:
    """Test accuracy against the seconds of training that it took, evaluation left out."""
    lines = accuracy_lines(table, "seconds")
    if not lines:
        return None
    words = "seconds of training (median over seeds; evaluation not counted)"
    plot, axes = _canvas(table, "Test accuracy by time", words, "test accuracy", lines)
    _lines(axes, lines, marked=True)
    _target(axes, table)
    axes.set_xlim(left=0)
    _legend(axes, "lower right")
    return plot


def first_epoch(table: Learned) -> Figure | None:
    """The training loss of the first epoch."""
    lines = loss_lines(table)
    if not lines:
        return None
    plot, axes = _canvas(table, "Training loss, first epoch", "step", "loss, mean over neighbouring steps", lines)
    _lines(axes, lines, marked=False)
    _legend(axes, "upper right")
    return plot


def _line(table: Learned, row: Row, x: Array, values: Array) -> Line:
    label = clean(table.group.label(row), 70)
    low, middle, high = values.min(0), np.median(values, axis=0), values.max(0)
    return Line(label, row.cell.framework, row.cell.precision, x, middle, low, high, len(values))


def _lines(axes: Any, lines: Sequence[Line], marked: bool) -> None:
    for index, line in enumerate(lines):
        colour, width = FACE[line.framework], PRECISION_WIDTH.get(line.precision, 1.1)
        if line.seeds > 1:
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.18, linewidth=0)
        # The first is the widest, so that lines on top of each other all stay visible.
        wide = width + (0 if marked else 1.4 * (len(lines) - 1 - index))
        axes.plot(
            line.x, line.middle, color=colour, linestyle=DASHES[line.framework], linewidth=wide, label=line.label,
            marker=MARKER[line.framework] if marked else "", markersize=5, markeredgecolor=INK, markeredgewidth=0.6,
            markerfacecolor=colour if line.precision == "fp32" else "white",
        )  # fmt: skip


def _target(axes: Any, table: Learned) -> None:
    if target := target_of(table.group):
        axes.axhline(target, color=PALE, linewidth=0.8, linestyle=(0, (6, 3)))
        place = axes.get_yaxis_transform()
        axes.text(1.01, target, f"target\n{target:g}", transform=place, va="center", color=PALE, size=8)


def _canvas(table: Learned, title: str, across: str, up: str, lines: Sequence[Line]) -> tuple[Figure, Any]:
    several = max(line.seeds for line in lines) > 1
    marks = "line: median over seeds; band: lowest to highest" if several else "one seed per line"
    recipe = f"Recipe {table.group.rows[0].cell.recipe}; each launch is a seed, shared by the frameworks."
    layout = sheet(table.group, title, marks, INSIDE_IN, right=0.8, notes=[recipe])
    axes = layout.axes()
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.grid(color=GRID, linewidth=0.6)
    axes.spines["left"].set_visible(True)
    return layout.figure, axes


def _legend(axes: Any, place: str) -> None:
    axes.legend(loc=place, frameon=False, fontsize=8, handlelength=3.2)

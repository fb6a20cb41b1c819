"""Small drawings for the cards of the index, as values for an SVG template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from suite.analysis.rows.wording import figure
from suite.catalog.frameworks import FRAMEWORKS as ALL
from suite.plan.cell import FRAMEWORKS
from suite.report.format.names import framework as named
from suite.report.html.entries import ACCURACY, Entry, Figure

WIDTH = 440
LEFT, RIGHT = 84, 64  # room for names and for figures
ROW = 26
CURVES = 116  # height of a drawing of curves

#: Dashes of the lines, so that lines on each other can be told apart.
DASHES = {name: each.dashes for name, each in ALL.items()}


@dataclass(frozen=True)
class Bar:
    """A framework's highest median as a bar, and the medians of all of its cells as dots; x in units of the drawing."""

    framework: str
    name: str
    y: int
    width: float
    dots: Sequence[float]
    words: str


@dataclass(frozen=True)
class Curve:
    """A cell's accuracy by epoch: the points of a line."""

    framework: str
    points: str
    dash: str


@dataclass(frozen=True)
class Thumbnail:
    """A drawing of ``width`` times ``height``: either bars or curves. ``label`` says in words what it shows."""

    label: str
    caption: str
    height: int
    bars: Sequence[Bar] = ()
    curves: Sequence[Curve] = ()
    low: str = ""
    high: str = ""
    names: Sequence[tuple[str, str, int]] = ()
    width: int = WIDTH
    left: int = LEFT


def thumbnail(entry: Entry) -> Thumbnail | None:
    """Returns the drawing of an entry; None if it has no figures."""
    by_framework = {
        name: found for name in FRAMEWORKS if (found := [each for each in entry.figures if each.framework == name])
    }
    if not by_framework:
        return None
    if entry.kind == ACCURACY and any(len(each.values) > 1 for each in entry.figures):
        return _curves(by_framework)
    words = "test accuracy after one epoch" if entry.kind == ACCURACY else "samples/s"
    return _bars(by_framework, words)


def _bars(by_framework: dict[str, list[Figure]], words: str) -> Thumbnail:
    most = max(each.values[0] for found in by_framework.values() for each in found) or 1.0
    scale = (WIDTH - LEFT - RIGHT) / most
    bars = []
    for place, (framework, found) in enumerate(by_framework.items()):
        medians = sorted(each.values[0] for each in found)
        dots = [round(LEFT + scale * value, 1) for value in medians]
        bars.append(
            Bar(framework, named(framework), place * ROW, round(scale * medians[-1], 1), dots, figure(medians[-1]))
        )
    caption = f"{words}, higher is better" + (" (dot: one setting)" if any(len(bar.dots) > 1 for bar in bars) else "")
    label = f"{words}, the highest of each framework: " + ", ".join(f"{bar.name} {bar.words}" for bar in bars)
    return Thumbnail(label, caption, ROW * len(bars) + 16, bars)


def _curves(by_framework: dict[str, list[Figure]]) -> Thumbnail:
    values = [value for found in by_framework.values() for each in found for value in each.values]
    low, high = min(values), max(values)
    span = high - low or 1.0
    top, bottom, left, right = 8, CURVES - 18, 44, WIDTH - 124
    curves, names = [], []
    for place, (framework, found) in enumerate(by_framework.items()):
        for each in found:
            steps = max(1, len(each.values) - 1)
            points = " ".join(
                f"{left + (right - left) * at / steps:.1f},{bottom - (bottom - top) * (value - low) / span:.1f}"
                for at, value in enumerate(each.values)
            )
            curves.append(Curve(framework, points, DASHES[framework]))
        names.append((framework, named(framework), top + 14 + 20 * place))
    label = f"Test accuracy by epoch, from {low:.2f} to {high:.2f}: {', '.join(name for _, name, _ in names)}"
    return Thumbnail(
        label,
        "test accuracy by epoch, higher is better",
        CURVES,
        (),
        curves,
        f"{low:.2f}",
        f"{high:.2f}",
        names,
        left=left,
    )

"""The look of all plots: colours, hatches, markers, dashes and sizes.

Plots are readable in black and white and for the colour-blind: each framework has one colour of Okabe and Ito
(https://jfly.uni-koeln.de/color/), one hatch and one marker in every plot.
"""

from __future__ import annotations

from typing import Any

from suite.catalog.frameworks import FRAMEWORKS

INK, PALE, GRID = "#222222", "#595959", "#DDDDDD"
FACE = {name: each.colour for name, each in FRAMEWORKS.items()}

#: Inches across every plot: 1080 dots, of which a README shows 880.
WIDTH_IN = 9.0
#: Size in points of the usual letters, and of the smallest: 11.5 dots high where a README shows the plot.
LETTERS, SMALL = 9.0, 8.5

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": LETTERS,
    "text.parse_math": False,  # a name may hold dollar signs
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.5,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK),
}

#: The dot of a launch, the cross of one that does not count, a mark without a filling, and the line of a reference.
DOT: dict[str, Any] = {"marker": "o", "color": "white", "markersize": 3.2, "markeredgewidth": 0.7}
CROSS: dict[str, Any] = {"marker": "x", "color": INK, "markersize": 4.5, "markeredgewidth": 0.9}
HOLLOW = {"markerfacecolor": "white"}
DOTTED: dict[str, Any] = {"linewidth": 0.9, "linestyle": (0, (1, 2)), "marker": ""}

#: A line with marks needs this many. Two would only be joined.
LINE_LEAST = 3
#: The dashes of a framework's lines, and how their marks are filled, in the order of the lines.
DASHES = ("-", "--", "-.", ":")
SIDES = ("left", "bottom", "right", "top")
FILLINGS = ({}, HOLLOW, *({"fillstyle": side, "markerfacecoloralt": "white"} for side in SIDES))


def face(framework: str) -> dict[str, Any]:
    """Returns the look of a framework's bars."""
    return {"facecolor": FACE[framework], "hatch": FRAMEWORKS[framework].hatch} if framework else {}


def stroke(framework: str) -> dict[str, Any]:
    """Returns the look of a framework's lines and marks."""
    return {"color": FACE[framework], "marker": FRAMEWORKS[framework].marker} if framework else {"color": INK}


def nth(line: int) -> dict[str, Any]:
    """Returns what sets the lines of a framework apart."""
    return {"linestyle": DASHES[line % len(DASHES)], **FILLINGS[line % len(FILLINGS)]}

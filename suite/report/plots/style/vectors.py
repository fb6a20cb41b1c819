"""Writes plots as small SVG files, for papers: text stays text, a hatch is one tile, invisible digits are cut.

matplotlib draws a hatch as hundreds of shapes, so that one dotted bar takes 200 KB. Here each hatch becomes a tile that
repeats, with the same lines and dots at the same places.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.figure import Figure

#: Room for text is measured with DejaVu Sans. The others are as wide or narrower.
FAMILIES = "'DejaVu Sans', 'Bitstream Vera Sans', Verdana, Arial, Helvetica, sans-serif"

#: Points (1/72 inch) across a tile: a multiple of the distance between the lines of every hatch in use.
TILE = 24
#: Points (1/72 inch) across the pattern that matplotlib repeats.
_PAGE = 72

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_SEGMENT = re.compile(r"M (\S+) (\S+)\s+L (\S+) (\S+)")
_FRACTION = re.compile(r"-?\d+\.\d+")


def save(plot: Figure, path: Path) -> None:
    """Write an SVG, the same bytes for the same plot."""
    drawn = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        plot.savefig(drawn, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    path.write_text(light(drawn.getvalue()), encoding="utf-8")


def light(text: str) -> str:
    """Returns the same picture in fewer bytes."""
    root = ElementTree.fromstring(text)  # noqa: S314 - matplotlib has just written it
    root.set("font-family", FAMILIES)
    for pattern in root.iter(f"{_SVG}pattern"):
        _tile(pattern)
    used = {link.removeprefix("#") for each in root.iter() if (link := each.get(_LINK))}
    for element in root.iter():
        if element.tag == f"{_SVG}g" and element.get("id") not in used:
            element.attrib.pop("id", None)  # an id of matplotlib's that nothing refers to
        for name, value in element.items():
            if (shorter := _shorter(name, value)) is None:
                del element.attrib[name]
            else:
                element.set(name, shorter)
        element.text = element.text if (element.text or "").strip() else None
        element.tail = "\n" if element.tag == f"{_SVG}g" else None
    ElementTree.register_namespace("", _SVG.strip("{}"))
    ElementTree.register_namespace("xlink", _LINK.removesuffix("href").strip("{}"))
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _shorter(name: str, value: str) -> str | None:
    """Returns the attribute's value without what has no effect; None if the whole attribute has none."""
    if name == "transform" and value.startswith(("rotate(-0 ", "rotate(0 ")):
        return None
    if name == "style":
        return re.sub(r"([;:])\s+", r"\1", re.sub(r"font-family: 'DejaVu Sans';?", "", value))
    if name == "d":
        value = re.sub(r"\s*([A-Za-z])\s*", r"\1", value).replace("\n", "").strip()
    if name in ("d", "x", "y", "width", "height", "viewBox") or value.startswith(("rotate(", "translate(")):
        value = _FRACTION.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), value)
    return value


def _tile(pattern: ElementTree.Element) -> None:
    """Replace the shapes of a hatch's pattern by a tile."""
    for name in ("width", "height"):
        pattern.set(name, str(TILE))
    for shape in pattern:
        if shape.tag == f"{_SVG}rect":
            shape.attrib |= {"width": str(TILE), "height": str(TILE)}
        elif "C" in (outline := shape.get("d", "")):
            _, _, top = outline.partition("M 0 ")
            radius = float(top.split()[0]) - _PAGE
            shape.set("d", " ".join(_dots(10 * radius)))
            colour = re.search(r"stroke: (#\w+)", shape.get("style", ""))
            width = 2 * radius + 0.5  # the circle's own stroke lies half outside of it
            shape.set(
                "style", f"stroke:{colour[1] if colour else '#000'};stroke-width:{width:.2g};stroke-linecap:round"
            )
        else:
            shape.set("d", " ".join(_lines(outline)))


def _dots(apart: float) -> Iterator[str]:
    """Yields dots, every other row shifted by half; a dot is a line of no length with round ends."""
    for row in range(round(TILE / apart) + 1):
        for column in range(round(TILE / apart) + 1 - row % 2):
            yield f"M{(column + row % 2 / 2) * apart:g} {row * apart:g}h.01"


def _lines(outline: str) -> Iterator[str]:
    """Yields lines that rise, fall, or both, and end so far beyond the tile that their ends are invisible."""
    segments = [tuple(map(float, ends)) for ends in _SEGMENT.findall(outline)]
    for rises in (True, False):
        crossings = sorted({x + y if rises else x - y for x, y, _, end in segments if (end < y) == rises})
        if not crossings:
            continue
        apart = crossings[1] - crossings[0]
        for line in range(round(2 * TILE / apart) + 1):
            across = line * apart - TILE
            low, high = f"{across - 1:g}", f"{across + TILE + 1:g}"
            yield f"M{low} {TILE + 1}L{high} -1" if rises else f"M{low} -1L{high} {TILE + 1}"

"""Plots as small SVG, for papers and for pages: text stays text, a hatch is one tile, invisible digits are cut.

matplotlib draws a hatch as hundreds of shapes, so that one dotted bar takes 200 KB. Here each hatch becomes a tile that
repeats, with the same lines and dots at the same places.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from suite.report.plots.style.look import GRID, INK, LETTERS, PALE

#: Room for text is measured with DejaVu Sans. The others are as wide or narrower.
FAMILIES = "'DejaVu Sans', 'Bitstream Vera Sans', Verdana, Arial, Helvetica, sans-serif"

#: Points (1/72 inch) across a tile: a multiple of the distance between the lines of every hatch in use.
TILE = 24
#: Points (1/72 inch) across the pattern that matplotlib repeats.
_PAGE = 72

#: The variables of a page for the colours of plots, so that they follow light and dark.
VARIABLES = {INK: "ink", PALE: "ink-soft", GRID.lower(): "line", "#ffffff": "paper"}

#: What of an element's look a page may say once, in its style.
LOOK = {"fill", "stroke", "stroke-width", "stroke-linecap", "stroke-linejoin", "stroke-dasharray", "font-size",
        "font-weight", "text-anchor"}  # fmt: skip

#: What a page's picture need not say.
DEFAULTS = {("font-size", f"{LETTERS:g}px"), ("text-anchor", "start"), ("stroke-linecap", "butt")}

_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_SEGMENT = re.compile(r"M (\S+) (\S+)\s+L (\S+) (\S+)")
_FRACTION = re.compile(r"-?\d+\.\d+")
_GREY = re.compile(r"#([0-9a-f]{2})\1\1")
_REFERENCE = re.compile(r"#([\w-]+)")
_STEP = re.compile(r"([MLz])(?:(-?[\d.]+) (-?[\d.]+))?")
_LINES = re.compile(r"(?:[ML]-?[\d.]+ -?[\d.]+|z)+")
#: What the id of an artist begins with whose marks have texts.
_POINTED = "pointed:"


def point_out(drawn: Artist | Iterable[Artist], texts: Sequence[str]) -> None:
    """Gives what was drawn a text that a browser shows to a reader who points at it.

    Several artists have a text each. One artist has a text per mark, or a single one for all of it.
    """
    for artist, own in [(drawn, texts)] if isinstance(drawn, Artist) else zip(drawn, ([t] for t in texts), strict=True):
        artist.set_gid(_POINTED + json.dumps(list(own)))


def draw_svg(plot: Figure) -> str:
    """Returns the figure as SVG, the same text for the same plot."""
    drawn = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        plot.savefig(drawn, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return _compact(drawn.getvalue())


def embed(svg: str, number: int, words: str, looks: dict[str, str] | None = None) -> str:
    """Returns a picture for use inside a page, described by ``words``: its colours are the page's, and it has no style.

    ``number`` is another for each picture of the page, so that their ids differ. With ``looks``, elements that look
    alike share a class, whose name is added there by what it stands for: see `style_of`.
    """
    root = ElementTree.fromstring(svg)  # noqa: S314 - `draw_svg` has just written it
    for defs in root.findall(f"{_SVG}defs"):
        for sheet in defs.findall(f"{_SVG}style"):
            defs.remove(sheet)
    _drop_clips(root)
    elements = list(root.iter())
    ids = {name: f"{number}-{place}" for place, each in enumerate(elements) if (name := each.get("id"))}
    for element in elements:
        element.tag = element.tag.removeprefix(_SVG)
        style = element.attrib.pop("style", "")
        attributes = {**element.attrib, **dict(part.split(":", 1) for part in style.split(";") if part)}
        element.attrib = {
            "href" if name == _LINK else name: _of_page(name, value, ids)
            for name, value in attributes.items()
            if (name, value) not in DEFAULTS
        }
    root.attrib = {"viewBox": root.get("viewBox", ""), "class": "plot", "role": "img", "aria-label": words} | {
        "fill": "var(--ink)", "stroke-linejoin": "round", "font-family": FAMILIES, "font-size": f"{LETTERS:g}px"
    }  # fmt: skip
    for pattern in root.iter("pattern"):
        ground, hatch = pattern
        if "var(" not in ground.get("fill", ""):
            hatch.set("stroke", INK)  # which is seen on every other colour
    marks = {f"#{each.get('id')}": each for each in elements if each.get("id")}
    for group in root.iter("g"):
        _share(group, marks)
    _flatten(root)
    if looks is not None:
        for element in list(root.iter())[1:]:
            _name_look(element, looks)
    return ElementTree.tostring(root, encoding="unicode")


def style_of(looks: Mapping[str, str]) -> str:
    """Returns the style of the classes that `embed` added."""
    return "".join(f".{name}{{{look}}}\n" for look, name in looks.items())


def _name_look(element: ElementTree.Element, looks: dict[str, str]) -> None:
    """Replaces what an element says of its look by a class, if that is shorter."""
    said = {name: value for name, value in element.items() if name in LOOK and "url(" not in value}
    look = ";".join(f"{name}:{value}" for name, value in sorted(said.items()))
    if len(look) > len('class="l00"'):
        element.attrib = {name: value for name, value in element.items() if name not in said}
        element.set("class", looks.setdefault(look, f"l{len(looks)}"))


def _drop_clips(root: ElementTree.Element) -> None:
    """Drops the frame of lines that lie within it anyway, and definitions that say nothing."""
    frames = {}
    for clip in root.iter(f"{_SVG}clipPath"):
        x, y, width, height = (float(clip[0].get(name, "nan")) for name in ("x", "y", "width", "height"))
        frames[f"url(#{clip.get('id')})"] = x, y, x + width, y + height
    for path in root.iter(f"{_SVG}path"):
        if (frame := frames.get(path.get("clip-path", ""))) and _LINES.fullmatch(path.get("d", "")):
            points = [(float(x), float(y)) for _, x, y in _STEP.findall(path.get("d", "")) if x]
            if all(_is_within(point, frame) for point in points):
                del path.attrib["clip-path"]
    used = {each.get("clip-path") for each in root.iter()}
    for defs in root.findall(f"{_SVG}defs"):
        for clip in [each for each in defs if f"url(#{each.get('id')})" in frames.keys() - used]:
            defs.remove(clip)
        if not len(defs):
            root.remove(defs)


def _is_within(point: tuple[float, float], frame: tuple[float, float, float, float]) -> bool:
    (x, y), (left, top, right, bottom) = point, frame
    slack = 0.02  # coordinates are rounded to two digits
    return left - slack <= x <= right + slack and top - slack <= y <= bottom + slack


def _of_page(name: str, value: str, ids: dict[str, str]) -> str:
    """Returns the value of an attribute as a page has it."""
    if name == "id":
        return ids[value]
    if name in ("fill", "stroke"):
        if value in VARIABLES:
            return f"var(--{VARIABLES[value]})"
        if grey := _GREY.fullmatch(value):
            ink = (255 - int(grey[1], 16)) / (255 - int(INK[1:3], 16))
            return f"color-mix(in srgb,var(--ink) {100 * ink:.0f}%,var(--paper))" if ink < 1 else "var(--ink)"
    if name in ("d", "x", "y"):
        value = _round(value, 1)
        return _relative(value) if _LINES.fullmatch(value) else value
    return _REFERENCE.sub(lambda link: f"#{ids.get(link[1], link[1])}", value)


def _relative(path: str) -> str:
    """Returns lines whose points are given from the point before, which is shorter."""
    steps, x, y, drawing = [], 0.0, 0.0, False  # so rounded before that no error adds up
    for letter, across, up in _STEP.findall(path):
        if letter == "L":
            ends = float(across) - x, float(up) - y
            way = " ".join(re.sub(r"\b0\.", ".", f"{end:.1f}".removesuffix(".0")) for end in ends)
            steps.append(f"{' ' if drawing else 'l'}{way}".replace(" -", "-"))
        else:
            steps.append(f"{letter}{across} {up}".rstrip())
        drawing = letter == "L"
        x, y = (float(across), float(up)) if across else (x, y)
    return "".join(steps)


def _flatten(parent: ElementTree.Element) -> None:
    """Replaces groups that say nothing by what they hold."""
    for child in list(parent):
        _flatten(child)
        if child.tag == "g" and not child.attrib and child.find("title") is None:
            place = list(parent).index(child)
            parent[place : place + 1] = list(child)


def _share(group: ElementTree.Element, marks: dict[str, ElementTree.Element]) -> None:
    """Moves what all marks of a group have in common to the group, and drops what their shape says anyway."""
    uses = [each for each in group if each.tag == "use"]
    for use in uses:
        shape = marks[use.get("href", "")]
        for name in [name for name in use.attrib if name.startswith("stroke") and name in shape.attrib]:
            del use.attrib[name]
    if uses and len(uses) == len(group) and len(fills := {use.get("fill") for use in uses}) == 1 and fills != {None}:
        group.set("fill", str(fills.pop()))
        for use in uses:
            del use.attrib["fill"]


def _compact(text: str) -> str:
    """Returns the same picture in fewer bytes, with the texts of `point_out`."""
    root = ElementTree.fromstring(text)  # noqa: S314 - matplotlib has just written it
    root.set("font-family", FAMILIES)
    for pattern in root.iter(f"{_SVG}pattern"):
        _tile(pattern)
    for group in [each for each in root.iter(f"{_SVG}g") if each.get("id", "").startswith(_POINTED)]:
        _add_titles(group, json.loads(group.attrib.pop("id").removeprefix(_POINTED)))
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
        return _round(value, 2)
    return value


def _round(value: str, digits: int) -> str:
    return _FRACTION.sub(lambda number: f"{float(number[0]):.{digits}f}".rstrip("0").rstrip("."), value)


def _add_titles(group: ElementTree.Element, texts: Sequence[str]) -> None:
    """Adds a text to each mark of the group (a mark may be drawn in two halves), or a single one to the group.

    Adds none if marks outside of the picture were left out.
    """
    marks = list(group.iter(f"{_SVG}use")) if len(texts) > 1 else [group]
    for element, text in zip(marks, cycle(texts)) if len(marks) % max(1, len(texts)) == 0 else ():
        title = ElementTree.Element(f"{_SVG}title")
        title.text = text
        element.insert(0, title)


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
            dots = f"stroke-width:{width:.2g};stroke-linecap:round;stroke-dasharray:0 {10 * radius:g}"
            shape.set("style", f"stroke:{colour[1] if colour else '#000'};{dots}")
        else:
            shape.set("d", " ".join(_lines(outline)))


def _dots(apart: float) -> Iterator[str]:
    """Yields rows of dots, every other one shifted by half; a dot is a dash of no length with round ends."""
    for row in range(round(TILE / apart) + 1):
        yield f"M{row % 2 / 2 * apart:g} {row * apart:g}h{TILE}"


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

"""Plots as small SVG, for papers and for pages: text stays text, a hatch is one tile, and shapes are said once.

matplotlib's own writer draws a hatch as hundreds of shapes, so that one dotted bar takes 200 KB, and gives every mark
a style of its own. This one writes what its artists draw.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from math import cos, radians, sin
from typing import Any

from matplotlib.artist import Artist
from matplotlib.backend_bases import RendererBase
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.path import Path

from suite.report.plots.traces import GRID, INK, LETTERS, PALE

#: Room for text is measured with DejaVu Sans. The others are as wide or narrower.
FAMILIES = "'DejaVu Sans', 'Bitstream Vera Sans', Verdana, Arial, Helvetica, sans-serif"
#: Points between the lines of a hatch of one sign; twice as many signs lie half as far apart.
HATCH = 12.0
#: The variables of a page for the colours of plots, so that they follow light and dark.
VARIABLES = {INK: "ink", PALE: "ink-soft", GRID.lower(): "line", "#ffffff": "paper"}

#: What need not be said of a look.
_DEFAULTS = {
    "stroke-width": "1", "stroke-opacity": "1", "stroke-dasharray": "", "stroke-dashoffset": "0",
    "font-weight": "normal", "font-style": "normal", "text-anchor": "start", "font-size": f"{LETTERS:g}px",
}  # fmt: skip
_LETTER = {Path.MOVETO: "M", Path.LINETO: "l", Path.CURVE3: "q", Path.CURVE4: "c", Path.CLOSEPOLY: "z"}
_ANCHOR = {"left": ("start", 0.0), "center": ("middle", 0.5), "right": ("end", 1.0)}
#: What the id of an artist begins with whose marks have texts.
_POINTED = "pointed:"


def point_out(drawn: Artist | Iterable[Artist], texts: Sequence[str]) -> None:
    """Gives what was drawn a text that a browser shows to a reader who points at it.

    Several artists have a text each. One artist has a text per mark, or a single one for all of it.
    """
    own = [(drawn, texts)] if isinstance(drawn, Artist) else zip(drawn, ([text] for text in texts), strict=False)
    for artist, words in own:
        artist.set_gid(_POINTED + json.dumps(list(words)) if words else None)


def draw_svg(plot: Figure) -> str:
    """Returns the figure as SVG, the same text for the same plot."""
    plot.set_dpi(72)
    writer = _Writer(*plot.get_size_inches() * 72)
    plot.draw(writer)
    return writer.document()


class _Writer(RendererBase):
    """Writes what artists draw, in points, with y downwards."""

    def __init__(self, width: float, height: float) -> None:
        super().__init__()
        self.size = width, height
        self.shapes: dict[str, str] = {}  # of marks and hatches, with their names
        self.written: list[str] = []
        self.ends: list[str] = []  # of the groups that are open
        self.texts: list[str] = []  # of the marks that come next

    def document(self) -> str:
        defs = "".join(shape.replace(">", f' id="{name}">', 1) for shape, name in self.shapes.items())
        across, up = map(_number, self.size)
        spaces = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        root = f'<svg {spaces} width="{across}pt" height="{up}pt" viewBox="0 0 {across} {up}"'
        look = f'font-family="{FAMILIES}" font-size="{LETTERS:g}px" stroke-linejoin="round"'
        return f"{root} {look}>\n<defs>{defs}</defs>\n{''.join(self.written)}\n</svg>\n"

    def get_canvas_width_height(self) -> tuple[float, float]:
        return self.size

    def open_group(self, s: str, gid: str | None = None) -> None:  # noqa: ARG002 - matplotlib's, as those below
        texts = json.loads(gid.removeprefix(_POINTED)) if gid and gid.startswith(_POINTED) else []
        self.written.append(f"<g>{_title(texts[0])}" if len(texts) == 1 else "")
        self.ends.append("</g>\n" if len(texts) == 1 else "")
        self.texts = [_title(text) for text in texts] if len(texts) > 1 else []

    def close_group(self, s: str) -> None:  # noqa: ARG002
        self.written.append(self.ends.pop())
        self.texts = []

    def draw_path(self, gc: Any, path: Path, transform: Any, rgbFace: Any = None) -> None:  # noqa: N803
        frame = gc.get_clip_rectangle() if rgbFace is None else None  # bars lie within their axes
        if way := "".join(_way(path, transform, self.size[1], frame and frame.extents)):
            self.written.append(f'<path d="{way}"{self._look(gc, rgbFace)}/>\n')

    def draw_markers(self, gc: Any, marker_path: Path, marker_trans: Any, *line: Any) -> None:
        path, trans, face = (*line, None)[:3]
        way = "".join(_way(marker_path, marker_trans, digits=2))
        name = self._name(f'<path d="{way}"{self._look(gc, face)}></path>')
        frame = gc.get_clip_rectangle()
        for at, (vertices, _) in enumerate(path.iter_segments(trans, simplify=False)):
            x, y = vertices[-2:]
            if not frame or frame.padded(0.1).contains(x, y):
                place = f'x="{_number(x)}" y="{_number(self.size[1] - y)}"'
                title = self.texts[at] if at < len(self.texts) else ""
                self.written.append(f'<use xlink:href="#{name}" {place}>{title}</use>')

    def draw_text(self, gc: Any, x: float, y: float, s: str, *rest: Any, mtext: Any = None, **_: Any) -> None:
        prop, angle, *_more = rest
        anchor, share = _ANCHOR[mtext.get_horizontalalignment() if mtext else "left"]
        long = share * self.get_text_width_height_descent(s, prop, False)[0]
        x, y = x + long * cos(radians(angle)), y - long * sin(radians(angle))
        look = {
            "fill": to_hex(gc.get_rgb()), "font-size": f"{prop.get_size_in_points():g}px",
            "font-weight": prop.get_weight(), "font-style": prop.get_style(), "text-anchor": anchor,
        }  # fmt: skip
        turn = f' transform="rotate({-angle:g} {_number(x)} {_number(y)})"' if angle else ""
        self.written.append(f'<text x="{_number(x)}" y="{_number(y)}"{turn}{_attributes(look)}>{escape(s)}</text>\n')

    def _name(self, shape: str) -> str:
        return self.shapes.setdefault(shape, f"s{len(self.shapes)}")

    def _look(self, gc: Any, face: Any) -> str:
        fill = "none" if face is None or (len(face) > 3 and not face[3]) else to_hex(face)
        look = {"fill": f"url(#{self._name(_tile(gc, fill))})" if gc.get_hatch() else fill}
        if gc.get_linewidth() and gc.get_rgb()[3]:
            offset, dashes = gc.get_dashes()
            look |= {
                "stroke": to_hex(gc.get_rgb()), "stroke-width": _number(gc.get_linewidth()),
                "stroke-opacity": f"{gc.get_rgb()[3]:g}",
                "stroke-dasharray": "" if dashes is None else " ".join(map(_number, dashes)),
                "stroke-dashoffset": _number(offset or 0),
            }  # fmt: skip
        return _attributes(look)


def _attributes(look: Mapping[str, Any]) -> str:
    return "".join(f' {name}="{value}"' for name, value in look.items() if _DEFAULTS.get(name) != value)


def _number(value: float, digits: int = 1) -> str:
    return f"{round(float(value), digits) + 0.0:g}"


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _way(path: Path, transform: Any, height: float = 0.0, clip: Any = None, digits: int = 1) -> Iterator[str]:
    """Yields the steps of a path, each from the point before, so rounded that no error adds up."""
    last = [0.0, 0.0]
    for vertices, code in path.iter_segments(transform, clip=clip, simplify=clip is not None):
        if (letter := _LETTER[code]) == "z":
            yield letter
            continue
        points = [round(height * (at % 2) + (-1) ** at * each, digits) + 0.0 for at, each in enumerate(vertices)]
        begin = [0.0, 0.0] if letter == "M" else last
        steps = [_number(each - begin[at % 2], digits) for at, each in enumerate(points)]
        if {*steps} != {"0"} or letter == "M":
            yield f"h{steps[0]}" if letter == "l" and steps[1] == "0" else letter + " ".join(steps)
        last = points[-2:]


def _tile(gc: Any, fill: str) -> str:
    sign, a = gc.get_hatch()[0], HATCH / len(gc.get_hatch())
    up = 2 * a if sign == "." else a
    rising = f"M-1 1L1 -1M0 {a:g}L{a:g} 0M{a - 1:g} {a + 1:g}L{a + 1:g} {a - 1:g}"
    falling = f"M-1 {a - 1:g}L1 {a + 1:g}M0 0L{a:g} {a:g}M{a - 1:g} -1L{a + 1:g} 1"
    dots = f"M{a / 4:g} {a / 2:g}h0M{3 * a / 4:g} {3 * a / 2:g}h0"
    way = {"/": rising, "\\": falling, "x": rising + falling, ".": dots}[sign]
    thick = gc.get_hatch_linewidth() + (a / 5 if sign == "." else 0)
    # In three digits, which `embed` leaves alone: a page's ink may be light, the colour below it is not.
    shape = f'<path d="{way}" stroke="#222" stroke-width="{thick:g}" stroke-linecap="round"/>'
    ground = f'<path d="M0 0h{a:g}v{up:g}h-{a:g}z" fill="{fill}"/>'
    return f'<pattern width="{a:g}" height="{up:g}" patternUnits="userSpaceOnUse">{ground}{shape}</pattern>'


def embed(svg: str, number: int, words: str) -> str:
    """Returns a picture for use inside a page, described by ``words``: its colours are the page's, and it has no style.

    ``number`` is another for each picture of the page, so that their ids differ.
    """
    head, _, body = svg.partition(">")
    head = re.sub(r' (xmlns|xmlns:xlink|width|height)="[^"]*"', "", head)
    body = re.sub(r'( id="|href="#|url\(#)', rf"\g<1>p{number}-", body).replace("xlink:href", "href")
    body = re.sub(r'="(#[0-9a-f]{6})"', lambda colour: f'="{_of_page(colour[1])}"', body)
    return f'{head} class="plot" role="img" aria-label="{escape(words)}">{body}'


def _of_page(colour: str) -> str:
    """Returns a colour of the page: its own for those that it has, a mix of them for other greys."""
    if colour in VARIABLES:
        return f"var(--{VARIABLES[colour]})"
    if colour[1:3] == colour[3:5] == colour[5:7]:
        ink = min(1.0, (255 - int(colour[1:3], 16)) / (255 - int(INK[1:3], 16)))
        return f"color-mix(in srgb,var(--ink) {100 * ink:.0f}%,var(--paper))"
    return colour

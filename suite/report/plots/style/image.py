"""Writes plots as small PNG files, for pages and for git."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from suite.report.plots.style.look import FACE

#: Dots per inch: 1080 across a usual plot, as wide as a page shows it. Hatches repeat every 1/24 inch, five dots.
DPI = 120.0
#: Agg draws at most this many dots per side.
DOTS_MOST = 60_000
#: How much of a colour over white its edges and thin lines have.
TINTS = (1.0, 0.6, 0.3)
#: Greys from ink to white, for letters, axes and grids.
GREYS = (0x22, 0x59, 0x74, 0x9E, 0xBD, 0xDD, 0xF0)
#: The other colours that plots have, for the parts of a start and for what loading adds.
PARTS = ("#F0E442", "#CC79A7", "#D55E00", "#555555")


def save(plot: Figure, path: Path) -> None:
    """Writes a PNG with a palette, the same bytes for the same plot; what is not paper, at its corners, is clear."""
    plot.set_dpi(dpi(plot.get_figheight()))
    canvas = FigureCanvasAgg(plot)
    canvas.draw()
    drawn = Image.frombytes("RGBA", canvas.get_width_height(), canvas.buffer_rgba().tobytes())
    colours = palette()
    chart = Image.new("P", (1, 1))
    chart.putpalette([*chain(*colours), *(255, 255, 255) * (256 - len(colours))])
    image = drawn.convert("RGB").quantize(palette=chart, dither=Image.Dither.NONE)
    image.paste(len(colours), mask=drawn.getchannel("A").point(lambda opacity: 255 * (opacity < 128)))
    image.putpalette([*chain(*colours), 255, 255, 255])
    image.save(path, optimize=True, transparency=len(colours))


def palette() -> list[tuple[int, int, int]]:
    """Returns the colours of all plots: white, greys, and tints of each colour over white and over ink.

    A palette that fits one plot would give thin lines of two frameworks the same grey; all colours triple the size.
    """
    tints = [_mix(colour, share, 255) for colour in FACE.values() for share in TINTS]
    edges = [_mix(colour, 0.5, ground) for colour in (*FACE.values(), *PARTS) for ground in (0x22, 255)]
    plain = [_mix(colour, 1.0, 255) for colour in PARTS]
    return list(dict.fromkeys([(255, 255, 255), *((grey,) * 3 for grey in GREYS), *tints, *edges, *plain]))


def _mix(colour: str, share: float, ground: int) -> tuple[int, int, int]:
    red, green, blue = (round(share * int(colour[at : at + 2], 16) + (1 - share) * ground) for at in (1, 3, 5))
    return red, green, blue


def dpi(height_in: float) -> float:
    """Returns dots per inch: fewer if hundreds of rows would need more dots than can be drawn."""
    return min(DPI, DOTS_MOST / height_in)

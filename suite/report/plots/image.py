"""Writes plots as small PNG files, for pages and for git."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

#: Dots per inch: 1080 across a usual plot, as wide as a page shows it. Hatches repeat every 1/24 inch, five dots.
DPI = 120.0
#: Agg draws at most this many dots per side.
DOTS_MOST = 60_000
#: Size of the palette: with fewer, the pale bands of two frameworks get the same grey; with all, files triple in size.
COLOURS = 64


def save(plot: Figure, path: Path) -> None:
    """Write a PNG with a palette, the same bytes for the same plot."""
    plot.set_dpi(dpi(plot.get_figheight()))
    canvas = FigureCanvasAgg(plot)
    canvas.draw()
    drawn = Image.frombytes("RGBA", canvas.get_width_height(), canvas.buffer_rgba().tobytes()).convert("RGB")
    image = drawn.quantize(COLOURS, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    # The octree's white is a shade too dark.
    paper, palette = 3 * image.tobytes()[0], list(image.getpalette() or [])
    palette[paper : paper + 3] = 255, 255, 255
    image.putpalette(palette)
    image.save(path, optimize=True)


def dpi(height_in: float) -> float:
    """Returns dots per inch: fewer if hundreds of rows would need more dots than can be drawn."""
    return min(DPI, DOTS_MOST / height_in)

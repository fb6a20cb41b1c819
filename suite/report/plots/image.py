"""Writes plots as small PNG files, for pages and for git."""

from __future__ import annotations

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image, ImageDraw

#: Dots per inch: 1080 across a usual plot, as wide as a page shows it. Hatches repeat every 1/24 inch, five dots.
DPI = 120.0
#: Agg draws at most this many dots per side.
DOTS_MOST = 60_000
#: Size of the palette: with fewer, the pale bands of two frameworks get the same grey; with all, files triple in size.
COLOURS = 64

#: Radius of a corner in dots, and the opacities of the dots at its edge.
RADIUS = 14
CORNER = (0, 64, 128, 192)


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
    image.putpalette([*palette[: 3 * COLOURS], *[255] * (3 * len(CORNER))])
    _round_off(image)
    image.save(path, optimize=True, transparency=bytes([255] * COLOURS + list(CORNER)))


def _round_off(image: Image.Image) -> None:
    """Make the corners transparent, so that the plot is a white card on a dark page."""
    across, up = image.size
    fine = Image.new("L", (4 * RADIUS, 4 * RADIUS), 0)
    ImageDraw.Draw(fine).ellipse((0, 0, 8 * RADIUS, 8 * RADIUS), fill=255)
    for x in range(RADIUS):
        for y in range(RADIUS):
            held = fine.crop((4 * x, 4 * y, 4 * x + 4, 4 * y + 4)).tobytes()
            covered = sum(held) // len(held)
            if covered < 255:
                level = COLOURS + min(range(len(CORNER)), key=lambda at: abs(CORNER[at] - covered))
                for place in ((x, y), (across - 1 - x, y), (x, up - 1 - y), (across - 1 - x, up - 1 - y)):
                    image.putpixel(place, level)


def dpi(height_in: float) -> float:
    """Returns dots per inch: fewer if hundreds of rows would need more dots than can be drawn."""
    return min(DPI, DOTS_MOST / height_in)

"""Draw the pictures of the README: ``python -m tests.studies.hero [RUN ...] [--output FILE]``.

They show the throughput of published runs of one machine side by side, each panel with its size and n. The second, of
a PNG, is the first for a dark page. The same runs give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

from suite.analysis.records.load import find, load
from suite.analysis.rows.groups import group
from suite.analysis.statistics.accuracy import compare_accuracies, trains_to_the_end
from suite.plan.cell import FRAMEWORKS
from suite.report import plots
from suite.report.plots.kinds.hero import hero
from suite.report.tables.frame import table

#: The run with throughput of both workloads in full size.
RUNS = ("0032_cpu",)
STORAGE = Path("results/runs")
OUTPUT = Path("docs/hero.png")
#: What the ends of the greys become on a dark page: its ground, which was white, and what was black.
GROUND, INK = (13, 17, 23), (240, 246, 252)
#: How far the parts of a colour are apart from which on it stays as it is.
COLOURED = 60


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the picture; returns the exit status, 1 if the runs have nothing to draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="*", default=RUNS, help=f"default: {' '.join(RUNS)}")
    parser.add_argument(
        "--storage", type=Path, default=Path("results/runs"), metavar="DIR", help="where they are saved"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FILE", help=f"PNG or SVG; default: {OUTPUT}")
    options = parser.parse_args(arguments)
    paths, _ = find(options.run, options.storage)
    groups = group(load(paths).launches)
    if len(machines := sorted({row.machine for each in groups for row in each.rows})) > 1:
        parser.error(f"the runs are of {len(machines)} machines, whose figures do not belong side by side: {machines}")
    tables = [table(each) for each in groups if not trains_to_the_end(each)]
    trained = [compare_accuracies(each, FRAMEWORKS[0]) for each in groups if trains_to_the_end(each)]
    if (chart := hero(tables, trained)) is None:
        return 1
    plots.save(chart, options.output)
    if options.output.suffix == ".png":
        save_dark(options.output)
    return 0


def save_dark(path: Path) -> None:
    """Write the picture for a dark page beside it: the greys turned over, the colours of bars as they are."""
    drawn = Image.open(path)
    palette = drawn.getpalette("RGBA") or []
    parts = [palette[at : at + 4] for at in range(0, len(palette), 4)]
    mark = PngInfo()
    mark.add_text("Software", str(drawn.info["Software"]))
    drawn.putpalette([part for each in parts for part in (*_darken(each[:3]), each[3])], "RGBA")
    drawn.save(path.with_stem(f"{path.stem}-dark"), pnginfo=mark)


def _darken(colour: Sequence[int]) -> list[int]:
    grey, kept = sum(colour) / 3 / 255, min(1.0, (max(colour) - min(colour)) / COLOURED)
    turned = [ground * grey + ink * (1 - grey) for ground, ink in zip(GROUND, INK, strict=True)]
    return [round(kept * own + (1 - kept) * other) for own, other in zip(colour, turned, strict=True)]


if __name__ == "__main__":
    sys.exit(main())

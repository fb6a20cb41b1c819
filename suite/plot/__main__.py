"""Draws one plot of a run by its name: ``training-suite plot RUN KIND``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from framework_training_suite import CommandError
from suite.analysis.options import RUNS, STORAGE_FOLDER, STYLE
from suite.catalog.suggest import unknown
from suite.plan.command.common import command, option

EPILOG = """\
examples:
  training-suite plot 0032                                   which plots there are of this run
  training-suite plot 0032 throughput                        throughput.png here
  training-suite plot 0032 throughput --output figure.pdf    as PDF or SVG, for a paper

Of several workloads each has a file of its own, with its name at the end. `training-suite compare RUN --output DIR`
draws all plots.

exit status: 0; 2 for wrong usage, or where the run has no such plot; 130 if interrupted
"""


@command(
    "suite.plot", __doc__, EPILOG,
    RUNS.but(nargs=None),
    option("kind", metavar="KIND", nargs="?", help="the plot; without it, those that there are of this run"),
    option("--output", type=Path, metavar="FILE",
           help="where to draw it; a file that is no plot of the suite's stays as it is (default: KIND.png)"),
    STYLE, STORAGE_FOLDER,
)  # fmt: skip
def main(options: argparse.Namespace) -> int:
    """Draw the plot, or list the plots."""
    from suite.compare.notebook import load
    from suite.report.plots import SUFFIXES, is_drawn, save

    place: Path = options.output or Path(f"{options.kind}.png")
    if place.suffix not in SUFFIXES:
        raise CommandError(f"--output {place}: write a name that ends with one of: {', '.join(SUFFIXES)}")
    drawn = load(options.run, storage=options.storage).charts
    kinds = {kind.name: kind.words for kind, _, _ in drawn}
    if options.kind is None:
        print("\n".join(f"{name:20} {words}" for name, words in kinds.items()))
        return 0
    if options.kind not in kinds:
        raise CommandError(unknown("plot", options.kind, kinds))
    chosen = [(name, chart) for kind, name, chart in drawn if kind.name == options.kind]
    files = [place if len(chosen) == 1 else place.with_stem(f"{place.stem}-{name}") for name, _ in chosen]
    if other := next((file for file in files if file.exists() and not is_drawn(file)), None):
        raise CommandError(f"{other} is no plot of the suite's, and stays as it is; choose another name")
    for file, (_, chart) in zip(files, chosen, strict=True):
        save(chart, file, options.style)
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Draw the picture of the README: ``python -m tests.studies.hero [RUN ...] [--output FILE]``.

It shows the throughput of published runs of one machine side by side, each panel with its size and n. The same runs
give the same bytes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

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
    return 0


if __name__ == "__main__":
    sys.exit(main())

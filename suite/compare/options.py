"""The command line of `suite.compare`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from suite.analysis.options import (
    ASKED,
    CURRENCY,
    EXTRAS,
    MARGIN_OPTION,
    PRICE_HOUR,
    PRICE_KWH,
    RUNS,
    STORAGE_FOLDER,
    STYLE,
    threshold,
)
from suite.analysis.rows.axes import AXES, BETWEEN_RUNS, OF_VARIANTS, is_axis
from suite.catalog.suggest import unknown
from suite.plan.cell import FRAMEWORKS
from suite.plan.command.common import OWN, PUBLISHED, add, command_parser, one_of

FORMATS = ("terminal", "markdown", "json", "html")

DESCRIPTION = """\
Compare the cells of one or more runs. The command prints the answer and the columns that decide, on one screen, and
then writes everything into a new folder: report.html (a page with all tables and plots), table.md, cells.csv (one row
per cell), launches.csv (one row per launch, failed ones included; results/SCHEMA.md describes its columns), and
run.json, a summary. Cells that train to their end are in accuracy.csv and epochs.csv instead of cells.csv. With
--output, the folder also has the plots as PNG and SVG, and the launches as launches.parquet, with types. A folder that
already holds a comparison of the run is changed by --output and --publish alone.

Ratios are only formed between rows with the same data, spec, size, precision, settings and run, and only if their
fingerprints agree; of several runs of one machine, between each cell and the same one in the first run. A cell that
failed keeps its row, with its outcome.
"""

EXAMPLES = """\
examples:
  training-suite compare                             the run saved last; without any, a published one
  training-suite compare 0032                        a run by its number or name: cpu, 0032_cpu
  training-suite compare 0032 --verbose              all columns, with their legend and all notes
  training-suite compare 0032 --why                  where the time goes, one framework against another
  training-suite compare 0011 0023                   two runs of a machine: the second relative to the first
  training-suite compare runs/journals/x.jsonl       what an interrupted run has measured
  training-suite compare --by precision              what a precision gains within each framework
  training-suite compare --by batch --baseline 128   the same for batch sizes, as ratios to batch 128
  training-suite compare --by devices                what further devices gain, with efficiency and communication
  training-suite compare A.json B.json --across-machines   two machines: ratios of the same cell, relative to A's
  training-suite compare 0032 --publish results/     a report in its own folder, and an index over all of them
  training-suite compare 0032 --format json          everything in the tables, for other programs
  training-suite compare 0032 --format html > a.html     the report as one file
  training-suite compare 0032 --output figures/ --extra svg    the plots of a published run for a paper
  training-suite compare 0011 0023 --fail-if slower=5%   for CI: exit status 1 if a cell became significantly slower
  training-suite compare --baseline jax --format markdown > ratios.md

exit status: 0; 1 if a cell became slower (--fail-if); 2 for wrong usage, unusable input, or output that cannot be
written; 3 if --fail-if could not test any cell
"""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Returns the options. Exits with status 2 for wrong usage."""
    parser = command_parser("suite.compare", DESCRIPTION, EXAMPLES)
    add(parser.add_argument, RUNS)
    parser.add_argument(
        "--by", type=_axis, metavar="AXIS",
        help="what to form ratios along, all other settings being equal: framework (default), run (default where "
        "several runs have a cell in common), or within each framework "
        f"{', '.join(name for name in AXES if name not in ('framework', *BETWEEN_RUNS))}; or machine; of a script "
        f"also {OF_VARIANTS}. accumulate is at the same effective batch, devices with the same batch on each",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", metavar="VALUE",
        help="the value on that axis that ratios are relative to; default: pytorch; the first run; fp32, the smallest "
        "batch, each framework's usual compile mode and strategy, the tuned loader, full, auto, 1, or the next value "
        "that a row has",
    )  # fmt: skip
    parser.add_argument(
        "--across-machines", action="store_true",
        help="allow ratios between runs and machines, and show the machine as a column; without --by, ratios are "
        "between machines, relative to that of the first RUN, or to the one whose name contains the --baseline",
    )  # fmt: skip
    add(parser.add_argument, MARGIN_OPTION)
    parser.add_argument(
        "--format", type=one_of("format", FORMATS), default="terminal", metavar=f"{{{','.join(FORMATS)}}}",
        help="what to print (default: terminal)",
    )  # fmt: skip
    parser.add_argument(
        "--verbose", action="store_true", help="print all columns with their legend and all notes, not just one screen"
    )
    parser.add_argument(
        "--why", action="store_true",
        help="print what makes one row slower than another, from the profiles of training-suite run --profile",
    )  # fmt: skip
    _add_outputs(parser)
    add(parser.add_argument, STORAGE_FOLDER)
    parser.add_argument(
        "--fail-if", type=threshold, metavar="slower=5%",
        help="exit with status 1 if a cell of the second run is significantly slower than in the first by more than "
        "this, with 3 if no cell could be tested; cells that are undecided or were not tested are counted, and no more",
    )  # fmt: skip
    add(parser.add_argument, PRICE_HOUR, PRICE_KWH, CURRENCY)
    options = parser.parse_args(arguments)
    if options.by == "machine" and not options.across_machines:
        parser.error("--by machine needs --across-machines, because numbers of different machines are not comparable")
    if options.extra is None:
        options.extra = EXTRAS if options.output and not options.publish else ()
    options.by = options.by or ("machine" if options.across_machines else "framework" if options.baseline else "")
    if options.by == "framework" and options.baseline and options.baseline not in FRAMEWORKS:
        parser.error(f"--baseline: {unknown('framework', options.baseline, FRAMEWORKS)}")
    options.one_file = options.one_file or options.format == "html"
    return options


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help=f"default: {OWN}/ and the name of the run; what stands there or in {PUBLISHED}/ is left as it is",
    )
    parser.add_argument(
        "--publish", type=Path, metavar="DIR",
        help="add the report to the static site in DIR: a folder for it there, and index.html over all of them; with "
        f"{PUBLISHED}/, a run of your own moves from {OWN}/ to those that git keeps",
    )  # fmt: skip
    parser.add_argument(
        "--one-file", action="store_true", help="embed the plots in report.html, so that it needs no other file"
    )
    parser.add_argument(
        "--extra", type=_extras, metavar="FILES",
        help="also write png, svg, pdf (the plots), parquet (the launches), several (with a comma), or none; "
        "default: all but pdf with --output, otherwise none, because results/ and sites are kept in git",
    )  # fmt: skip
    add(parser.add_argument, STYLE)


def _axis(text: str) -> str:
    return text if is_axis(text) else one_of("axis", sorted(AXES))(text)


def _extras(text: str) -> tuple[str, ...]:
    names = () if text == "none" else tuple(text.split(","))
    if others := set(names) - {*ASKED}:
        raise argparse.ArgumentTypeError(f"{min(others)!r} is not one of: {', '.join(ASKED)}, none")
    return names

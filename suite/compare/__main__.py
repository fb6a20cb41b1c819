"""``python -m suite.compare``: reads recorded runs and writes tables, plots and a report."""

from __future__ import annotations

import argparse
import gc
import io
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from suite.analysis.accuracy import learned, trains_to_the_end
from suite.analysis.axes import AXES, base
from suite.analysis.groups import Group, group
from suite.analysis.load import STORAGE, LoadError, find, load
from suite.analysis.metrics import Prices
from suite.analysis.regress import Change, changes, threshold
from suite.analysis.statistics import MARGIN
from suite.analysis.wording import percent
from suite.plan.cell import FRAMEWORKS
from suite.record.text import clean
from suite.report import accuracy, columns, markdown
from suite.report.folder import EXTRAS, INDEX, Compared, place_for, text_of, write
from suite.report.site import check, publish
from suite.report.tables import table
from suite.report.terminal import Terminal
from suite.report.words import legend

RESULTS = Path("results")

DESCRIPTION = """\
Set the cells of one or more runs side by side: a table per workload on the screen, and in the output folder report.html
(a page with all of it; it shows the plots beside it), table.md, cells.csv (one row per cell), launches.csv (one row per
launch, failed ones included; results/SCHEMA.md lists its columns), plots as PNG, and run.json, a summary. Cells that
train to their end go to accuracy.csv and epochs.csv instead of cells.csv. With --output the plots are written as
SVG too, for papers, and the launches as launches.parquet, with types.

Only what is alike is put into a ratio: the same data, spec, size, precision, settings and run, and fingerprints that
agree. A cell that failed keeps its row, with its outcome.
"""

EXAMPLES = """\
examples:
  python -m suite.compare                             the run saved last
  python -m suite.compare 0003                        a run by its number; also by its name: smoke, 0003_smoke
  python -m suite.compare 0003 0005                   two runs in one table; no ratio is formed between runs
  python -m suite.compare results/journals/x.jsonl    what a killed run left behind
  python -m suite.compare --by precision              what a number format gains, within each framework
  python -m suite.compare --by batch --baseline 128   the same for the batch size, with ratios to 128
  python -m suite.compare A.json B.json --across-machines   two machines: ratios of the same cell, to A's machine
  python -m suite.compare 0003 --publish results/     a report in a folder of its own, and an index over all of them
  python -m suite.compare 0003 --one-file             a report that holds its plots, to mail or to move
  python -m suite.compare 0003 --output figures/ --extra svg    the plots of a published run for a paper
  python -m suite.compare 0003 0005 --fail-if slower=5%   for CI: exit status 1 if a cell became slower, significantly
  python -m suite.compare --baseline jax --format markdown > ratios.md

exit status: 0; 1 if a cell became slower (--fail-if); 2 for wrong usage, input that cannot be used, or output that
cannot be written; 3 if --fail-if could test no cell
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print the error in one line and exit with status 2."""
        self.exit(2, f"{self.prog}: {clean(message)}; see --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status: 0; 1 if ``--fail-if`` applies, 3 if it could test nothing; 2 for unusable input or an
    output folder that cannot be written.
    """
    options = _options(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a dash must not end a comparison in an ASCII terminal
    errors = Terminal(sys.stderr)
    try:
        paths, notes = find(options.run, options.storage)
        with errors.status("reading the launches"):
            loaded = load(paths)
        speed_changes = changes(loaded.launches) if options.fail_if is not None else None
        groups = group(loaded.launches, options.by, options.across_machines)
        _check_baseline(groups, options.by, options.baseline)
        runs = {launch.run for launch in loaded.launches}
        folder = options.output or place_for(options.publish or RESULTS, _name(paths), runs)
        if options.publish:
            check(options.publish, folder)
    except (LoadError, OSError) as error:
        print(f"suite.compare: {clean(error, 1000)}", file=sys.stderr)
        return 2
    prices = Prices(options.price_hour, options.price_kwh)
    framework = options.baseline if options.by == "framework" else FRAMEWORKS[0]
    compared = Compared(
        loaded,
        [table(each, options.baseline, prices, options.margin) for each in groups if not trains_to_the_end(each)],
        [learned(each, framework) for each in groups if trains_to_the_end(each)],
        [path.name for path in paths],
        options.one_file,
        published=bool(options.publish),
        paths=paths,
    )
    try:
        with errors.status("drawing the plots and writing the report"):
            notes += [*loaded.notes, *write(folder, compared, options.extra)]
            notes += publish(options.publish) if options.publish else []
    except OSError as error:
        print(f"suite.compare: {clean(error)}: choose another folder with --output", file=sys.stderr)
        return 2
    _show(compared, notes, options.format)
    print(f"written to {folder}: report.html, tables, launches, plots", file=sys.stderr)
    if options.publish:
        print(f"published: {options.publish / INDEX}", file=sys.stderr)
    return _regressions(*speed_changes, options.fail_if) if speed_changes else 0


def _regressions(tested: Sequence[Change], obstacles: Sequence[str], limit: float) -> int:
    """Print the cells that became significantly slower than ``limit``; returns 1 if any did, 3 if none was tested."""
    for obstacle in obstacles:
        print(f"not tested: {clean(obstacle)}", file=sys.stderr)
    if not tested:
        print("--fail-if: no cell could be tested, so that nothing is known about a slow-down", file=sys.stderr)
        return 3
    slower = [change for change in tested if change.slower(limit)]
    for change in slower:
        print(f"slower: {change}", file=sys.stderr)
    print(f"{len(slower)} of {len(tested)} cells are slower by more than {limit:.0%}, significantly", file=sys.stderr)
    return int(bool(slower))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = _Parser(
        prog="python -m suite.compare",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", nargs="*", metavar="RUN", help="file, folder, or a run's number or name in the storage")
    parser.add_argument(
        "--by",
        choices=sorted(AXES),
        metavar="AXIS",
        help="along what ratios are formed, all else being the same: framework (the default), or within a framework "
        "precision, batch, compile, loader, size, kernel or accumulate (at one effective batch); or machine",
    )
    parser.add_argument(
        "--baseline",
        metavar="VALUE",
        help="of that axis, which ratios are to; default: pytorch; fp32, the smallest batch, each framework's usual "
        "compile mode, the tuned loader, full, auto, 1, or if none has that the next",
    )
    parser.add_argument(
        "--across-machines",
        action="store_true",
        help="let rows of different runs and machines enter one ratio, and make the machine a column; without --by, "
        "ratios are between machines, to that of the first RUN or the one whose name holds the --baseline",
    )
    parser.add_argument(
        "--margin",
        type=percent,
        default=MARGIN,
        metavar="PERCENT",
        help="equal lies within it, faster and slower beyond it, each with the whole 95 %% interval; noise never "
        f"widens it (default: {100 * MARGIN:g})",
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: results/ and the name of the run")
    parser.add_argument(
        "--publish",
        type=Path,
        metavar="DIR",
        help="add the comparison to the static site in DIR: a folder for it there, and index.html over all of them",
    )
    parser.add_argument(
        "--one-file", action="store_true", help="put the plots into report.html too, which then needs no file beside it"
    )
    parser.add_argument(
        "--extra",
        type=_extras,
        metavar="FILES",
        help="also write svg (the plots), parquet (the launches), both with a comma, or none; default: both with "
        "--output, else none, since results/ and sites are kept in git",
    )
    parser.add_argument("--storage", type=Path, metavar="DIR", default=STORAGE, help=f"saved runs; default: {STORAGE}")
    parser.add_argument(
        "--fail-if",
        type=threshold,
        metavar="slower=5%",
        help="exit status 1 if a cell of the second run is slower than the first's by more than this, significantly; "
        "3 if no cell could be tested",
    )
    parser.add_argument("--price-hour", type=_price, metavar="P", help="of the machine, for a cost per million samples")
    parser.add_argument("--price-kwh", type=_price, metavar="P", help="of the GPU's energy, likewise")
    parser.add_argument("--format", choices=("terminal", "markdown"), default="terminal", help="of what is printed")
    options = parser.parse_args(arguments)
    if options.by == "machine" and not options.across_machines:
        parser.error("--by machine takes --across-machines as well: figures of different machines are not alike")
    if options.extra is None:
        options.extra = EXTRAS if options.output and not options.publish else ()
    options.by = options.by or ("machine" if options.across_machines else "framework")
    if options.by == "framework":
        options.baseline = options.baseline or FRAMEWORKS[0]
        if options.baseline not in FRAMEWORKS:
            parser.error(f"--baseline is {options.baseline!r}; there are: {', '.join(FRAMEWORKS)}")
    return options


def _check_baseline(groups: Sequence[Group], by: str, baseline: str | None) -> None:
    """Raises `LoadError` if no row has that value. A framework may be absent; the table says so."""
    if baseline is None or by == "framework":
        return
    axis = AXES[by]
    if not any(base(axis, each.rows, baseline).holds(row) for each in groups for row in each.rows):
        values = dict.fromkeys(axis.value(row) for each in groups for row in each.rows)
        raise LoadError(f"no cell has {by} {baseline!r} (--baseline); there are: {', '.join(values)}")


def _extras(text: str) -> tuple[str, ...]:
    names = () if text == "none" else tuple(text.split(","))
    if unknown := set(names) - {*EXTRAS}:
        raise argparse.ArgumentTypeError(f"{min(unknown)!r} is none of: {', '.join(EXTRAS)}, none")
    return names


def _price(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(text)
    return value


def _name(paths: Sequence[Path]) -> str:
    suffix = f"-and-{len(paths) - 1}-more" if len(paths) > 1 else ""
    return paths[0].stem + suffix


def _show(compared: Compared, notes: Sequence[str], form: str) -> None:
    """Print the tables and all notes, as text for a terminal or as Markdown."""
    terminal = Terminal()
    sources = ", ".join(map(clean, compared.sources))
    notes = [clean(note) for note in notes]
    if form == "markdown":
        lines = "".join(f"- {markdown.escape(note)}\n" for note in notes)
        terminal.out(f"Read: {markdown.escape(sources)}\n\n{text_of(compared)}\n{lines}", end="")
        return
    terminal.print(f"read: {sources}\n", soft_wrap=True)
    views = [*map(columns.view, compared.tables), *map(accuracy.view, compared.learned)]
    for number, view in enumerate(views):
        if number:
            terminal.print("\n")
        terminal.show(view)
    if compared.tables:
        terminal.print()
        terminal.say(legend(compared.tables))
    for note in notes:
        terminal.say(f"note: {note}")


if __name__ == "__main__":
    # What was loaded stays in memory to the end; collecting garbage at the usual rate would take a tenth of the time.
    gc.set_threshold(200_000, 20, 1000)
    sys.exit(main())

"""`python -m suite.compare`: runs in, tables and plots out."""

from __future__ import annotations

import argparse
import gc
import io
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from suite.analysis.accuracy import learned, trains_to_the_end
from suite.analysis.axes import AXES, base
from suite.analysis.groups import Group, group
from suite.analysis.load import STORAGE, Loaded, LoadError, find, load
from suite.analysis.metrics import Prices
from suite.analysis.regress import changes, threshold
from suite.analysis.statistics import MARGIN
from suite.analysis.wording import percent
from suite.plan.cell import FRAMEWORKS
from suite.record.text import clean
from suite.report.accuracy import terminal as in_terminal
from suite.report.folder import INDEX, Compared, place_for, text_of, write
from suite.report.site import check, publish
from suite.report.tables import table
from suite.report.terminal import terminal, wrap
from suite.report.text import markdown
from suite.report.words import legend

RESULTS = Path("results")

DESCRIPTION = """\
Set the cells of one or more runs side by side: a table per workload on the screen, and in the output folder report.html
(all of it in one file), table.md, cells.csv (one row per cell), launches.csv and launches.parquet (one row per launch,
failed ones included; results/SCHEMA.md lists their columns), plots as PNG and SVG, and run.json, a summary. Cells
that train to their end go to accuracy.csv and epochs.csv instead of cells.csv.

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
  python -m suite.compare 0003 0005 --fail-if slower=5%   for CI: exit status 1 if a cell became slower, significantly
  python -m suite.compare --baseline jax --format markdown > ratios.md
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, as all errors here."""
        self.exit(2, f"{self.prog}: {clean(message)}; see --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0; 1 for what ``--fail-if`` names; 2 for input or an output folder that cannot be used."""
    options = _options(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a dash must not end a comparison in an ASCII terminal
    try:
        paths, notes = find(options.run, options.storage)
        loaded = load(paths)
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
    )
    try:
        notes += [*loaded.notes, *write(folder, compared)]
        notes += publish(options.publish) if options.publish else []
    except OSError as error:
        print(f"suite.compare: {clean(error)}: choose another folder with --output", file=sys.stderr)
        return 2
    try:
        _say(compared, notes, options.format)
        print(f"written to {folder}: report.html, tables, launches, plots", file=sys.stderr)
        if options.publish:
            print(f"published: {options.publish / INDEX}", file=sys.stderr)
    except BrokenPipeError:
        # The reader has seen enough (`| head`). What stdout still holds must not raise again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _regressions(loaded, options.fail_if) if options.fail_if is not None else 0


def _regressions(loaded: Loaded, apart: float) -> int:
    """Say which cells became slower beyond the margin, significantly; 1 if any did."""
    try:
        found, notes = changes(loaded.launches)
    except LoadError as error:
        print(f"suite.compare: {clean(error, 1000)}", file=sys.stderr)
        return 2
    slower = [change for change in found if change.slower(apart)]
    for note in notes:
        print(f"not tested: {clean(note)}", file=sys.stderr)
    for change in slower:
        print(f"slower: {change}", file=sys.stderr)
    print(f"{len(slower)} of {len(found)} cells are slower by more than {apart:.0%}, significantly", file=sys.stderr)
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
    parser.add_argument("--storage", type=Path, metavar="DIR", default=STORAGE, help=f"saved runs; default: {STORAGE}")
    parser.add_argument(
        "--fail-if",
        type=threshold,
        metavar="slower=5%",
        help="exit status 1 if a cell of the second run is slower than the first's by more than this, significantly",
    )
    parser.add_argument("--price-hour", type=_price, metavar="P", help="of the machine, for a cost per million samples")
    parser.add_argument("--price-kwh", type=_price, metavar="P", help="of the GPU's energy, likewise")
    parser.add_argument("--format", choices=("terminal", "markdown"), default="terminal", help="of what is printed")
    options = parser.parse_args(arguments)
    if options.by == "machine" and not options.across_machines:
        parser.error("--by machine takes --across-machines as well: figures of different machines are not alike")
    options.by = options.by or ("machine" if options.across_machines else "framework")
    if options.by == "framework":
        options.baseline = options.baseline or FRAMEWORKS[0]
        if options.baseline not in FRAMEWORKS:
            parser.error(f"--baseline is {options.baseline!r}; there are: {', '.join(FRAMEWORKS)}")
    return options


def _check_baseline(groups: Sequence[Group], by: str, baseline: str | None) -> None:
    """Raises `LoadError` where no row has that value; a framework may be absent, and then the table says so."""
    if baseline is None or by == "framework":
        return
    axis = AXES[by]
    if not any(base(axis, each.rows, baseline).holds(row) for each in groups for row in each.rows):
        there = dict.fromkeys(axis.value(row) for each in groups for row in each.rows)
        raise LoadError(f"no cell has {by} {baseline!r} (--baseline); there are: {', '.join(there)}")


def _price(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(text)
    return value


def _name(paths: Sequence[Path]) -> str:
    more = f"-and-{len(paths) - 1}-more" if len(paths) > 1 else ""
    return paths[0].stem + more


def _say(compared: Compared, notes: Sequence[str], form: str) -> None:
    read = ", ".join(map(clean, compared.sources))
    if form == "markdown":
        print(f"Read: {markdown(read)}\n")
        print(text_of(compared))
        print("".join(f"- {markdown(clean(note))}\n" for note in notes), end="")
    else:
        print(f"read: {read}\n")
        colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
        timed = [terminal(each, colour) for each in compared.tables]
        print("\n\n".join([*timed, *map(in_terminal, compared.learned)]))
        if compared.tables:
            print(f"\n{wrap(legend(compared.tables))}")
        print("".join(f"{wrap(f'note: {clean(note)}')}\n" for note in notes), end="")
    sys.stdout.flush()


if __name__ == "__main__":
    # What was loaded stays to the end; to look through it for garbage again and again would take a second in ten.
    gc.set_threshold(200_000, 20, 1000)
    sys.exit(main())

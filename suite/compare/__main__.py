"""`python -m suite.compare`: runs in, tables and plots out."""

from __future__ import annotations

import argparse
import io
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pandas as pd

from suite.cell import FRAMEWORKS
from suite.compare import accuracy, accuracy_words, learning, plots
from suite.compare.accuracy import Learned
from suite.compare.groups import group
from suite.compare.load import STORAGE, Loaded, LoadError, find, load
from suite.compare.metrics import Prices
from suite.compare.notes import legend
from suite.compare.regress import changes, threshold
from suite.compare.render import in_markdown, terminal, wrap
from suite.compare.report import report
from suite.compare.tables import Table, cells, launches, table
from suite.compare.text import clean, markdown

DESCRIPTION = """\
Set the cells of one or more runs side by side: a table per workload on the screen, and in the output folder report.html
(all of it in one file), table.md, cells.csv (one row per cell), launches.csv (one row per launch, failed ones included)
and plots as PNG and SVG. Cells that train to their end go to accuracy.csv and epochs.csv instead of cells.csv.

Only what is alike is put into a ratio: the same data, spec, size, precision, settings and run, and fingerprints that
agree. A cell that failed keeps its row, with its outcome.
"""

EXAMPLES = """\
examples:
  python -m suite.compare                             the run saved last
  python -m suite.compare 0003                        a run by its number; also by its name: smoke, 0003_smoke
  python -m suite.compare 0003 0005                   two runs in one table; no ratio is formed between runs
  python -m suite.compare results/journals/x.jsonl    what a killed run left behind
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
    except (LoadError, OSError) as error:
        print(f"suite.compare: {clean(error, 1000)}", file=sys.stderr)
        return 2
    prices = Prices(options.price_hour, options.price_kwh)
    groups = group(loaded.launches)
    tables = [table(each, options.baseline, prices) for each in groups if not accuracy.trains_to_the_end(each)]
    learned = [accuracy.learned(each, options.baseline) for each in groups if accuracy.trains_to_the_end(each)]
    folder = options.output or Path("results", _name(paths))
    try:
        _write(folder, loaded, tables, learned, options.baseline, sources=[path.name for path in paths])
    except OSError as error:
        print(f"suite.compare: {clean(error)}: choose another folder with --output", file=sys.stderr)
        return 2
    try:
        _say(
            tables,
            learned,
            options.baseline,
            [*notes, *loaded.notes],
            options.format,
            sources=[path.name for path in paths],
        )
        print(f"written to {folder}: report.html, table.md, cells.csv, launches.csv, plots", file=sys.stderr)
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
    parser.add_argument("--baseline", choices=FRAMEWORKS, default="pytorch", help="ratios are to it; default: pytorch")
    parser.add_argument("--output", type=Path, metavar="DIR", help="default: results/ and the name of the run")
    parser.add_argument("--storage", type=Path, metavar="DIR", default=STORAGE, help=f"saved runs; default: {STORAGE}")
    parser.add_argument(
        "--fail-if",
        type=threshold,
        metavar="slower=5%",
        help="exit status 1 if a cell of the second run is, by a test",
    )
    parser.add_argument("--price-hour", type=_price, metavar="P", help="of the machine, for a cost per million samples")
    parser.add_argument("--price-kwh", type=_price, metavar="P", help="of the GPU's energy, likewise")
    parser.add_argument("--format", choices=("terminal", "markdown"), default="terminal", help="of what is printed")
    return parser.parse_args(arguments)


def _price(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(text)
    return value


def _name(paths: Sequence[Path]) -> str:
    more = f"-and-{len(paths) - 1}-more" if len(paths) > 1 else ""
    return paths[0].stem + more


def _write(
    folder: Path, loaded: Loaded, tables: Sequence[Table], learned: Sequence[Learned], baseline: str,
    sources: Sequence[str],
) -> None:  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    notes = "".join(f"\n- {markdown(note)}" for note in loaded.notes)
    text = _markdown(tables, learned, baseline) + (f"\nOn the files:\n{notes}\n" if notes else "")
    (folder / "table.md").write_text(text, encoding="utf-8")
    if tables:
        cells(tables).to_csv(folder / "cells.csv", index=False, lineterminator="\n")
    if learned:
        frame = pd.concat([each.frame for each in learned])
        frame.to_csv(folder / "accuracy.csv", index=False, lineterminator="\n")
        accuracy.epochs(loaded.launches).to_csv(folder / "epochs.csv", index=False, lineterminator="\n")
    launches(loaded.launches).to_csv(folder / "launches.csv", index=False, lineterminator="\n")
    drawn = [path for path in [*plots.draw(tables, folder), *learning.draw(learned, folder)] if path.suffix == ".png"]
    page = report(tables, loaded, drawn, sources, learned, baseline)
    (folder / "report.html").write_text(page, encoding="utf-8")


def _say(
    tables: Sequence[Table], learned: Sequence[Learned], baseline: str, notes: Sequence[str], form: str,
    sources: Sequence[str],
) -> None:  # fmt: skip
    read = ", ".join(map(clean, sources))
    if form == "markdown":
        print(f"Read: {markdown(read)}\n")
        print(_markdown(tables, learned, baseline))
        print("".join(f"- {markdown(clean(note))}\n" for note in notes), end="")
    else:
        print(f"read: {read}\n")
        print("\n\n".join([*map(terminal, tables), *map(accuracy_words.terminal, learned)]))
        if tables:
            print(f"\n{wrap(legend(baseline))}")
        print("".join(f"{wrap(f'note: {clean(note)}')}\n" for note in notes), end="")
    sys.stdout.flush()


def _markdown(tables: Sequence[Table], learned: Sequence[Learned], baseline: str) -> str:
    told = [*map(in_markdown, tables), *map(accuracy_words.in_markdown, learned)]
    return "\n".join([*told, *([f"{markdown(legend(baseline))}\n"] if tables else [])])


if __name__ == "__main__":
    sys.exit(main())

"""Runs the cells of a stored result again, and says whether it holds: ``python -m suite.reproduce RESULT``."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from suite.analysis.records.load import STORAGE, LoadError, find, load
from suite.analysis.rows.wording import NONE, percent
from suite.analysis.statistics.inference import MARGIN
from suite.catalog.devices import CHOICES as DEVICES
from suite.plan.blocks import blocks
from suite.plan.cell import Cell
from suite.plan.choice import one_of
from suite.plan.measuring import Plan
from suite.plan.options import JOURNALS
from suite.plan.strategies import TRUSTED
from suite.record.record import Record
from suite.record.text import clean
from suite.report.format.terminal import Terminal
from suite.report.format.view import LEFT, RIGHT, Grid
from suite.reproduce.install import install
from suite.reproduce.verdicts import Verdict, differences, judge
from suite.session.interrupts import interruptible
from suite.session.journal import JournalError
from suite.session.launches.launch import LaunchError
from suite.session.launches.settings import Settings
from suite.session.run import Run
from suite.session.terminal import CommandTerminal
from workloads.data.dataset import DataError
from workloads.data.progress import waiting
from workloads.registry import RegistryError, register

EPILOG = """\
Workload, seed, windows and device are those of the stored run. Differences in the machine and in versions are listed.
--install DIR first builds an environment per framework with the versions in the records, and measures in those. It
shows what it will install and asks before it does; it installs the frameworks and their known dependencies only.

verdicts, from the 95 % interval of new over stored throughput:
  reproduced          the whole interval lies within the margin
  faster, slower      the whole interval lies beyond the margin
  inconclusive        neither; use more --launches
  shape reproduced    on another machine: the ratios between frameworks differ by no more than 25 %
  shape differs       on another machine: they differ by more
  not comparable      other data or another workload, or a cell that ended differently

exit status: 0 all reproduced, 1 not all, 2 unusable input, 3 nothing differs but not all is decided, 130 interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cells of a result again, and print a verdict per cell."""
    parser = argparse.ArgumentParser(
        prog="python -m suite.reproduce", description=__doc__, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("run", nargs="+", metavar="RESULT", help="file, folder, or a run's number or name")
    parser.add_argument("-k", metavar="TEXT", default="", help="only cells whose id contains this text")
    parser.add_argument(
        "--workloads",
        metavar="PATH",
        action="append",
        default=[],
        help="folder of a workload from outside of the suite",
    )
    parser.add_argument("--launches", type=int, metavar="N", help="per cell (default: as many as are stored)")
    parser.add_argument(
        "--margin", type=percent, default=MARGIN, metavar="PERCENT", help=f"of the verdicts (default: {100 * MARGIN:g})"
    )
    parser.add_argument(
        "--data-dir", metavar="DIR", help="folder with the official archives or folders (default: $SUITE_DATA_DIR)"
    )
    parser.add_argument(
        "--device", type=one_of("device", DEVICES), metavar=f"{{{','.join(DEVICES)}}}", help="default: the stored run's"
    )
    parser.add_argument("--trusted-network", action="store_true", help=TRUSTED)
    parser.add_argument(
        "--install", type=Path, metavar="DIR", help="first build environments with the stored versions there"
    )
    parser.add_argument("--yes", action="store_true", help="with --install: install without asking")
    parser.add_argument("--journals", type=Path, default=JOURNALS, metavar="DIR", help=f"default: {JOURNALS}")
    parser.add_argument("--storage", type=Path, metavar="DIR", default=STORAGE, help=f"saved runs; default: {STORAGE}")
    options = parser.parse_args(arguments)
    if options.launches is not None and options.launches < 1:
        parser.error(f"--launches is {options.launches}; it must be at least 1")
    try:
        for place in options.workloads:
            register(place)
        paths, _ = find(options.run, options.storage)
        with waiting("reading the launches"):
            loaded = load(paths)
        stored = chosen([launch.record for launch in loaded.launches if not launch.record.control], options.k)
        if options.install:
            install(stored, options.install, options.yes, _ask, _say)
        restore_handlers = interruptible()
        try:
            rerun = by_cell(run_again(stored, options))
        finally:
            restore_handlers()
    except (
        LoadError,
        JournalError,
        LaunchError,
        DataError,
        RegistryError,
        OSError,
        subprocess.CalledProcessError,
    ) as error:
        print(f"suite.reproduce: {clean(error, 1000)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("suite.reproduce: interrupted; what was measured is in the newest journal", file=sys.stderr)
        return 130
    verdicts = judge(stored, rerun, options.margin)
    terminal = Terminal()
    terminal.show_grid(verdict_grid(verdicts, stored, rerun))
    differing = changes(stored, rerun)
    for line in [
        "",
        "differences from the stored run:" if differing else "no differences from the stored run",
        *(f"  {each}" for each in differing),
    ]:
        terminal.say(line)
    return _status(verdicts.values())


def _status(verdicts: Iterable[Verdict]) -> int:
    """Returns 0 if all was reproduced, 3 if nothing differs but some verdicts are inconclusive, else 1."""
    unsettled = {verdict.kind for verdict in verdicts if not verdict.good}
    return 0 if not unsettled else 3 if unsettled == {"inconclusive"} else 1


def chosen(launches: Iterable[Record], text: str) -> dict[Cell, list[Record]]:
    """Returns the launches of the cells whose id contains the text. Raises `LoadError` if there is none."""
    cells = by_cell(record for record in launches if text in record.cell.id)
    if not cells:
        raise LoadError(f"no cell of this result has {text!r} in its id; leave out -k to see all")
    return cells


def by_cell(records: Iterable[Record]) -> dict[Cell, list[Record]]:
    """Returns the launches of each cell; cells are in the order of their first launch."""
    cells: dict[Cell, list[Record]] = {}
    for record in records:
        cells.setdefault(record.cell, []).append(record)
    return cells


def run_again(stored: Mapping[Cell, Sequence[Record]], options: argparse.Namespace) -> list[Record]:
    """Run the same cells again with the stored seed and windows, in blocks, and write a journal."""
    first = next((record for records in stored.values() for record in records if record.outcome.ok), None)
    stored_run = first.run if first else {}
    try:
        plan = Plan.from_json(stored_run.get("plan", {}))
    except ValueError as error:
        raise LoadError(f"the stored run's plan cannot be used: {error}") from None
    seed, course = stored_run.get("seed"), first.course if first else None
    if first and course and type(seed) is int:
        seed -= first.block  # of trainings to the end, each launch has a seed of its own
    device = options.device or (first.settings if first else {}).get("device", "auto")
    if device not in DEVICES:
        raise LoadError(f"the stored run's device is {clean(device, 40)!r}; choose one with --device")
    launches = options.launches or max(map(len, stored.values()))
    settings = Settings(
        "reproduce", launches, plan, seed if type(seed) is int and abs(seed) < 2**31 else 0,
        data=_data(stored), data_directory=options.data_dir, device=device,
        journals=options.journals, epochs=course.planned if course else None, target=course.target if course else None,
        trusted_network=options.trusted_network,
    )  # fmt: skip
    schedule = blocks(list(stored), launches, settings.seed)
    terminal = CommandTerminal()
    run = Run(settings, schedule, terminal.say, terminal.show)
    try:
        run.prepare()
        return [run.launch(cell, number) for cell, number in schedule]
    finally:
        terminal.show("")
        run.close()


def verdict_grid(
    verdicts: Mapping[Cell, Verdict], stored: Mapping[Cell, Sequence[Record]], rerun: Mapping[Cell, Sequence[Record]]
) -> Grid:
    """Returns a row per cell: its new throughput over the stored one, and the verdict."""
    rows = []
    for cell, verdict in verdicts.items():
        ratio = f"{verdict.ratio:.3f}" if verdict.ratio else NONE
        interval = NONE if verdict.low is None else f"{verdict.low:.3f} to {verdict.high:.3f}"
        launches = f"{len(rerun.get(cell, ()))}/{len(stored[cell])}"
        rows.append([cell.id, ratio, interval, launches, verdict.kind, clean(verdict.detail)])
    headers = ["cell", "new/stored", "95 % interval", "n", "verdict", "why"]
    return Grid(headers, rows, [LEFT, RIGHT, LEFT, LEFT, LEFT, LEFT])


def changes(stored: Mapping[Cell, Sequence[Record]], rerun: Mapping[Cell, Sequence[Record]]) -> list[str]:
    """Describes what differs between the stored run and the new one, each difference once."""
    lines: dict[str, None] = {}
    for cell in stored:
        then, now = ([record for record in runs.get(cell, ()) if record.outcome.ok] for runs in (stored, rerun))
        if then and now:
            lines |= dict.fromkeys(f"{cell.framework}: {clean(words)}" for words in differences(then, now))
    return list(lines)


def _data(stored: Mapping[Cell, Sequence[Record]]) -> str:
    """Returns which data to use: real data for a result on real data, since synthetic data would not be comparable."""
    kinds = {record.data.get("kind") for records in stored.values() for record in records}
    return "synthetic" if kinds == {"synthetic"} else "real" if "real" in kinds else "auto"


def _ask(question: str) -> str:
    """Returns the answer of the user at the terminal; empty if there is no terminal."""
    if not sys.stdin.isatty():
        return ""
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

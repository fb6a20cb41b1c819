"""Runs the cells of a stored result again, and says whether it holds: ``python -m suite.reproduce RESULT``."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from framework_training_suite import entry
from suite.analysis.options import MARGIN_OPTION, RUNS, STORAGE_FOLDER
from suite.analysis.records.load import LoadError, find, load
from suite.analysis.rows.blocks import select_counting
from suite.analysis.rows.wording import NONE
from suite.plan.blocks import blocks
from suite.plan.cell import Cell
from suite.plan.command.common import (
    DATA_DIR,
    DEVICE,
    DEVICES,
    JOURNAL_FOLDER,
    LAUNCHES,
    TRUSTED_NETWORK,
    WORKLOADS,
    add,
    check_numbers,
    command_parser,
)  # fmt: skip
from suite.plan.matrix import MatrixError
from suite.plan.measuring import REPEAT, Plan
from suite.record.record import Record
from suite.record.text import clean
from suite.report.format.terminal import Terminal
from suite.report.format.view import LEFT, RIGHT, Grid
from suite.reproduce.install import install
from suite.reproduce.releases import rebuild
from suite.reproduce.verdicts import Verdict, differences, judge
from suite.session.journal import JournalError
from suite.session.launches.launch import LaunchError
from suite.session.launches.settings import Settings
from suite.session.opening import launch_all
from workloads.data.dataset import DataError
from workloads.data.progress import waiting
from workloads.registry import RegistryError, register

EPILOG = """\
Workload, seed, windows and device are those of the stored run. Differences in the machine and in versions are listed.
--install DIR first builds an environment per framework with the versions in the records, and measures in those. It
shows what it will install and asks before it does; it installs the frameworks and their known dependencies only.
Releases are built from the stored lock, and what differs from it is said.

verdicts, from the 95 % interval of new over stored throughput:
  reproduced          the whole interval lies within the margin
  faster, slower      the whole interval lies beyond the margin
  inconclusive        neither; use more --launches
  shape reproduced    on another machine: the ratios between frameworks differ by no more than 25 %
  shape differs       on another machine: they differ by more
  not comparable      other data or another workload, or a cell that ended differently

exit status: 0 all reproduced, 1 not all, 2 unusable input, 3 nothing differs but not all is decided, 130 interrupted
"""


EXPECTED = (
    LoadError, JournalError, LaunchError, DataError, MatrixError, RegistryError, OSError, subprocess.CalledProcessError,
)  # fmt: skip


@entry("what was measured is in the newest journal")
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cells of a result again, and print a verdict per cell."""
    options = _parse(arguments)
    try:
        check_numbers(options)
        for place in options.workloads:
            register(place)
        paths, _ = find(options.run, options.storage)
        with waiting("reading the launches"):
            loaded = load(paths)
        stored = select_cells([launch.record for launch in loaded.launches if not launch.record.control], options.k)
        if options.install:
            install(stored, options.install, options.yes, _ask, _say)
        rebuild(stored, loaded.runs, options.install, agreed=options.yes, ask=_ask, say=_say)
        rerun = by_cell(run_again(stored, options))
    except EXPECTED as error:
        print(f"suite.reproduce: {clean(error, 1000)}", file=sys.stderr)
        return 2
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


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = command_parser("suite.reproduce", __doc__, EPILOG)
    add(parser.add_argument, RUNS.but(metavar="RESULT", nargs="+"))
    parser.add_argument("-k", metavar="TEXT", default="", help="only cells whose id contains this text")
    launches = LAUNCHES.but(help="per cell (default: as many as are stored)")
    device = DEVICE.but(default=None, help=f"{', '.join(DEVICES[1:])}, or auto (default: the stored run's)")
    add(parser.add_argument, WORKLOADS, launches, MARGIN_OPTION, DATA_DIR, device, TRUSTED_NETWORK)
    parser.add_argument(
        "--install", type=Path, metavar="DIR", help="first build environments with the stored versions there"
    )
    parser.add_argument("--yes", action="store_true", help="with --install: install without asking")
    add(parser.add_argument, JOURNAL_FOLDER, STORAGE_FOLDER)
    return parser.parse_args(arguments)


def _status(verdicts: Iterable[Verdict]) -> int:
    """Returns 0 if all was reproduced, 3 if nothing differs but some verdicts are inconclusive, else 1."""
    unsettled = {verdict.kind for verdict in verdicts if not verdict.good}
    return 0 if not unsettled else 3 if unsettled == {"inconclusive"} else 1


def select_cells(launches: Iterable[Record], text: str) -> dict[Cell, list[Record]]:
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
    launches = options.launches or max(len({each.launch % REPEAT for each in records}) for records in stored.values())
    settings = Settings.of(
        options, "reproduce", launches, plan, seed=seed if type(seed) is int and abs(seed) < 2**31 else 0,
        data=_data(stored), device=device, epochs=course.planned if course else None,
        target=course.target if course else None,
    )  # fmt: skip
    return launch_all(settings, blocks(list(stored), launches, settings.seed))[0]


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
        then, now = (select_counting(runs.get(cell, ())) for runs in (stored, rerun))
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

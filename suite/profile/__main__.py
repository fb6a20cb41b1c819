"""Profiles one cell: a table of where the time of its step goes, and a trace: ``python -m suite.profile CELL``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from framework_training_suite import entry
from suite.plan.cell import SIZES, Cell, CellError
from suite.plan.command.common import (
    DATA,
    DATA_DIR,
    DEVICE,
    JOURNAL_FOLDER,
    LAUNCHES,
    PROFILE_CODE,
    PROFILE_MEMORY,
    SEED,
    TRUSTED_NETWORK,
    WORKLOADS,
    add,
    check_numbers,
    command_parser,
)  # fmt: skip
from suite.plan.matrix import MatrixError, smoke
from suite.profile.chosen import ChoiceError, parse_cell
from suite.profile.shown import costs_of, opening, views
from suite.record.record import Record
from suite.record.text import clean
from suite.report.format.terminal import Terminal
from suite.session.journal import JournalError
from suite.session.launches.launch import LaunchError
from suite.session.launches.settings import Settings
from suite.session.opening import launch_all
from workloads.data.dataset import DataError
from workloads.registry import RegistryError, register

EPILOG = """\
A cell's id is what `pytest suite --collect-only -q` lists. Its beginning is enough: what is left out is as usual.

examples:
  python -m suite.profile imdb_lstm-pytorch                       fp32, batch 32, the usual compile mode and loader
  python -m suite.profile cifar100_cnn-jax-fp32-b32 --size small
  python -m suite.profile cifar100_cnn-pytorch-bf16-b64-compile --code --launches 3

The launch is measured as by `pytest suite`, and profiled after its last timed window. It is in a journal of its own, so
`python -m suite.compare results/journals/RUN.jsonl --why` compares it with others.

exit status: 0; 1 if the launch failed or left no profile; 2 for wrong usage; 130 if interrupted
"""


@entry("what was measured is in the newest journal")
def main(arguments: Sequence[str] | None = None) -> int:
    """Launch the cell with a profile, and print its tables and where its trace is."""
    options = _parse(arguments)
    try:
        check_numbers(options)
        for place in options.workloads:
            register(place)
        cell = parse_cell(options.cell)
    except (ChoiceError, CellError, MatrixError, RegistryError) as error:
        print(f"suite.profile: {clean(error, 1000)}", file=sys.stderr)
        return 2
    try:
        records, folder = launch(cell.but(size=options.size or cell.size, compile=cell.compile), options)
    except (LaunchError, JournalError, DataError, OSError) as error:
        print(f"suite.profile: {clean(error, 1000)}", file=sys.stderr)
        return 2
    profile = costs_of(records)
    if profile is None:
        log = f"{folder}/*.log"
        reasons = {f"{each.outcome.status}: {each.outcome.reason}" for each in records if not each.outcome.ok}
        why = clean("; ".join(sorted(reasons)) or f"the launch ended well, but its profiler failed; see {log}", 1000)
        print(f"suite.profile: no profile of {cell.id}: {why}", file=sys.stderr)
        return 1
    terminal = Terminal()
    for view in views(profile):
        terminal.show(view)
        terminal.print()
    for line in opening(profile, folder):
        terminal.print(line, soft_wrap=True)
    return 0


def launch(cell: Cell, options: argparse.Namespace) -> tuple[list[Record], Path]:
    """The launches of the cell, and the folder of their traces. Raises `LaunchError` and others of the session."""
    settings = Settings.of(options, "profile", options.launches, smoke().plan, profile=True)
    records, run = launch_all(settings, [(cell, number) for number in range(options.launches)])
    return records, options.journals / run


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = command_parser("suite.profile", __doc__, EPILOG)
    parser.add_argument("cell", metavar="CELL", help="a cell's id, or how it begins: cifar100_cnn-jax-fp32-b32")
    add(parser.add_argument, WORKLOADS)
    parser.add_argument("--size", choices=SIZES, help="of the workload (default: that of the cell)")
    add(parser.add_argument, LAUNCHES.but(default=1, help="fresh processes (default: 1)"))
    for flag, option in (("--memory", PROFILE_MEMORY), ("--code", PROFILE_CODE)):
        words = option.help.removeprefix("with --profile, ")
        parser.add_argument(flag, dest=f"profile_{flag[2:]}", action="store_true", help=words)
    add(parser.add_argument, DATA, DATA_DIR, DEVICE, TRUSTED_NETWORK, SEED, JOURNAL_FOLDER)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())

"""Profiles one cell: a table of where the time of its step goes, and a trace: ``python -m suite.profile CELL``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from suite.catalog.devices import CHOICES as DEVICES
from suite.plan.cell import SIZES, Cell, CellError
from suite.plan.matrix import smoke
from suite.plan.options import JOURNALS
from suite.plan.strategies import TRUSTED
from suite.profile.chosen import ChoiceError, chosen
from suite.profile.shown import opening, profiled, views
from suite.record.record import Record
from suite.record.text import clean
from suite.report.format.terminal import Terminal
from suite.session.interrupts import interruptible
from suite.session.journal import JournalError
from suite.session.launches.launch import LaunchError
from suite.session.launches.settings import Settings
from suite.session.run import Run
from suite.session.terminal import CommandTerminal
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Launch the cell with a profile, and print its tables and where its trace is."""
    options = _parsed(arguments)
    try:
        for place in options.workloads:
            register(place)
        cell = chosen(options.cell)
    except (ChoiceError, CellError, RegistryError) as error:
        print(f"suite.profile: {clean(error, 1000)}", file=sys.stderr)
        return 2
    restore_handlers = interruptible()
    try:
        records, folder = launched(cell.but(size=options.size or cell.size, compile=cell.compile), options)
    except (LaunchError, JournalError, DataError, OSError) as error:
        print(f"suite.profile: {clean(error, 1000)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("suite.profile: interrupted; what was measured is in the newest journal", file=sys.stderr)
        return 130
    finally:
        restore_handlers()
    found = profiled(records)
    if found is None:
        log = f"{folder}/*.log"
        reasons = {f"{each.outcome.status}: {each.outcome.reason}" for each in records if not each.outcome.ok}
        why = clean("; ".join(sorted(reasons)) or f"the launch ended well, but its profiler failed; see {log}", 1000)
        print(f"suite.profile: no profile of {cell.id}: {why}", file=sys.stderr)
        return 1
    terminal = Terminal()
    for view in views(found):
        terminal.show(view)
        terminal.print()
    for line in opening(found, folder):
        terminal.print(line, soft_wrap=True)
    return 0


def launched(cell: Cell, options: argparse.Namespace) -> tuple[list[Record], Path]:
    """The launches of the cell, and the folder of their traces. Raises `LaunchError` and others of the session."""
    settings = Settings(
        "profile", options.launches, smoke().plan, options.seed,
        data=options.data, data_directory=options.data_dir, device=options.device, journals=options.journals,
        profile=True, profile_memory=options.memory, profile_code=options.code,
        trusted_network=options.trusted_network,
    )  # fmt: skip
    terminal = CommandTerminal()
    schedule = [(cell, number) for number in range(options.launches)]
    run = Run(settings, schedule, terminal.say, terminal.show)
    try:
        run.prepare()
        return [run.launch(*planned) for planned in schedule], options.journals / str(run.info["id"])
    finally:
        terminal.show("")
        run.close()


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m suite.profile", description=__doc__, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("cell", metavar="CELL", help="a cell's id, or how it begins: cifar100_cnn-jax-fp32-b32")
    parser.add_argument(
        "--workloads",
        metavar="PATH",
        action="append",
        default=[],
        help="folder of a workload from outside of the suite",
    )
    parser.add_argument("--size", choices=SIZES, help="of the workload (default: that of the cell)")
    parser.add_argument("--launches", type=int, default=1, metavar="N", help="fresh processes (default: 1)")
    parser.add_argument("--memory", action="store_true", help="add the allocator's timeline to the trace")
    parser.add_argument("--code", action="store_true", help="also keep the code that the framework compiled")
    parser.add_argument(
        "--data", choices=("auto", "real", "synthetic"), default="auto", help="default: real if there is any"
    )
    parser.add_argument(
        "--data-dir", metavar="DIR", help="folder with the official archives or folders (default: $SUITE_DATA_DIR)"
    )
    parser.add_argument("--device", choices=DEVICES, default="auto", help="default: a GPU if there is one")
    parser.add_argument("--trusted-network", action="store_true", help=TRUSTED)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of weights, batches and dropout (default: 0)")
    parser.add_argument("--journals", type=Path, default=JOURNALS, metavar="DIR", help=f"default: {JOURNALS}")
    options = parser.parse_args(arguments)
    if options.launches < 1:
        parser.error(f"--launches is {options.launches}; it must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())

"""Profiles one cell: a table of where the time of its step goes, and a trace."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from suite.plan.cell import Cell, CellError
from suite.plan.command.common import check_numbers
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


def profile(options: argparse.Namespace) -> int:
    """Launch the cell with a profile, and print its tables and where its trace is; returns the exit status."""
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
    costs = costs_of(records)
    if costs is None:
        log = f"{folder}/*.log"
        reasons = {f"{each.outcome.status}: {each.outcome.reason}" for each in records if not each.outcome.ok}
        why = clean("; ".join(sorted(reasons)) or f"the launch ended well, but its profiler failed; see {log}", 1000)
        print(f"suite.profile: no profile of {cell.id}: {why}", file=sys.stderr)
        return 1
    terminal = Terminal()
    for view in views(costs):
        terminal.show(view)
        terminal.print()
    for line in opening(costs, folder):
        terminal.print(line, soft_wrap=True)
    return 0


def launch(cell: Cell, options: argparse.Namespace) -> tuple[list[Record], Path]:
    """The launches of the cell, and the folder of their traces. Raises `LaunchError` and others of the session."""
    settings = Settings.of(options, "profile", options.launches, smoke().plan, profile=True)
    records, run = launch_all(settings, [(cell, number) for number in range(options.launches)])
    return records, options.journals / run

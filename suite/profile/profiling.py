"""Profiles one cell: a table of where the time of its step goes, and a trace."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from suite.analysis.bottlenecks.causes import Costs, costs
from suite.analysis.records.load import Launch
from suite.analysis.rows.groups import group
from suite.analysis.rows.wording import NONE, figure, listing, middle
from suite.plan.cell import Cell, CellError
from suite.plan.command.common import check_numbers
from suite.plan.matrix import MatrixError, smoke
from suite.profile.chosen import ChoiceError, parse_cell
from suite.record.parts.profile import CATEGORIES, Operation
from suite.record.record import Record
from suite.record.text import clean
from suite.report.format.terminal import Terminal
from suite.report.format.view import LEFT, RIGHT, Grid, View
from suite.report.tables.breakdowns import remarks
from suite.session.journal import JournalError
from suite.session.launches.launch import LaunchError
from suite.session.launches.settings import Settings
from suite.session.opening import launch_all
from workloads.data.dataset import DataError
from workloads.registry import RegistryError, register

#: Letters of an operation's name that are shown.
NAME_MOST = 60


def profile(options: argparse.Namespace) -> int:
    """Launch the cell with a profile, and print its tables and where its trace is; returns the exit status."""
    try:
        check_numbers(options)
        for place in options.workloads:
            register(place)
        cell = parse_cell(options.cell)
    except (ChoiceError, CellError, MatrixError, RegistryError) as error:
        print(f"training-suite profile: {clean(error, 1000)}", file=sys.stderr)
        return 2
    try:
        records, folder = launch(cell.but(size=options.size or cell.size, compile=cell.compile), options)
    except (LaunchError, JournalError, DataError, OSError) as error:
        print(f"training-suite profile: {clean(error, 1000)}", file=sys.stderr)
        return 2
    costs = costs_of(records)
    if costs is None:
        log = f"{folder}/*.log"
        reasons = {f"{each.outcome.status}: {each.outcome.reason}" for each in records if not each.outcome.ok}
        why = clean("; ".join(sorted(reasons)) or f"the launch ended well, but its profiler failed; see {log}", 1000)
        print(f"training-suite profile: no profile of {cell.id}: {why}", file=sys.stderr)
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


def costs_of(records: Sequence[Record]) -> Costs | None:
    """Returns the costs of the one cell that these launches are of; None without any profile."""
    rows = [row for each in group(Launch(record, "profile", "") for record in records) for row in each.rows]
    return next((profile for row in rows if (profile := costs(row))), None)


def views(profile: Costs) -> list[View]:
    """Returns the table of categories and that of the largest operations."""
    step_s = profile.step_s
    rows = [
        [name, *_format_time(profile.seconds[name], step_s), figure(profile.calls[name]), _device(profile, name)]
        for name in sorted(CATEGORIES, key=lambda name: -profile.seconds[name])
        if profile.seconds[name]
    ]
    rows += [["timed step", *_format_time(step_s, step_s), "", ""]]
    rows += [["sum as profiled", *_format_time(profile.covered * step_s, step_s), "", ""]]
    headers = ["category", "ms per step", "% of step", "calls", "device"]
    categories = Grid(headers, rows, [LEFT, RIGHT, RIGHT, RIGHT, LEFT])
    largest = [_line(each, step_s) for each in profile.operations]
    headers = ["operation", "category", "ms per step", "% of step", "calls", "holds"]
    operations = Grid(headers, largest, [LEFT, LEFT, RIGHT, RIGHT, RIGHT, LEFT])
    title = f"Where the time of a step goes: {profile.row.cell.id}"
    shown = [View(title, categories, remarks(profile))]
    return [*shown, *([View("The largest operations", operations, [])] if largest else [])]


def opening(profile: Costs, folder: Path) -> list[str]:
    """Returns where the trace is and how it is opened; ``folder`` is the one beside the journal."""
    typical = profile.typical
    lines = []
    if typical.trace:
        lines.append(f"Trace: {folder / typical.trace}")
        lines.append("Open it: drag the file onto https://ui.perfetto.dev, which reads it in the browser.")
    if others := [clean(name) for name in typical.files]:
        lines.append(f"Beside it: {listing(others)}")
    if (folder / "plugins").is_dir():
        lines.append(
            f"Or with TensorBoard's profile page (pip install tensorboard xprof): tensorboard --logdir {folder}"
        )
    return lines


def _line(each: Operation, step_s: float) -> list[str]:
    held = listing([clean(name, 40) for name in each.holds]) or NONE
    name = middle(clean(each.name), NAME_MOST)
    return [name, each.category, *_format_time(each.seconds, step_s), figure(each.calls), held]


def _device(profile: Costs, category: str) -> str:
    devices = {each.device for each in profile.typical.operations if each.category == category}
    return " and ".join(sorted(devices)) or NONE


def _format_time(seconds: float, step_s: float) -> tuple[str, str]:
    return figure(1e3 * seconds), f"{100 * seconds / step_s:.1f}"

"""Runs the cells of a stored result again, and prints a verdict per cell."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping

from suite.analysis.records.load import LoadError, find, load
from suite.analysis.rows.wording import NONE
from suite.analysis.statistics.inference import Estimate
from suite.catalog.devices import CHOICES
from suite.plan.blocks import blocks
from suite.plan.cell import Cell
from suite.plan.command.common import check_numbers
from suite.plan.measuring import REPEAT, Plan
from suite.record.record import Record
from suite.record.text import clean
from suite.report.format.terminal import Terminal
from suite.report.format.view import LEFT, RIGHT, Grid
from suite.reproduce.install import install, rebuild
from suite.reproduce.verdicts import Stored, Verdict, by_cell, changes, judge
from suite.session.launches.settings import Settings
from suite.session.opening import launch_all
from workloads.data.progress import waiting
from workloads.registry import register


def reproduce(options: argparse.Namespace) -> int:
    """Returns 0 if all was reproduced, 3 if nothing differs but some verdicts are inconclusive, else 1."""
    check_numbers(options)
    for place in options.workloads:
        register(place)
    paths, _ = find(options.run, options.storage)
    with waiting("reading the launches"):
        loaded = load(paths)
    stored = by_cell(
        launch.record for launch in loaded.launches if not launch.record.control and options.k in launch.record.cell.id
    )
    if not stored:
        raise LoadError(f"no cell of this result has {options.k!r} in its id; leave out -k to see all")
    if options.install:
        install(stored, options.install, options.yes, _ask, _say)
    rebuild(stored, loaded.runs, options.install, agreed=options.yes, ask=_ask, say=_say)
    rerun = by_cell(run_again(stored, options))
    verdicts = judge(stored, rerun, options.margin)
    terminal = Terminal()
    terminal.show_grid(verdict_grid(verdicts, stored, rerun))
    differing = changes(stored, rerun)
    terminal.say("")
    terminal.say("differences from the stored run:" if differing else "no differences from the stored run")
    for line in differing:
        terminal.say(f"  {line}")
    unsettled = {verdict.kind for verdict in verdicts.values() if not verdict.good}
    return 0 if not unsettled else 3 if unsettled == {"inconclusive"} else 1


def run_again(stored: Stored, options: argparse.Namespace) -> list[Record]:
    """Run the same cells again with the stored seed and windows, in blocks, and write a journal."""
    first = next((record for records in stored.values() for record in records if record.outcome.ok), None)
    run = first.run if first else {}
    try:
        plan = Plan.from_json(run.get("plan", {}))
    except ValueError as error:
        raise LoadError(f"the stored run's plan cannot be used: {error}") from None
    seed, course = run.get("seed"), first.course if first else None
    if first and course and type(seed) is int:
        seed -= first.block  # of trainings to the end, each launch has a seed of its own
    device = options.device or (first.settings if first else {}).get("device", "auto")
    if device not in CHOICES:
        raise LoadError(f"the stored run's device is {clean(device, 40)!r}; choose one with --device")
    launches = options.launches or max(len({each.launch % REPEAT for each in records}) for records in stored.values())
    settings = Settings.of(
        options, "reproduce", launches, plan, seed=seed if type(seed) is int and abs(seed) < 2**31 else 0,
        data=_data(stored.values()), device=device, epochs=course.planned if course else None,
        target=course.target if course else None,
    )  # fmt: skip
    return launch_all(settings, blocks(list(stored), launches, settings.seed))[0]


def verdict_grid(verdicts: Mapping[Cell, Verdict], stored: Stored, rerun: Stored) -> Grid:
    """Returns a row per cell: its new throughput over the stored one, and the verdict."""
    rows = []
    for cell, verdict in verdicts.items():
        found = verdict.ratio or Estimate()
        ratio = f"{found.value:.3f}" if found.value else NONE
        interval = NONE if found.low is None else f"{found.low:.3f} to {found.high:.3f}"
        launches = f"{len(rerun.get(cell, ()))}/{len(stored[cell])}"
        rows.append([cell.id, ratio, interval, launches, verdict.kind, clean(verdict.detail)])
    headers = ["cell", "new/stored", "95 % interval", "n", "verdict", "why"]
    return Grid(headers, rows, [LEFT, RIGHT, LEFT, LEFT, LEFT, LEFT])


def _data(stored: Iterable[Iterable[Record]]) -> str:
    """Returns which data to use: real data for a result on real data, since synthetic data would not be comparable."""
    kinds = {record.data.get("kind") for records in stored for record in records}
    return "synthetic" if kinds == {"synthetic"} else "real" if "real" in kinds else "auto"


def _ask(question: str) -> str:
    if not sys.stdin.isatty():
        return ""
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()

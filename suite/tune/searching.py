"""Searches for the best setting, with few launches."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from framework_training_suite import typed
from suite.analysis.search.state import Race
from suite.catalog.devices import has_gpu
from suite.monitor.background import settle
from suite.plan.cell import Cell, CellError
from suite.plan.command.common import LOCAL
from suite.plan.matrix import MatrixError
from suite.record.text import clean
from suite.session.journal import JournalError
from suite.session.launches import settings
from suite.session.launches.launch import LaunchError
from suite.session.launches.settings import Settings
from suite.session.resume import command
from suite.session.run import Run
from suite.session.storage import save_run
from suite.session.terminal import count_launches
from suite.tune import options as command_line
from suite.tune.answer import print_answers, write_answers
from suite.tune.loop import Loop
from suite.tune.options import ANSWERS, Search
from suite.tune.screen import Screen
from suite.tune.support import find_unsupported, refuse_unmeasurable
from workloads.data.dataset import DataError
from workloads.data.progress import waiting
from workloads.registry import RegistryError

EXPECTED = (CellError, DataError, JournalError, LaunchError, MatrixError, OSError, RegistryError)


def tune(options: Namespace, arguments: Sequence[str]) -> int:
    """Search, save the launches, and print the answer; returns the exit status. The ``arguments`` are those typed."""
    try:
        options.release = settings.resolve_releases(options.release)
        search = command_line.search(options)
        on_cpu = options.device == "cpu" or (options.on == LOCAL and not has_gpu())
        if on_cpu or options.on == LOCAL:  # what the hosts of a cluster measure is theirs to say
            refuse_unmeasurable(search.question, on_cpu)
        excluded = _find_excluded(search)
        return _search(search, excluded, arguments)
    except EXPECTED as error:
        print(f"suite.tune: {clean(error, 1000)}", file=sys.stderr)
        return 2


def _find_excluded(search: Search) -> dict[Cell, str]:
    if search.options.no_probe or search.options.on != LOCAL:  # this host's frameworks are not those of a cluster
        return {}
    with waiting("asking the frameworks which precisions they support"):
        excluded = find_unsupported(search.cells)
    if len(excluded) == len(search.cells):
        raise MatrixError(f"no cell can run here: {next(iter(excluded.values()))}")
    return excluded


def _search(search: Search, excluded: dict[Cell, str], arguments: Sequence[str]) -> int:
    """Launch until the search ends, is interrupted or cannot go on; what was measured is saved in any case."""
    with Screen() as screen:
        here = search.options.on == LOCAL  # else its load concerns no launch
        background = settle(search.options.wait_idle, screen.say, screen.show).to_json() if here else {}
        first = [(cell, 0) for cell in search.cells if cell not in excluded]
        run = Run(_settings(search), first, screen.say, screen.show, screen.say_end, background)
        loop, status, problem = Loop(run, search, excluded, screen.watch), 0, ""
        try:
            run.prepare()
            loop.go()
        except KeyboardInterrupt:
            status, problem = 130, "interrupted"
        except EXPECTED as error:
            status, problem = 2, clean(error, 1000)
        finally:
            run.close()
    resume = continuing_command(arguments, str(run.info["id"]), spent=not status)
    if problem:
        print(f"suite.tune: {problem}; {count_launches(run.done)} kept. Continue with: {resume}", file=sys.stderr)
    if not run.records and not status:
        print("suite.tune: the budget is too small for a single launch; give a larger --budget", file=sys.stderr)
    if not run.records:
        return status or 1
    ended = _end(run, loop.races, search, resume)
    return status or ended


def _end(run: Run, races: Sequence[Race], search: Search, resume: str) -> int:
    """Save and print what there is; returns the exit status."""
    path = save_run(run, search.options.storage, search.chosen.name)
    folder = search.options.output or ANSWERS / str(run.info["id"])
    print_answers(races, run.records, resume)
    write_answers(races, run.records, folder, {"run": run.info["id"], "saved": path.name})
    print(
        f"\nAnswer and plots: {folder}\nLaunches: {path}\nCompare them with: {typed(f'python -m suite.compare {path}')}"
    )
    return int(not any(race.recommended for race in races))


def continuing_command(arguments: Sequence[str], run: str, spent: bool = False) -> str:
    """The command that continues a search with these arguments; one whose budget is spent needs a larger one."""
    others: list[str] = []
    for at, argument in enumerate(arguments):
        of_budget = argument.partition("=")[0] == "--budget" or (at > 0 and arguments[at - 1] == "--budget")
        if not (spent and of_budget):
            others.append(argument)
    line = command(others, run, "python -m suite.tune")
    return f"{line} --budget MORE" if spent else line


def _settings(search: Search) -> Settings:
    return Settings.of(
        search.options, f"tune-{search.chosen.name}", 1, search.chosen.plan, search=search.question.to_json(),
        sweep=command_line.axes_text(search.options) or None, target=search.question.target,
    )  # fmt: skip

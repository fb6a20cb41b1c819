"""Searches for the best setting, with few launches."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence

from framework_training_suite import PROGRAM, CommandError, typed
from suite.analysis.search.state import Race
from suite.catalog.devices import has_gpu
from suite.monitor.background import settle
from suite.plan.cell import Cell
from suite.plan.command.common import ANSWERS, LOCAL
from suite.plan.matrix import MatrixError
from suite.plan.sweeps.sweep import describe_axes, parse_axes
from suite.record.text import clean
from suite.session.launches.settings import Settings, resolve_releases
from suite.session.resume import command
from suite.session.run import Run
from suite.session.storage import save_run
from suite.session.terminal import count_launches
from suite.tune.loop import Loop
from suite.tune.search import Search, find_unsupported, read_search, refuse_unmeasurable
from suite.tune.show import Screen, print_answers, write_answers
from workloads.data.progress import waiting

NAME = f"{PROGRAM} tune"


def tune(options: Namespace) -> int:
    """Search, save the launches, and print the answer; returns the exit status."""
    options.release = resolve_releases(options.release)
    search = read_search(options)
    on_cpu = options.device == "cpu" or (options.on == LOCAL and not has_gpu())
    if on_cpu or options.on == LOCAL:  # what the hosts of a cluster measure is theirs to say
        refuse_unmeasurable(search.question, on_cpu)
    excluded: dict[Cell, str] = {}
    if not options.no_probe and options.on == LOCAL:  # this host's frameworks are not those of a cluster
        with waiting("asking the frameworks which precisions they support"):
            excluded = find_unsupported(search.cells)
    if len(excluded) == len(search.cells):
        raise MatrixError(f"no cell can run here: {next(iter(excluded.values()))}")
    return _search(search, excluded)


def _search(search: Search, excluded: dict[Cell, str]) -> int:
    """Launch until the search ends, is interrupted or cannot go on; what was measured is saved in any case."""
    screen = Screen()
    here = search.options.on == LOCAL  # else its load concerns no launch
    try:
        background = settle(search.options.wait_idle, screen.say, screen.show).to_json() if here else {}
    finally:
        screen.show("")
    first = [(cell, 0) for cell in search.cells if cell not in excluded]
    settings = Settings.of(
        search.options, f"tune-{search.chosen.name}", 1, search.chosen.plan, search=search.question.to_json(),
        sweep=describe_axes(parse_axes(vars(search.options))) or None, target=search.question.target,
    )  # fmt: skip
    run = Run(settings, first, screen.say, screen.show, background=background)
    loop, status, problem = Loop(run, search, excluded, screen.watch), 0, ""
    try:
        run.prepare()
        loop.go()
    except KeyboardInterrupt:
        status, problem = 130, "interrupted"
    except (CommandError, OSError) as error:
        status, problem = 2, clean(error, 1000)
    finally:
        run.close()
        screen.show("")
    resume = continuing_command(search.options.arguments, str(run.info["id"]), spent=not status)
    if problem:
        print(f"{NAME}: {problem}; {count_launches(run.done)} kept. Continue with: {resume}", file=sys.stderr)
    if not run.records and not status:
        print(f"{NAME}: the budget is too small for a single launch; give a larger --budget", file=sys.stderr)
    if not run.records:
        return status or 1
    ended = _end(run, loop.races, search, resume)
    return status or ended


def _end(run: Run, races: Sequence[Race], search: Search, resume: str) -> int:
    path = save_run(run, search.options.storage, search.chosen.name)
    folder = search.options.output or ANSWERS / str(run.info["id"])
    print_answers(races, run.records, resume)
    write_answers(races, run.records, folder, {"run": run.info["id"], "saved": path.name})
    print(
        f"\nAnswer and plots: {folder}\nLaunches: {path}\nCompare them with: {typed(f'training-suite compare {path}')}"
    )
    return int(not any(race.recommended for race in races))


def continuing_command(arguments: Sequence[str], run: str, spent: bool = False) -> str:
    """The command that continues a search with these arguments; one whose budget is spent needs a larger one."""
    others: list[str] = []
    for at, argument in enumerate(arguments):
        of_budget = argument.partition("=")[0] == "--budget" or (at > 0 and arguments[at - 1] == "--budget")
        if not (spent and of_budget):
            others.append(argument)
    line = command(others, run, NAME)
    return f"{line} --budget MORE" if spent else line

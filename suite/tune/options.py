"""The options of ``python -m suite.tune``."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suite.analysis.options import MARGIN_OPTION, PRICE_HOUR, PRICE_KWH, STORAGE_FOLDER
from suite.catalog.devices import has_gpu
from suite.catalog.settings import SETTINGS
from suite.plan.cell import Cell
from suite.plan.command.common import (
    DATA,
    DATA_DIR,
    DEVICE,
    EPOCHS,
    JOURNAL_FOLDER,
    MAX_TIME,
    MEMORY_LIMIT,
    MIN_WINDOW,
    RESUME,
    SEED,
    TRUSTED_NETWORK,
    WAIT_IDLE,
    WORKLOADS,
    action,
    add,
    check_numbers,
    command_parser,
    join_values,
    one_of,
)  # fmt: skip
from suite.plan.matrix import Matrix, MatrixError, with_windows
from suite.plan.measuring import LEAST_TESTED
from suite.plan.objective import KINDS, Budget, Question, budget, check, limit, objectives
from suite.plan.space import ALL, DEFAULTS, search_axes, space, with_recipe
from suite.plan.sweeps.sweep import AXES, describe_axes, parse_values
from suite.session.engines import options as engine_options
from workloads import registry
from workloads.recipes import RECIPES

#: Where the answers and plots of searches go.
ANSWERS = Path("results/tune")

#: The share of the launches of the full matrix, with six launches of each cell, that a search may make by default.
SHARE = 0.4
#: The same for trainings to an accuracy: nothing is dropped before three seeds.
SHARE_TRAINED = 0.7

EPILOG = """\
examples:
  python -m suite.tune --workload imdb_lstm --framework pytorch,jax --search all --budget 30min
  python -m suite.tune --workload imdb_lstm --size small --batch 32,128 --precision fp32,bf16 --budget 6min
  python -m suite.tune --workload cifar100_cnn --objective joules/sample --within memory=8GiB --precision fp32,tf32,bf16
  python -m suite.tune --workload imdb_lstm --objective seconds-to-accuracy=.86
  python -m suite.tune --workload imdb_lstm --objective samples/s,memory      the Pareto front of two objectives
  python -m suite.tune --matrix sweep.toml                                    the axes from a file
  python -m suite.tune --resume                                               continue the last search

Give an axis one value to fix it, or a list (a,b) to search it. --search precision,batch searches axes over the
machine's own values, --search all over all of these; every other axis stays as usual:
  on a CPU   {cpu}
  on a GPU   {gpu}
Precisions that a framework does not support on this machine are left out before the first launch, with the reason.

How it searches: the cells of a workload, of all frameworks, race in blocks. A block is one launch of every cell that is
left, in a random order. From the second block on, the cells go that are significantly worse than the best; the risk of
dropping the best one is at most 5 % in all. A race ends when the cells that are left are shown to be equal within the
margin, or when the budget is spent; then the answer says what is undecided. docs/tune.md has the method and its rates.

exit status: 0 answered; 1 no cell can be recommended; 2 wrong usage, or the search cannot continue; 130 interrupted
"""


@dataclass(frozen=True)
class Search:
    """What to search, and within what budget."""

    chosen: Matrix
    question: Question
    budget: Budget
    recipe: str
    options: argparse.Namespace

    @property
    def cells(self) -> tuple[Cell, ...]:
        return self.chosen.cells


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    defaults = {
        ("gpu" if gpu else "cpu"): " ".join(f"--{axis} {text}" for axis, text in DEFAULTS[gpu].items())
        for gpu in (False, True)
    }
    made = command_parser(
        "suite.tune", "Searches for the best setting: few launches, and a known risk of being wrong.",
        EPILOG.format(**defaults),
    )  # fmt: skip
    goal = made.add_argument_group("what to look for")
    goal.add_argument(
        "--objective", default="samples/s", metavar="LIST",
        help=f"one of: {', '.join(KINDS)}; two for their Pareto front (default: samples/s)",
    )  # fmt: skip
    goal.add_argument(
        "--within", action="append", default=[], metavar="LIMIT",
        help="a limit on another quantity, such as memory=8GiB, samples/s=1000 (at least), step-latency=20ms; "
        "may be repeated",
    )  # fmt: skip
    goal.add_argument(
        "--budget", metavar="AMOUNT",
        help="30min, 2h, 200launches (default: "
        f"{100 * SHARE:g} %% of the launches of all cells with {LEAST_TESTED} each; "
        f"{100 * SHARE_TRAINED:g} %% for seconds-to-accuracy)",
    )  # fmt: skip
    add(goal.add_argument, MARGIN_OPTION, PRICE_HOUR, PRICE_KWH)
    goal.add_argument(
        "--recipe", type=one_of("recipe", RECIPES), default="modern", metavar=f"{{{','.join(RECIPES)}}}",
        help="how cells are trained to an accuracy (default: modern)",
    )  # fmt: skip
    where = made.add_argument_group("where to look")
    add(where.add_argument, WORKLOADS)
    where.add_argument("--matrix", metavar="LIST", action="append", help="the cells of matrices, or of a TOML file")
    where.add_argument(
        "--search", metavar="LIST",
        help=f"axes to search over the machine's own values, which --help lists: {', '.join(DEFAULTS[False])}, {ALL}; "
        "an axis that no option names stays as usual",
    )  # fmt: skip
    for axis in AXES:
        words = SETTINGS[axis].help.partition(" (default:")[0]
        where.add_argument(f"--{axis}", metavar="LIST", help=words, action=action(axis))
    how = made.add_argument_group("how to measure")
    add(how.add_argument, MIN_WINDOW, MAX_TIME, EPOCHS, MEMORY_LIMIT, SEED, DATA, DATA_DIR, DEVICE, *engine_options())
    resume = RESUME.but(help="continue the search with this id, or without an id the last one with these options")
    add(how.add_argument, TRUSTED_NETWORK, WAIT_IDLE, resume)
    how.add_argument("--no-probe", action="store_true", help="do not ask the frameworks which precisions they support")
    add(how.add_argument, JOURNAL_FOLDER, STORAGE_FOLDER)
    how.add_argument("--output", type=Path, metavar="DIR", help=f"answer and plots (default: {ANSWERS}/RUN)")
    return made


def search(options: argparse.Namespace) -> Search:
    """The search of a parsed command line. Raises `MatrixError`, `CellError` or `workloads.registry.RegistryError`."""
    own = [name for place in options.workloads for name in registry.register(place)]
    if own and not options.workload and not options.matrix:
        options.workload = ",".join(own)
    check_numbers(options, (("price_hour", ""), ("price_kwh", "")))
    question = Question(
        objectives(options.objective), tuple(map(limit, options.within)), options.margin,
        options.price_hour, options.price_kwh,
    )  # fmt: skip
    check(question)
    gpu = has_gpu() and options.device != "cpu"
    chosen = space(options.matrix or [], {**search_axes(options.search, gpu), **axes(options)}, gpu)
    if question.target is not None:
        chosen = with_recipe(chosen, options.recipe)
    if len(chosen.cells) < 2:
        raise MatrixError(f"there is only one cell, {chosen.cells[0].id}: list values of an axis, or --search {ALL}")
    plan = chosen.plan if options.min_window is None else with_windows(chosen.plan, options.min_window, "--min-window")
    amount = (
        budget(options.budget)
        if options.budget
        else Budget(launches=usual_budget(len(chosen.cells), question.target is not None))
    )
    return Search(replace(chosen, plan=plan), question, amount, options.recipe, options)


def usual_budget(cells: int, trained: bool = False) -> int:
    """The launches that a search of so many cells may make by default; at least one of each."""
    return max(cells, math.floor((SHARE_TRAINED if trained else SHARE) * LEAST_TESTED * cells))


def axes(options: argparse.Namespace) -> dict[str, tuple[Any, ...]]:
    """The axes of the command line with their values. Raises `MatrixError` or `CellError`."""
    return {
        axis: parse_values(axis, text) for axis in AXES if (text := join_values(getattr(options, axis))) is not None
    }


def axes_text(options: argparse.Namespace) -> str:
    """The axes of the command line as text; empty without any."""
    return describe_axes(axes(options))

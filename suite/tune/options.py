"""The options of ``python -m suite.tune``."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from suite.analysis.records.load import STORAGE
from suite.analysis.rows.wording import percent
from suite.analysis.statistics.inference import MARGIN
from suite.catalog import devices
from suite.catalog.settings import SETTINGS
from suite.plan.cell import Cell
from suite.plan.choice import one_of
from suite.plan.device import has_gpu
from suite.plan.engine import LOCAL, ON, PLACEMENT, PLACEMENTS, engine
from suite.plan.matrix import Matrix, MatrixError, with_windows
from suite.plan.measuring import LEAST_TESTED
from suite.plan.objective import KINDS, Budget, Question, budget, check, limit, objectives
from suite.plan.options import JOURNALS, LATEST, bytes_of
from suite.plan.space import ALL, DEFAULTS, searched, space, trained
from suite.plan.strategies import TRUSTED
from suite.plan.sweep import AXES, described, parsed
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
    made = argparse.ArgumentParser(
        prog="python -m suite.tune",
        description="Searches for the best setting: few launches, and a known risk of being wrong.",
        epilog=EPILOG.format(**defaults), formatter_class=argparse.RawDescriptionHelpFormatter,
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
    goal.add_argument(
        "--margin", type=percent, default=MARGIN, metavar="PERCENT",
        help=f"cells closer than this count as equally good (default: {100 * MARGIN:g})",
    )  # fmt: skip
    goal.add_argument("--price-hour", type=float, metavar="P", help="of the machine, for the objective cost")
    goal.add_argument("--price-kwh", type=float, metavar="P", help="of electricity, for the objective cost")
    goal.add_argument(
        "--recipe", type=one_of("recipe", RECIPES), default="modern", metavar=f"{{{','.join(RECIPES)}}}",
        help="how cells are trained to an accuracy (default: modern)",
    )  # fmt: skip
    where = made.add_argument_group("where to look")
    where.add_argument(
        "--workloads", metavar="PATH", action="append", default=[],
        help="folder of a workload from outside, or the name of an installed one; may be repeated",
    )  # fmt: skip
    where.add_argument("--matrix", metavar="LIST", action="append", help="the cells of matrices, or of a TOML file")
    where.add_argument(
        "--search", metavar="LIST",
        help=f"axes to search over the machine's own values, which --help lists: {', '.join(DEFAULTS[False])}, {ALL}; "
        "an axis that no option names stays as usual",
    )  # fmt: skip
    for axis in AXES:
        words = SETTINGS[axis].help.partition(" (default:")[0]
        where.add_argument(f"--{axis}", metavar="LIST", help=words)
    _add_others(made)
    return made


def _add_others(made: argparse.ArgumentParser) -> None:
    how = made.add_argument_group("how to measure")
    how.add_argument("--min-window", type=float, metavar="S", help="seconds of a timed window (default: the machine's)")
    how.add_argument("--max-time", type=float, metavar="S", help="deadline of one launch")
    how.add_argument("--epochs", type=int, metavar="N", help="of a training to an accuracy (default: the recipe's)")
    how.add_argument("--memory-limit", type=float, metavar="GIB", help="memory that a launch may use on a CPU")
    how.add_argument("--seed", type=int, default=0, metavar="N", help="of weights, batches and the order (default: 0)")
    how.add_argument("--data", type=one_of("data", ("auto", "real", "synthetic")), default="auto", metavar="KIND",
                     help="real, synthetic, or auto (default: auto)")  # fmt: skip
    how.add_argument("--data-dir", metavar="DIR", help="folder with the official archives (default: $SUITE_DATA_DIR)")
    how.add_argument("--device", type=one_of("device", devices.CHOICES), default="auto", metavar="DEVICE",
                     help=devices.HELP)  # fmt: skip
    how.add_argument("--on", type=engine, default=LOCAL, metavar="ENGINE", help=ON)
    how.add_argument("--placement", type=one_of("placement", PLACEMENTS), default=PLACEMENTS[0], metavar="HOW",
                     help=PLACEMENT)  # fmt: skip
    how.add_argument("--trusted-network", action="store_true", help=TRUSTED)
    how.add_argument("--wait-idle", type=float, metavar="S", help="wait up to S seconds for an idle machine")
    how.add_argument(
        "--resume", nargs="?", const=LATEST, metavar="RUN",
        help="continue the search with this id, or without an id the last one with these options",
    )  # fmt: skip
    how.add_argument("--no-probe", action="store_true", help="do not ask the frameworks which precisions they support")
    how.add_argument("--journals", type=Path, default=JOURNALS, metavar="DIR", help=f"default: {JOURNALS}")
    how.add_argument("--storage", type=Path, default=STORAGE, metavar="DIR", help=f"saved runs; default: {STORAGE}")
    how.add_argument("--output", type=Path, metavar="DIR", help=f"answer and plots (default: {ANSWERS}/RUN)")


def search(options: argparse.Namespace) -> Search:
    """The search of a parsed command line. Raises `MatrixError`, `CellError` or `workloads.registry.RegistryError`."""
    own = [name for place in options.workloads for name in registry.register(place)]
    if own and not options.workload and not options.matrix:
        options.workload = ",".join(own)
    _check_numbers(options)
    question = Question(
        objectives(options.objective), tuple(map(limit, options.within)), options.margin,
        options.price_hour, options.price_kwh,
    )  # fmt: skip
    check(question)
    gpu = has_gpu() and options.device != "cpu"
    chosen = space(options.matrix or [], {**searched(options.search, gpu), **axes(options)}, gpu)
    if question.target is not None:
        chosen = trained(chosen, options.recipe)
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
    return {axis: parsed(axis, text) for axis in AXES if (text := getattr(options, axis)) is not None}


def typed(options: argparse.Namespace) -> str:
    """The axes of the command line as text; empty without any."""
    return described(axes(options))


def memory_limit(options: argparse.Namespace) -> int | None:
    return bytes_of(options.memory_limit)


def _check_numbers(options: argparse.Namespace) -> None:
    for name in ("price_hour", "price_kwh", "max_time", "wait_idle", "memory_limit"):
        value = getattr(options, name)
        if value is not None and not 0 < value < math.inf:
            raise MatrixError(f"--{name.replace('_', '-')} is {value:g}; it must be more than 0")
    if options.epochs is not None and options.epochs < 1:
        raise MatrixError(f"--epochs is {options.epochs}; it must be at least 1")

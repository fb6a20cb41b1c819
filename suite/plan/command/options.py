"""The options of `pytest suite`, and the cells and windows that they select."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from suite.catalog.devices import has_gpu
from suite.catalog.phases import CHOICES, TRAIN
from suite.catalog.settings import SETTINGS
from suite.catalog.suggest import unknown
from suite.plan.blocks import shard
from suite.plan.cell import AUTO, Cell
from suite.plan.command import common
from suite.plan.command.common import LOCAL, Option, action, check_numbers, option
from suite.plan.matrix import MATRICES, Matrix, MatrixError, check_size, with_windows
from suite.plan.measuring import FIRST_LOOK, LAST_LOOK, LEAST_TESTED, Plan
from suite.plan.objective import budget
from suite.plan.sweeps.files import union_of_names
from suite.plan.sweeps.sweep import AXES, parse_axes, swept, usual
from workloads import registry
from workloads.spec import TARGET_MOST

#: The heading of the suite's options in ``pytest --help``, which pytest prints as it is, with a colon after it.
HEADING = """\
training benchmarks (pytest suite)

  pytest suite --benchmark-save                         the matrix of this machine (smoke, or gpu), until all is decided
  pytest suite --benchmark-save --precision fp32,bf16   a sweep: 2 workloads x 3 frameworks x 2 precisions
  pytest suite --benchmark-save --workload imdb_lstm --framework jax,pytorch --batch 32,64,128 --loader tuned,w2
  pytest suite --benchmark-save --matrix precision,batch --framework jax   the JAX cells of two named matrices
  pytest suite --benchmark-save --matrix sweep.toml     the same options in a file, such as: batch = [32, 64]
  pytest suite --benchmark-save=NAME -k "jax and bf16"  name the run; measure only the cells whose id matches
  pytest suite --collect-only -q --batch 32,64          list the launches and measure nothing
  pytest suite --resume --launches 6                    continue a run, here one of a fixed number of launches
  pytest suite --benchmark-save --track mlflow          send each launch to MLflow as it ends
  pytest suite --benchmark-save --on ray                on all hosts of a Ray cluster, block by block
  python -m suite.compare                               compare what was measured

  Exit status: 0 measured, 1 a launch failed, 2 interrupted, 4 wrong usage, 5 nothing was measured.

  Options that take a LIST (a,b) are crossed with each other. Without --matrix, the rest is as usual: both studied
  workloads, all frameworks, fp32, each framework's usual compile mode, the tuned loader; batch, launches and windows
  are those of this machine's matrix. With --matrix, a list replaces the values of every cell of the matrix, except
  that --workload and --framework select the matrix's cells; one that the matrix lacks gets the cells of the others.

options of the suite"""


#: The options that `pytest suite` alone has, and the shared ones, in the order of its help; others follow.
OPTIONS = (
    option("--matrix", metavar="LIST", action="append",
           help=f"cells to measure, one or more of: {', '.join(MATRICES)}; path/to/sweep.toml; "
           "path/to/file.py:function (default: smoke on a CPU, gpu on a GPU)"),
    *(option(f"--{axis}", metavar="LIST", help=SETTINGS[axis].help, action=action(axis)) for axis in AXES),
    common.WORKLOADS.but(help=f"{common.WORKLOADS.help}. Without --workload, only what is in there is measured"),
    common.LAUNCHES,
    option("--no-control", action="store_true",
           help=f"leave out the A/A control: from {LEAST_TESTED} launches on, the cells of one framework (PyTorch if "
           "it is measured) run twice, which shows how much noise alone changes a ratio"),
    option("--budget", metavar="TIME",
           help="measure until all is decided, or for so long, such as 10min: the run is looked at after each block "
           f"from the {FIRST_LOOK}th to the {LAST_LOOK}th, and cells that are decided leave it (default: that of the "
           "matrix, if it has one; else, and with --launches, the launches are fixed)"),
    common.MIN_WINDOW, common.PHASES, common.MAX_TIME, common.EPOCHS,
    option("--target", type=float, metavar="A",
           help="test accuracy to which they are timed; above 1, a test loss (default: that of the recipe)"),
    common.MEMORY_LIMIT, common.SEED, common.DATA, common.DATA_DIR, common.DEVICE, common.TRUSTED_NETWORK,
    option("--shard", metavar="I/N",
           help="measure part I of N, to share a run between N machines; suite.compare merges their files"),
    common.RESUME, common.WAIT_IDLE,
    option("--profile", action="store_true",
           help="profile some steps of each launch after its timed windows; suite.compare --why then says where time "
           "goes"),
    common.PROFILE_MEMORY, common.PROFILE_CODE,
)  # fmt: skip


def add(parser: pytest.Parser, *more: Option) -> None:
    """Add the suite's options, in a group of their own; ``more`` are those of other rooms."""
    common.add(parser.getgroup("suite", HEADING).addoption, *OPTIONS, *more, common.JOURNAL_FOLDER)


def names(parser: pytest.Parser) -> list[str]:
    """The names of the suite's options, such as ``--matrix``."""
    return [name for option in parser.getgroup("suite").options for name in option.names()]


def chosen_matrix(config: pytest.Config) -> Matrix:
    """The matrix of the command line, with its axes, launches and windows.

    Raises `MatrixError` or `CellError` if an option makes no sense.
    """
    _check_numbers(config)
    gpu = has_gpu() and config.getoption("device") != "cpu"
    axes = chosen_axes(config)
    if names := config.getoption("matrix"):
        chosen = union_of_names(names, gpu)
    else:
        chosen = usual(gpu) if axes else union_of_names(["gpu" if gpu else "smoke"], gpu)
    chosen = swept(chosen, axes) if axes else chosen
    cells = chosen.cells
    if any(cell.recipe and cell.batch == AUTO for cell in cells):
        raise MatrixError(
            "--batch auto would train to the end in every try; find the batch first, with --matrix largest-batch"
        )
    if part := config.getoption("shard"):
        cells = shard(cells, *_shard(part))
    min_window = config.getoption("min_window")
    plan = chosen.plan if min_window is None else with_windows(chosen.plan, min_window, "--min-window")
    if names := config.getoption("phases"):
        if any(cell.recipe for cell in cells):
            raise MatrixError("--phases is for timed steps; cells that train to their end have none")
        plan = with_phases(plan, names)
    budget_s = _budget_s(config, replace(chosen, plan=plan), cells)
    launches = config.getoption("launches") or (LAST_LOOK if budget_s else chosen.launches)
    check_size(len(cells), launches)
    return replace(chosen, cells=cells, launches=launches, plan=plan, budget_s=budget_s)


def chosen_axes(config: pytest.Config) -> dict[str, tuple[Any, ...]]:
    """The axes of the command line, with their values.

    Raises `MatrixError` or `workloads.registry.RegistryError`.
    """
    own = [name for place in config.getoption("workloads") for name in registry.register(place)]
    axes = parse_axes(vars(config.option))
    return {"workload": tuple(dict.fromkeys(own)), **axes} if own else axes


def with_phases(plan: Plan, text: str) -> Plan:
    """The plan with these phases in every launch, such as ``train,infer``. Raises `MatrixError`."""
    given = [name.strip() for name in text.split(",")]
    for name in given:
        if name not in CHOICES:
            raise MatrixError(f"--phases: {unknown('phase', name, CHOICES)}")
    if TRAIN not in given:
        raise MatrixError(f"--phases is {text!r}; every launch trains first: write {','.join([TRAIN, *given])}")
    return replace(plan, phases=tuple(name for name in CHOICES if name in given), chosen=True)


def _budget_s(config: pytest.Config, chosen: Matrix, cells: Sequence[Cell]) -> float | None:
    """The seconds of ``--budget``, or of the matrix; None for a fixed number of launches. Raises `MatrixError`."""
    text, on, recipe = config.getoption("budget"), config.getoption("on", LOCAL), any(cell.recipe for cell in cells)
    if text is None:
        # What serves is tested with a fixed number.
        fixed = config.getoption("launches") or on != LOCAL or recipe or chosen.plan.serves
        return None if fixed or not chosen.budget_s else chosen.budget_s * len(cells) / max(len(chosen.cells), 1)
    if recipe:
        raise MatrixError("--budget is for timed steps; cells that train to their end take --launches")
    if on != LOCAL:
        raise MatrixError(f"--budget measures on this host; with --on {on} give --launches")
    if config.getoption("launches"):
        raise MatrixError(
            "--budget stops when all is decided, and --launches fixes their number; leave out one of them"
        )
    seconds = budget(text).seconds
    if seconds is None:
        raise MatrixError(f"--budget is {text!r}; write a time, such as 10min")
    return seconds


def _check_numbers(config: pytest.Config) -> None:
    for part in ("memory", "code"):
        if config.getoption(f"profile_{part}") and not config.getoption("profile"):
            raise MatrixError(f"--profile-{part} adds to a profile; give --profile too")
    check_numbers(config.option)
    target = config.getoption("target")
    if target is not None and not 0 < target <= TARGET_MOST:
        raise MatrixError(
            f"--target is {target:g}; it is an accuracy of at most 1, or a test loss of at most {TARGET_MOST:g}"
        )


def _shard(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise MatrixError(f"--shard is {text!r}; write I/N, for example 2/8")
    return int(part), int(parts)

"""The options of `training-suite run`, and the cells and windows that they select."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from suite.catalog.devices import has_gpu
from suite.catalog.phases import CHOICES, TRAIN
from suite.catalog.settings import SETTINGS
from suite.catalog.suggest import unknown
from suite.plan.blocks import shard
from suite.plan.cell import AUTO, Cell
from suite.plan.command import common
from suite.plan.command.common import LOCAL, Option, check_numbers, option
from suite.plan.matrix import MATRICES, Matrix, MatrixError, check_size, with_windows
from suite.plan.measuring import FIRST_LOOK, LAST_LOOK, LEAST_TESTED, Plan
from suite.plan.objective import budget
from suite.plan.sweeps.files import union_of_names
from suite.plan.sweeps.sweep import AXES, parse_axes, swept, usual
from workloads import registry
from workloads.lengths import FIXED
from workloads.spec import TARGET_MOST

if TYPE_CHECKING:
    import pytest

#: The beginning of the help, which pytest prints as it is, with a colon after the last line.
HEADING = """\
measures training in PyTorch, TensorFlow and JAX side by side, and saves the run

examples:
  training-suite run                          the matrix of this machine (smoke, or gpu), until all is decided
  training-suite run --precision fp32,bf16    a sweep: 2 workloads x 3 frameworks x 2 precisions
  training-suite run --workload imdb_lstm --framework jax,pytorch --batch 32,64,128 --loader tuned,w2
  training-suite run --matrix precision,batch --framework jax   the JAX cells of two named matrices
  training-suite run --matrix sweep.toml      the same options in a file, such as: batch = [32, 64]
  training-suite run -k "jax and bf16"        measure only the cells whose id matches
  training-suite run --collect-only -q        list the launches and measure nothing
  training-suite run --resume                 continue the last run with these options
  training-suite run --on ray                 on all hosts of a Ray cluster, block by block
  training-suite compare                      compare what was measured

Options that take a LIST (a,b) are crossed with each other. Without --matrix, the rest is as usual: both studied
workloads, all frameworks, fp32, each framework's usual compile mode, the tuned loader; batch, launches and windows are
those of this machine's matrix. With --matrix, a list replaces the values of every cell of the matrix, except that
--workload and --framework select the matrix's cells; one that the matrix lacks gets the cells of the others.

Exit status: 0 measured, 1 a launch failed or nothing was measured, 2 wrong usage, 130 interrupted. `pytest suite
--benchmark-save` measures the same, with pytest's statuses: 2 interrupted, 4 wrong usage, 5 nothing was measured."""

#: The groups of the help, each with its options; those after `SHORT` groups are in ``--help-all``. What is in none, as
#: of another package, is in the last one.
GROUPS = {
    "What to measure. Without options: the matrix of this machine":
        "matrix workload workloads framework batch precision size compile loader devices phases -k collect-only",
    "How long to measure. Without options: until all is decided, as long as the matrix allows": "budget launches "
        "wait-idle",
    "Where to measure. Without options: on this machine, on its GPU if it has one": "device gpu on",
    "What to keep, and how to go on": "benchmark-save no-save resume profile track",
    "How the model trains": "accumulate kernel strategy checkpointing lengths layout interface release "
        "tuning allocator",
    "How much of the machine a launch gets": "threads cores bind memory-limit placement shard trusted-network",
    "When a training ends that goes on to its end, as with --matrix accuracy": "epochs target",
    "Where data and seeds come from": "data data-dir format pages seed",
    "How a launch is timed, checked and watched": "min-window max-time cache no-control profile-memory profile-code "
        "metrics-port metrics-host journals",
}  # fmt: skip
SHORT = 4
#: All of them, and those of pytest and its plugins that would be taken for another option of the suite, mistyped.
NAMES = (
    *(f"--{name}" for names in GROUPS.values() for name in names.split()),
    *("--benchmark-max-time", "--benchmark-precision", "--color", "--log-file", "--log-file-mode", "--no-header"),
    *("--noconftest", "--pyargs", "--report-chars", "--sw-reset", "--trace", "--version", "-o", "-v"),
    *("--cache-clear", "--cache-show", "--log-format", "--log-cli-format", "--log-date-format", "--log-file-format"),
)

#: What the help shows of the options of pytest and pytest-benchmark.
OF_PYTEST = (
    option("-k", metavar="EXPRESSION", help="of these cells, those whose id matches, such as 'jax and bf16'"),
    option("--collect-only", action="store_true", help="list the launches and measure nothing; with -q, their ids"),
    option("--benchmark-save", metavar="NAME", nargs="?", help="name the run (default: that of its matrix)"),
)

#: The options that `training-suite run` alone has, and the shared ones, in the order of its help; others follow.
OPTIONS = (
    option("--matrix", metavar="LIST", action="append",
           help=f"cells to measure, one or more of: {', '.join(MATRICES)}; path/to/sweep.toml; "
           "path/to/file.py:function (default: smoke on a CPU, gpu on a GPU)"),
    *(common.of_axis(axis, SETTINGS[axis].help) for axis in AXES),
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
    common.MEMORY_LIMIT, common.SEED, common.DATA, common.DATA_DIR, common.DEVICE, common.GPU, common.TRUSTED_NETWORK,
    option("--shard", metavar="I/N",
           help="measure part I of N, to share a run between N machines; training-suite compare merges their files"),
    option("--no-save", action="store_true", help="keep the launches in the run's journal, and save no run"),
    common.RESUME, common.WAIT_IDLE,
    option("--profile", action="store_true",
           help="profile some steps of each launch after its timed windows; training-suite compare --why then says "
           "where time goes"),
    common.PROFILE_MEMORY, common.PROFILE_CODE,
)  # fmt: skip


def grouped(*more: Option) -> dict[str, list[Option]]:
    """The suite's options by the title of their group; ``more`` are those of other rooms."""
    left = {each.flags[0].removeprefix("--"): each for each in (*OPTIONS, *more, common.JOURNAL_FOLDER)}
    groups = {title: [left.pop(name) for name in names.split() if name in left] for title, names in GROUPS.items()}
    groups[list(GROUPS)[-1]].extend(left.values())
    return groups


def add(parser: pytest.Parser, *more: Option) -> None:
    """Add the suite's options, in groups of their own, which stand first in pytest's help."""
    before, heading = "_anonymous", f"training-suite run: {HEADING}\n\n"  # the group that pytest begins with
    for title, chosen in grouped(*more).items():
        group = parser.getgroup(f"suite: {title}", f"{heading}{title}", after=before)
        common.add(group.addoption, *chosen)
        before, heading = group.name, ""


def names(parser: pytest.Parser) -> list[str]:
    """The names of the suite's options, such as ``--matrix``."""
    groups = (parser.getgroup(f"suite: {title}") for title in GROUPS)
    return [name for group in groups for option in group.options for name in option.names()]


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
    for name in ("epochs", "target"):
        if config.getoption(name) is not None and not any(cell.recipe for cell in cells):
            raise MatrixError(f"--{name} is for trainings to their end; add --matrix accuracy, or leave it out")
    if config.getoption("profile") and any(cell.lengths != FIXED for cell in cells):
        raise MatrixError("--profile is of steps that are alike, and those of other --lengths are not; leave one out")
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
        fixed = config.getoption("launches") or on != LOCAL or recipe or chosen.plan.serves or chosen.plan.saves
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

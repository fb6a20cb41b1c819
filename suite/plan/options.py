"""The options of `pytest suite`, and the cells and windows that they select."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.catalog import devices
from suite.catalog.settings import SETTINGS
from suite.plan.blocks import shard
from suite.plan.cell import AUTO
from suite.plan.choice import one_of
from suite.plan.device import has_gpu
from suite.plan.engine import LOCAL, ON, PLACEMENT, PLACEMENTS, engine
from suite.plan.matrix import MATRICES, Matrix, MatrixError, check_size, with_windows
from suite.plan.measuring import LEAST_TESTED, LONGEST_S, LONGEST_TRAINING_S
from suite.plan.named import named
from suite.plan.strategies import TRUSTED
from suite.plan.sweep import AXES, parsed, swept, usual
from workloads import registry

#: Where runs keep their journals, unless the command line says otherwise.
JOURNALS = Path("results/journals")

#: What ``--resume`` without a value stands for: the run that fits best.
LATEST = "latest"

#: Trackers that can follow a run.
TRACKERS = ("mlflow", "tensorboard", "wandb")

#: The heading of the suite's options in ``pytest --help``, which pytest prints as it is, with a colon after it.
HEADING = """\
training benchmarks (pytest suite)

  pytest suite --benchmark-save                         the matrix of this machine: smoke on a CPU, default on a GPU
  pytest suite --benchmark-save --precision fp32,bf16   a sweep: 2 workloads x 3 frameworks x 2 precisions
  pytest suite --benchmark-save --workload imdb_lstm --framework jax,pytorch --batch 32,64,128 --loader tuned,w2
  pytest suite --benchmark-save --matrix precision,batch --framework jax   the JAX cells of two named matrices
  pytest suite --benchmark-save --matrix sweep.toml     the same options in a file, such as: batch = [32, 64]
  pytest suite --benchmark-save=NAME -k "jax and bf16"  name the run; measure only the cells whose id matches
  pytest suite --collect-only -q --batch 32,64          list the launches and measure nothing
  pytest suite --resume --launches 6                    continue a run, here with more launches
  pytest suite --benchmark-save --track mlflow          send each launch to MLflow as it ends
  pytest suite --benchmark-save --on ray                on all hosts of a Ray cluster, block by block
  python -m suite.compare                               compare what was measured

  Exit status: 0 measured, 1 a launch failed, 2 interrupted, 4 wrong usage, 5 nothing was measured.

  Options that take a LIST (a,b) are crossed with each other. Without --matrix, the rest is as usual: both studied
  workloads, all frameworks, fp32, each framework's usual compile mode, the tuned loader; batch, launches and windows
  are those of this machine's matrix. With --matrix, a list replaces the values of every cell of the matrix, except
  that --workload and --framework select the matrix's cells; one that the matrix lacks gets the cells of the others.

options of the suite"""


def add(parser: pytest.Parser) -> None:
    """Add the suite's options, in a group of their own."""
    group = parser.getgroup("suite", HEADING)
    group.addoption(
        "--matrix", metavar="LIST", action="append",
        help=f"cells to measure, one or more of: {', '.join(MATRICES)}; path/to/sweep.toml; path/to/file.py:function "
        "(default: smoke on a CPU, default on a GPU)",
    )  # fmt: skip
    for axis in AXES:
        group.addoption(f"--{axis}", metavar="LIST", help=SETTINGS[axis].help)
    group.addoption(
        "--workloads", metavar="PATH", action="append", default=[],
        help="folder of a workload from outside, or the name of an installed one; may be repeated. Without "
        "--workload, only what is in there is measured",
    )  # fmt: skip
    group.addoption(
        "--cores", type=int, metavar="N",
        help="cores of each device on a CPU, so that one device and several are alike (default: one device has all, "
        "several share them)",
    )  # fmt: skip
    group.addoption("--launches", type=int, metavar="N", help="fresh processes per cell (default: that of the matrix)")
    group.addoption(
        "--no-control", action="store_true",
        help=f"leave out the A/A control: from {LEAST_TESTED} launches on, the cells of one framework (PyTorch if it "
        "is measured) run twice, which shows how much noise alone changes a ratio",
    )  # fmt: skip
    group.addoption(
        "--min-window", type=float, metavar="S", help="shortest timed window, in seconds (default: that of the matrix)"
    )
    group.addoption(
        "--max-time", type=float, metavar="S",
        help=f"seconds after which a launch is ended (default: {LONGEST_S:g}; {LONGEST_TRAINING_S:g} for a training "
        "to the end)",
    )  # fmt: skip
    group.addoption("--epochs", type=int, metavar="N", help="of trainings to the end (default: those of the recipe)")
    group.addoption(
        "--target", type=float, metavar="A", help="test accuracy to which they are timed (default: that of the recipe)"
    )
    group.addoption(
        "--memory-limit", type=float, metavar="GIB",
        help="memory that a launch may use on a CPU (default: no limit; with --batch auto, what is free)",
    )  # fmt: skip
    group.addoption(
        "--seed", type=int, default=0, metavar="N",
        help="seed of weights, batches, dropout and the order of launches (default: 0)",
    )  # fmt: skip
    group.addoption(
        "--data", type=one_of("data", ("auto", "real", "synthetic")), default="auto", metavar="KIND",
        help="real, synthetic, or auto: real data, or a synthetic twin of it if there is none (default: auto)",
    )  # fmt: skip
    group.addoption(
        "--data-dir", metavar="DIR", help="folder with the official archives or folders (default: $SUITE_DATA_DIR)"
    )
    group.addoption(
        "--device", type=one_of("device", devices.CHOICES), default="auto", metavar="DEVICE", help=devices.HELP,
    )  # fmt: skip
    group.addoption("--on", type=engine, default=LOCAL, metavar="ENGINE", help=ON)
    group.addoption(
        "--placement", type=one_of("placement", PLACEMENTS), default=PLACEMENTS[0], metavar="HOW", help=PLACEMENT
    )
    group.addoption("--trusted-network", action="store_true", help=TRUSTED)
    group.addoption(
        "--shard", metavar="I/N",
        help="measure part I of N, to share a run between N machines; suite.compare merges their files",
    )  # fmt: skip
    group.addoption(
        "--resume", nargs="?", const=LATEST, metavar="RUN",
        help="continue the run with this id, or without an id the last run with these settings; launches that timed "
        "out, crashed or ended in an error run again",
    )  # fmt: skip
    group.addoption(
        "--wait-idle", type=float, metavar="S",
        help="before the first launch, wait up to S seconds until other processes leave the CPU alone",
    )  # fmt: skip
    group.addoption(
        "--profile", action="store_true",
        help="profile some steps of each launch after its timed windows; suite.compare --why then says where time goes",
    )  # fmt: skip
    group.addoption(
        "--profile-memory", action="store_true",
        help="with --profile, record the allocator's timeline too, where the framework has one",
    )  # fmt: skip
    group.addoption(
        "--profile-code", action="store_true",
        help="with --profile, keep what the compiler made: XLA's optimised HLO, torch.compile's code and graph breaks",
    )  # fmt: skip
    group.addoption(
        "--track", metavar="TARGET", action="append", default=[],
        help=f"send each launch, as it ends, to one of: {', '.join(TRACKERS)}; TARGET=PLACE names a server's address "
        "or a folder, as --to of python -m suite.export does",
    )  # fmt: skip
    group.addoption(
        "--metrics-port", type=int, metavar="PORT",
        help="serve Prometheus metrics of the run on this port while it goes on, such as 9464",
    )  # fmt: skip
    group.addoption(
        "--metrics-host", default="127.0.0.1", metavar="ADDRESS",
        help="with --metrics-port, the address to serve on; 0.0.0.0 shows them to the network (default: 127.0.0.1)",
    )  # fmt: skip
    group.addoption("--journals", default=str(JOURNALS), metavar="DIR", help=f"default: {JOURNALS}")


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
        chosen = named(names, gpu)
    else:
        chosen = usual(gpu) if axes else named(["default" if gpu else "smoke"], gpu)
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
    launches = config.getoption("launches") or chosen.launches
    check_size(len(cells), launches)
    return replace(chosen, cells=cells, launches=launches, plan=plan)


def chosen_axes(config: pytest.Config) -> dict[str, tuple[Any, ...]]:
    """The axes of the command line, with their values.

    Raises `MatrixError` or `workloads.registry.RegistryError`.
    """
    own = [name for place in config.getoption("workloads") for name in registry.register(place)]
    axes = {axis: parsed(axis, text) for axis in AXES if (text := config.getoption(axis)) is not None}
    return {"workload": tuple(dict.fromkeys(own)), **axes} if own else axes


def _check_numbers(config: pytest.Config) -> None:
    for option in ("memory", "code"):
        if config.getoption(f"profile_{option}") and not config.getoption("profile"):
            raise MatrixError(f"--profile-{option} adds to a profile; give --profile too")
    for option in ("launches", "epochs", "cores"):
        value = config.getoption(option)
        if value is not None and value < 1:
            raise MatrixError(f"--{option} is {value}; it must be at least 1")
    target = config.getoption("target")
    if target is not None and not 0 < target <= 1:
        raise MatrixError(f"--target is {target:g}; it is an accuracy, more than 0 and at most 1")
    positive = (("max-time", "seconds"), ("memory-limit", "GiB"), ("wait-idle", "seconds"))
    for option, unit in positive:
        value = config.getoption(option.replace("-", "_"))
        if value is not None and not 0 < value < math.inf:
            raise MatrixError(f"--{option} is {value:g}; it must be more than 0 {unit}")


def bytes_of(gib: float | None) -> int | None:
    return None if gib is None else int(gib * 2**30)


def _shard(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise MatrixError(f"--shard is {text!r}; write I/N, for example 2/8")
    return int(part), int(parts)

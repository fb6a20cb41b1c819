"""The options of `pytest suite`, and the cells and windows that they select."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from suite.plan.cell import AUTO, FRAMEWORKS, SIZES
from suite.plan.device import has_gpu
from suite.plan.matrix import MATRICES, Matrix, MatrixError, matrix, shard, union
from suite.plan.measuring import LEAST_TESTED, LONGEST_S, LONGEST_TRAINING_S

#: Where runs keep their journals, unless the command line says otherwise.
JOURNALS = Path("results/journals")

#: What ``--resume`` without a value stands for: the run that fits best.
LATEST = "latest"


def add(parser: pytest.Parser) -> None:
    """Add the suite's options, in a group of their own."""
    group = parser.getgroup("suite", "training benchmarks (pytest suite); exit status 5 if nothing was measured")
    group.addoption(
        "--matrix", metavar="NAME", action="append",
        help=f"cells to measure: {', '.join(MATRICES)}, or path/to/file.py:name; may be repeated; "
        "without it, smoke on a CPU and default on a GPU",
    )  # fmt: skip
    group.addoption("--size", choices=SIZES, help="of the workloads: small suits slow CPUs (default: the matrix's own)")
    group.addoption(
        "--batch", metavar="N|auto", help="of all cells; auto finds the largest that fits (default: the matrix's own)"
    )
    group.addoption("--launches", type=int, metavar="N", help="fresh processes per cell (default: the matrix's own)")
    group.addoption(
        "--no-control", action="store_true",
        help=f"leave out the A/A control, a second copy of the {FRAMEWORKS[0]} cells from {LEAST_TESTED} launches on, "
        "which says what a ratio of 1 looks like on this machine",
    )  # fmt: skip
    group.addoption(
        "--min-window", type=float, metavar="S", help="least seconds of a timed window (default: the matrix's own)"
    )
    group.addoption(
        "--max-time", type=float, metavar="S",
        help=f"deadline of one launch (default: {LONGEST_S:g}; {LONGEST_TRAINING_S:g} for one that trains to its end)",
    )  # fmt: skip
    group.addoption(
        "--epochs", type=int, metavar="N", help="of cells that train to their end (default: their recipe's)"
    )
    group.addoption("--target", type=float, metavar="A", help="test accuracy to time them to (default: their recipe's)")
    group.addoption(
        "--memory-limit", type=float, metavar="GIB",
        help="that a worker may allocate on a CPU (default: no limit; for batch auto, what is free)",
    )  # fmt: skip
    group.addoption("--seed", type=int, default=0, metavar="N", help="of weights, batches, dropout and launch order")
    group.addoption(
        "--data", choices=("auto", "real", "synthetic"), default="auto",
        help="auto: real data, or its synthetic twin where none is to be had; real: fail instead (default: auto)",
    )  # fmt: skip
    group.addoption("--data-dir", metavar="DIR", help="official archives or folders (default: $SUITE_DATA_DIR)")
    group.addoption(
        "--device", choices=("auto", "cpu", "cuda"), default="auto", help="default: a GPU where there is one"
    )
    group.addoption(
        "--shard", metavar="I/N", help="part I of N of the matrix, for N machines; compare merges their files"
    )
    group.addoption(
        "--resume", nargs="?", const=LATEST, metavar="RUN",
        help="go on with a run: RUN names it by its id; without RUN, the last run with these settings. Tries again "
        "what failed by a timeout, a crash or an error",
    )  # fmt: skip
    group.addoption(
        "--wait-idle", type=float, metavar="S",
        help="wait up to S seconds before the first launch for other processes to leave the CPU alone",
    )  # fmt: skip
    group.addoption("--journals", default=str(JOURNALS), metavar="DIR", help=f"default: {JOURNALS}")


def chosen_matrix(config: pytest.Config) -> Matrix:
    """The matrix of the command line, with the size, batch, launches and windows of the command line.

    Raises `MatrixError` or `CellError` where an option makes no sense.
    """
    _check_numbers(config)
    names = config.getoption("matrix") or ["default" if _on_gpu(config) else "smoke"]
    chosen = union([matrix(name) for name in names])
    size, batch = config.getoption("size"), batch_of(config.getoption("batch"))
    changes = {name: value for name, value in (("size", size), ("batch", batch)) if value is not None}
    cells = tuple(dict.fromkeys(cell.but(**changes) for cell in chosen.cells))
    if any(cell.recipe and cell.batch == AUTO for cell in cells):
        raise MatrixError("--batch auto would train to the end for every try; find the batch with another matrix first")
    if part := config.getoption("shard"):
        cells = shard(cells, *_shard(part))
    min_window = config.getoption("min_window")
    plan = chosen.plan if min_window is None else replace(chosen.plan, min_window_s=min_window)
    return replace(chosen, cells=cells, launches=config.getoption("launches") or chosen.launches, plan=plan)


def _on_gpu(config: pytest.Config) -> bool:
    return has_gpu() and config.getoption("device") != "cpu"


def _check_numbers(config: pytest.Config) -> None:
    for option in ("launches", "epochs"):
        value = config.getoption(option)
        if value is not None and value < 1:
            raise MatrixError(f"--{option} is {value}; it must be at least 1")
    target = config.getoption("target")
    if target is not None and not 0 < target <= 1:
        raise MatrixError(f"--target is {target:g}; it is an accuracy, more than 0 and at most 1")
    positive = (("min-window", "seconds"), ("max-time", "seconds"), ("memory-limit", "GiB"), ("wait-idle", "seconds"))
    for option, unit in positive:
        value = config.getoption(option.replace("-", "_"))
        if value is not None and not 0 < value < math.inf:
            raise MatrixError(f"--{option} is {value:g}; it must be more than 0 {unit}")


def batch_of(text: str | None) -> int | None:
    if text is None:
        return None
    if text != "auto" and not (text.isdecimal() and int(text)):
        raise MatrixError(f"--batch is {text!r}; write a number of samples, or auto")
    return AUTO if text == "auto" else int(text)


def bytes_of(gib: float | None) -> int | None:
    return None if gib is None else int(gib * 2**30)


def _shard(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise MatrixError(f"--shard is {text!r}; write I/N, for example 2/8")
    return int(part), int(parts)

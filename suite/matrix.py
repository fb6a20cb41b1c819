"""Named matrices: functions that return cells, each varying one axis around a base."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from suite.cell import FRAMEWORKS, WORKLOADS, Cell
from suite.measure import Plan


@dataclass(frozen=True)
class Matrix:
    """Cells, and how often and how long each is measured unless the command line says otherwise."""

    name: str
    cells: tuple[Cell, ...]
    launches: int = 6
    plan: Plan = field(default_factory=Plan)


class MatrixError(ValueError):
    """A matrix that does not exist; the message lists those that do."""


def smoke() -> Matrix:
    """Both workloads in all frameworks, once around in minutes on two cores."""
    cells = tuple(Cell(workload, framework) for workload in WORKLOADS for framework in FRAMEWORKS)
    return Matrix("smoke", cells, launches=2, plan=Plan(min_window_s=0.5, windows=6, max_warmup_s=5.0))


def default() -> Matrix:
    """Both workloads in all frameworks at a batch that fills a GPU better than the study's."""
    cells = tuple(Cell(workload, framework, batch=128) for workload in WORKLOADS for framework in FRAMEWORKS)
    return Matrix("default", cells)


def batch() -> Matrix:
    """Throughput against batch size."""
    sizes = (32, 128, 512, 2048)
    return Matrix("batch", tuple(cell.but(batch=size) for size in sizes for cell in _usual_cells()))


def compile_modes() -> Matrix:
    """Each framework's own modes; what a framework lacks ends as unsupported."""
    modes = ("eager", "graph", "compile")
    return Matrix("compile", tuple(cell.but(compile=mode) for mode in modes for cell in _usual_cells()))


MATRICES: dict[str, Callable[[], Matrix]] = {
    "smoke": smoke,
    "default": default,
    "batch": batch,
    "compile": compile_modes,
}


def matrix(name: str) -> Matrix:
    """The matrix of this name."""
    if name not in MATRICES:
        raise MatrixError(f"unknown matrix {name!r}; there are: {', '.join(MATRICES)}")
    return MATRICES[name]()


def blocks(cells: Sequence[Cell], launches: int, seed: int) -> list[tuple[Cell, int]]:
    """Every launch in the order in which it runs: blocks of one launch a cell, each in a random order of its own.

    A drift of the machine then hits all cells alike. The same seed gives the same order.
    """
    order = []
    for block in range(launches):
        shuffled = list(cells)
        random.Random(f"{seed}/{block}").shuffle(shuffled)  # noqa: S311 - an order, not a secret
        order += [(cell, block) for cell in shuffled]
    return order


def _usual_cells() -> list[Cell]:
    return [Cell(workload, framework, batch=128) for workload in WORKLOADS for framework in FRAMEWORKS]

"""The cells that a search chooses from: the axes of a sweep, with defaults for those that are not given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from suite.plan.cell import AUTO, Cell
from suite.plan.matrix import Matrix, MatrixError
from suite.plan.named import named
from suite.plan.sweep import Axes, parsed, swept, usual

#: The values of an axis that is not given, on a CPU and on a GPU; an axis without any stays as usual.
#: fp64 is left out: it is for proofs. `max` compiles for minutes on a CPU, and DALI needs an extra.
DEFAULTS: Mapping[bool, Mapping[str, str]] = {
    False: {"precision": "fp32,bf16", "batch": "32,64,128", "compile": "usual,compile", "loader": "tuned,w2,resident"},
    True: {
        "precision": "fp32,tf32,bf16,fp16",
        "batch": "128,512,2048",
        "compile": "usual,compile,max",
        "loader": "tuned,w4,resident",
    },
}

#: Settings that ask more of the machine without changing which operations run: what a framework lacks at one value of
#: them it lacks at all.
SIZES_OF_WORK = ("batch", "accumulate")


def space(matrices: Sequence[str], axes: Axes, gpu: bool) -> Matrix:
    """The cells of these matrices, or without any of the usual ones, with the axes of the command line in their place.

    Without a matrix, the axes that are not given have the defaults of the machine. Raises `MatrixError`.
    """
    if matrices:
        base = named(matrices, gpu)
        chosen = swept(base, axes) if axes else base
    else:
        base = usual(gpu)
        given = {axis: parsed(axis, text) for axis, text in DEFAULTS[gpu].items() if axis not in axes}
        chosen = replace(swept(base, {**given, **axes}), name=swept(base, axes).name)
    cells = tuple(dict.fromkeys(chosen.cells))
    if any(cell.recipe for cell in cells):
        raise MatrixError(
            "tune trains to the end by --objective seconds-to-accuracy=.86 and --recipe; name no such matrix"
        )
    return replace(chosen, cells=cells)


def trained(chosen: Matrix, recipe: str) -> Matrix:
    """The same cells trained to their end by a recipe. Raises `MatrixError` where a batch is to be found first."""
    if any(cell.batch == AUTO for cell in chosen.cells):
        raise MatrixError("--batch auto would train to the end in every try; give the batch sizes")
    return replace(chosen, cells=tuple(cell.but(recipe=recipe, compile=cell.compile) for cell in chosen.cells))


def workloads(cells: Sequence[Cell]) -> list[tuple[Cell, ...]]:
    """The cells of each workload and size, which are searched one after the other."""
    names = dict.fromkeys((cell.workload, cell.size) for cell in cells)
    return [tuple(cell for cell in cells if (cell.workload, cell.size) == name) for name in names]


def lacking_too(cell: Cell, other: Cell) -> bool:
    """Whether a framework that lacks what the first cell needs lacks what the other needs: they differ in size only."""
    return replace(other, **{name: getattr(cell, name) for name in SIZES_OF_WORK}) == cell


def larger_than(cell: Cell, other: Cell) -> bool:
    """Whether the other cell is the first with a larger batch, so that it does not fit where the first does not."""
    return (
        AUTO not in (cell.batch, other.batch) and cell.batch < other.batch and replace(other, batch=cell.batch) == cell
    )

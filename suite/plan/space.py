"""The cells that a search chooses from: the axes of a sweep, with the machine's values for those only named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from suite.catalog.settings import SETTINGS
from suite.catalog.suggest import unknown
from suite.plan.cell import AUTO, Cell
from suite.plan.matrix import Matrix, MatrixError
from suite.plan.sweeps.files import union_of_names
from suite.plan.sweeps.sweep import Axes, parse_values, swept, usual

#: The values of an axis that is searched without a list of its own, on a CPU and on a GPU.
#: `max` compiles for minutes on a CPU, and DALI needs an extra.
DEFAULTS: Mapping[bool, Mapping[str, str]] = {
    gpu: {name: each.search[gpu] for name, each in SETTINGS.items() if each.search[gpu]} for gpu in (False, True)
}

#: What `--batch up` stands for: each is tried, from the smallest, until they are no faster or do not fit.
UP, UPWARD = "up", ",".join(str(2**power) for power in range(4, 14))

#: What names all of these axes.
ALL = "all"

#: Settings that ask more of the machine without changing which operations run: what a framework lacks at one value of
#: them it lacks at all.
SIZES_OF_WORK = ("batch", "accumulate")


def search_axes(text: str | None, gpu: bool) -> Axes:
    """The axes in a comma list, or ``all``, with the machine's values. Raises `MatrixError`."""
    values, names = DEFAULTS[gpu], dict.fromkeys((text or "").split(",") if text else ())
    if strange := next((name for name in names if name not in (*values, ALL)), None):
        raise MatrixError(f"--search: {unknown('axis', strange, (*values, ALL))}")
    return {axis: parse_values(axis, values[axis]) for axis in (values if ALL in names else names)}


def space(matrices: Sequence[str], axes: Axes, gpu: bool) -> Matrix:
    """The cells of these matrices, or without any of the usual ones, with these axes in their place.

    Raises `MatrixError`.
    """
    base = union_of_names(matrices, gpu) if matrices else usual(gpu)
    chosen = swept(base, axes) if axes else base
    cells = tuple(dict.fromkeys(chosen.cells))
    if any(cell.recipe for cell in cells):
        raise MatrixError(
            "tune trains to the end by --objective seconds-to-accuracy=.86 and --recipe; name no such matrix"
        )
    return replace(chosen, cells=cells)


def with_recipe(chosen: Matrix, recipe: str) -> Matrix:
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

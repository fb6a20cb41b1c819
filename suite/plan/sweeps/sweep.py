"""Sweeps: lists of values for the axes of a cell, crossed with each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from suite.catalog.frameworks import FRAMEWORKS as DECLARED
from suite.catalog.settings import SETTINGS, SWEPT
from suite.catalog.suggest import unknown
from suite.catalog.versions import INSTALLED, is_open
from suite.plan.cell import (
    COMPILES_OF,
    FRAMEWORKS,
    KERNELS_OF,
    STRATEGIES_OF,
    USUAL_COMPILE,
    WORKLOADS,
    Cell,
    CellError,
)
from suite.plan.matrix import STUDIED, Matrix, MatrixError, check_size, smoke
from suite.plan.matrix import gpu as gpu_matrix
from workloads import registry
from workloads.spec import read_declaration

#: All axes, in the order of their values in the name of a sweep.
AXES = SWEPT

#: A name longer than this lists the axes instead of their values.
VALUES_MOST = 80

Axes = Mapping[str, Sequence[Any]]


def usual(gpu: bool) -> Matrix:
    """The base of a sweep: both studied workloads in all frameworks, in fp32, with the usual compile mode and loader.

    Batch, launches and windows are those of the matrix `gpu` on a GPU, and of `smoke` on a CPU.
    """
    base = gpu_matrix() if gpu else smoke()
    batch = base.cells[0].batch
    cells = [Cell(workload, framework, batch=batch) for workload in STUDIED for framework in FRAMEWORKS]
    return base.but(cells, "sweep")


def swept(base: Matrix, axes: Axes) -> Matrix:
    """The matrix with the values of these axes in place of its own, crossed with each other, under a name of its own.

    A workload or framework that the matrix has keeps its cells; one that it lacks gets those of the others. Of compile
    modes and of strategies each framework takes those that it has; one that has none of them keeps all, which end as
    unsupported. A kernel is set for the workloads that have it, the strategy for several devices only, a release for
    its framework, a compile cache for the modes that it keeps programs of; unless modes are named, these are measured
    beside the usual ones, and unless frameworks are, those of the releases. Raises `MatrixError`.
    """
    axes = {"compile": ("", "compile"), **axes} if "cache" in axes else axes
    cells: Sequence[Cell] = base.cells
    released = _frameworks_of_releases(axes)
    chosen = {"workload": axes.get("workload"), "framework": axes.get("framework", released)}
    for axis, values in chosen.items():
        if values:
            cells = [cell for value in values for cell in _select(cells, axis, value)]
    if "framework" not in axes:  # of a workload from outside, those that it has a file for
        cells = [cell for cell in cells if cell.workload in WORKLOADS or _is_written(cell)]
    if "kernel" in axes and not any(_kernels(cell.workload, axes["kernel"]) for cell in cells):
        having = " or ".join(name for name in KERNELS_OF if _kernels(name, axes["kernel"]))
        kernels = ",".join(axes["kernel"])
        raise MatrixError(f"--kernel {kernels} sets the kernel of a layer that is not here: add --workload {having}")
    if "strategy" in axes and max((cell.devices for cell in cells), default=1) == max(axes.get("devices", (1,))) == 1:
        raise MatrixError("--strategy sets how several devices train, and there is one here: add --devices 2")
    for axis in [axis for axis in AXES[2:] if axis in axes]:  # their order, and so the cells', seeds that of launches
        check_size(sum(len(_values_for(cell, axis, axes[axis])) for cell in cells))
        cells = [cell.but(**{axis: value}) for cell in cells for value in _values_for(cell, axis, axes[axis])]
    if "cache" in axes and not any(cell.cache for cell in cells):
        raise MatrixError("--cache keeps compiled programs, and no cell here compiles any: add --compile compile")
    return base.but(tuple(dict.fromkeys(cells)), name(base.name, axes))


def parse_values(axis: str, text: str) -> tuple[Any, ...]:
    """The values in a comma list, each once. Raises `MatrixError`."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise MatrixError(
            f"--{axis} is {text!r}; write values with commas between them, such as {SETTINGS[axis].example}"
        )
    try:
        parts = SETTINGS[axis].complete(parts)
    except CellError as error:
        raise MatrixError(f"--{error}") from None
    return tuple(dict.fromkeys(_value(axis, part) for part in parts))


def parse_axes(texts: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """The axes with their values, of the options by their names. Raises `MatrixError` or `CellError`."""
    found = {axis: texts.get(axis) for axis in AXES}
    joined = {axis: ",".join(text) if isinstance(text, list) else text for axis, text in found.items()}
    return {axis: parse_values(axis, text) for axis, text in joined.items() if text is not None}


def name(base: str, axes: Axes) -> str:
    """A name for the matrix: that of its base and the values, or the axes alone where that is too long."""
    whole = "-".join([base, *("+".join(_label(axis, value) for value in axes[axis]) for axis in AXES if axis in axes)])
    return whole if len(whole) <= VALUES_MOST else "-".join([base, "by", *(axis for axis in AXES if axis in axes)])


def describe_axes(axes: Axes) -> str:
    """The axes and their values as text, such as ``precision fp32,bf16 loader w2``."""
    return " ".join(
        f"{axis} {','.join(_spell_first(axis, value) for value in axes[axis])}" for axis in AXES if axis in axes
    )


def spell_value(axis: str, value: Any) -> str:
    """A value as the command line takes it."""
    return SETTINGS[axis].spell(value)


def _spell_first(axis: str, value: Any) -> str:
    return str(SETTINGS[axis].first_name(spell_value(axis, value)))


def _select(cells: Iterable[Cell], axis: str, value: str) -> list[Cell]:
    cells = list(cells)
    return [cell for cell in cells if getattr(cell, axis) == value] or [_in_place(cell, axis, value) for cell in cells]


def _in_place(cell: Cell, axis: str, value: str) -> Cell:
    chosen = cell.compile != USUAL_COMPILE[cell.framework]
    keeps = axis == "workload" or (chosen and cell.compile in COMPILES_OF[value])
    moved = cell.but(**{axis: value}, compile=cell.compile if keeps else "")
    return moved if _kernels(moved.workload, [moved.kernel]) else moved.but(kernel="auto")


def _kernels(workload: str, kernels: Sequence[str]) -> list[str]:
    own = read_declaration(workload).kernels
    return [kernel for kernel in kernels if kernel in ("auto", *own)] if own else []


def _values_for(cell: Cell, axis: str, values: Sequence[Any]) -> Sequence[Any]:
    if axis == "kernel":
        return _kernels(cell.workload, values) or (cell.kernel,)
    if axis == "compile":
        return [mode for mode in values if not mode or mode in COMPILES_OF[cell.framework]] or values
    if axis == "release":
        own = [value.partition("=") for value in values]
        versions = [version for name, _, version in own if name == cell.framework]
        return ["" if version == INSTALLED else version for version in versions] or (cell.release,)
    if axis == "strategy":
        taken = [name for name in values if not name or name in STRATEGIES_OF[cell.framework]] or values
        return taken if cell.devices > 1 else ("",)
    if axis == "cache" and cell.compile not in DECLARED[cell.framework].cached:
        return ("",)
    return values


def _value(axis: str, text: str) -> Any:
    own = registry.names() if axis == "workload" else ()
    if text in own:
        return text
    try:
        return SETTINGS[axis].parse(text)
    except CellError as error:
        if axis == "workload":
            there = unknown(axis, text, (*WORKLOADS, *own), "your own in the folder of --workloads")
            raise MatrixError(f"--workload: {there}") from None
        raise MatrixError(f"--{error}" if str(error).startswith(f"{axis} is ") else f"--{axis}: {error}") from None


def _frameworks_of_releases(axes: Axes) -> tuple[str, ...]:
    """The frameworks of which releases are named. Raises `MatrixError` for one that is not measured, or an open one."""
    values = [value.partition("=") for value in axes.get("release", ())]
    for framework, _, version in values:
        if framework not in axes.get("framework", (framework,)):
            raise MatrixError(f"--release names {framework}, which is not measured: add it to --framework")
        if is_open(version):
            raise MatrixError(f"release is {framework}={version}; name it in the option --release, or write a version")
    return tuple(dict.fromkeys(framework for framework, _, _ in values))


def _label(axis: str, value: Any) -> str:
    return SETTINGS[axis].short.format(_spell_first(axis, value)).replace(" ", "-").replace("=", "-")


def _is_written(cell: Cell) -> bool:
    known = registry.frameworks_of(cell.workload)
    return cell.framework in known or registry.has_file(cell.workload, f"{cell.framework}.py")

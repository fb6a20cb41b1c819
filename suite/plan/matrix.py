"""Named matrices: cells, most of which vary one axis around a base.

Users can write their own: ``--matrix path/to/file.py:name`` calls a function that returns a `Matrix` or a list of
cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

from framework_training_suite import CommandError
from suite.catalog.devices import has_gpu
from suite.catalog.suggest import unknown
from suite.plan.cell import ALLOCATORS, AUTO, CHECKPOINTINGS, COMPILES, FRAMEWORKS, INTERFACES, WORKLOADS, Cell, Loader
from suite.plan.measuring import CONTROL, LONGEST_PLANNED_S, Plan
from workloads.spec import read_declaration, specification

#: Workloads of the study that this suite follows.
STUDIED = tuple(name for name in WORKLOADS if read_declaration(name).study)
#: Workloads whose models have several blocks, which can be computed again one by one.
OF_BLOCKS = tuple(name for name in WORKLOADS if not read_declaration(name).one_block)
BATCH = 128

#: Seconds of launches for each cell of a matrix that is measured until it is decided.
CPU_BUDGET_S, GPU_BUDGET_S = 100.0, 150.0


@dataclass(frozen=True)
class Matrix:
    """Cells, and the launches and windows of each unless the command line says otherwise.

    With ``budget_s``, seconds of launches, a run is looked at after each block and ends when all is decided.
    """

    name: str
    cells: tuple[Cell, ...]
    launches: int = 6
    plan: Plan = field(default_factory=Plan)
    budget_s: float | None = None

    def but(self, cells: Sequence[Cell], name: str) -> Matrix:
        """The same with other cells; a budget grows with their number."""
        budget_s = self.budget_s and self.budget_s * len(cells) / max(len(self.cells), 1)
        return replace(self, name=name, cells=tuple(cells), budget_s=budget_s)


#: Cells of a matrix and launches of a run, at most: each launch is a test, which takes pytest a few kilobytes.
CELLS_MOST, LAUNCHES_MOST = 10_000, 100_000


class MatrixError(CommandError, ValueError):
    """A wrong choice of cells; the message says what is allowed."""


def _base(workloads: Iterable[str] = STUDIED, batch: int = BATCH, size: str = "full") -> list[Cell]:
    return [Cell(workload, framework, batch=batch, size=size) for workload in workloads for framework in FRAMEWORKS]


def _trained(*recipes: str, precisions: Sequence[str] = ("fp32",)) -> list[Cell]:
    return [
        cell.but(precision=precision, recipe=recipe, batch=specification(cell.workload).batch)
        for recipe, precision in product(recipes, precisions)
        for cell in _base()
    ]


def _varied(cells: Iterable[Cell], *changes: dict[str, Any]) -> list[Cell]:
    cells = list(cells)
    return [cell.but(**change) for change in changes for cell in cells]


def _each(setting: str, *values: Any) -> list[dict[str, Any]]:
    return [{setting: value} for value in values]


def _cpu() -> list[Cell]:
    cells = [*_base(batch=32), *_base(batch=64)]
    return [*cells, *(cell.but(tuning="default") for cell in cells if cell.batch == 64)]


def _default(workloads: Iterable[str]) -> list[Cell]:
    return [
        cell.but(precision=precision, compile=mode)
        for precision in ("fp32", "bf16")
        for cell in _base(workloads)
        for mode in (cell.compile, "compile")
    ]


def _compiled() -> list[Cell]:
    cells = _varied(_base(), *_each("compile", *COMPILES))
    return [cell for cell in cells if cell.compile != "trace" if cell.compile != "nographs" or cell.framework == "jax"]


def _keras() -> list[Cell]:
    interfaces = ("native", *(name for name in INTERFACES if name.startswith("keras")))
    return _varied(_base(batch=32, size=_size()), *_each("interface", *interfaces))


def _on_devices() -> list[Cell]:
    trained = _trained("linear", "lars", "lamb")
    return [cell.but(devices=count, size=_size()) for cell in trained for count in (1, 2)]


def _size() -> str:
    return "full" if has_gpu() else "small"


LOADERS = (Loader("naive"), Loader("workers", 2), Loader("workers", 4), Loader(), Loader("resident"))
SHORT = Plan(min_window_s=0.5, windows=3, max_warmup_s=5.0)
#: The parts of `full`: all matrices that measure speed.
SPEED = ("default", "precision", "batch", "largest-batch", "compile", "loader", "accumulate", "lstm-kernel")


@dataclass(frozen=True)
class Declared:
    """The cells of a matrix, which may be measured until it is decided or for ``cell_s`` for each of its cells."""

    cells: Callable[[], Iterable[Cell]]
    launches: int = 6
    plan: Plan = field(default_factory=Plan)
    cell_s: float = 0.0

    def make(self, name: str) -> Matrix:
        cells = tuple(dict.fromkeys(self.cells()))
        return Matrix(name, cells, self.launches, self.plan, self.cell_s * len(cells) or None)


DECLARED: dict[str, Declared] = {
    # A tested answer in about ten minutes on two cores, and what one asks first of a GPU, in fifty.
    "smoke": Declared(lambda: _base(batch=32), plan=SHORT, cell_s=CPU_BUDGET_S),
    "gpu": Declared(lambda: _default(STUDIED), plan=SHORT, cell_s=GPU_BUDGET_S),
    # At two batch sizes, at one of them also as installed: half an hour on two cores.
    "cpu": Declared(_cpu, plan=SHORT, cell_s=CPU_BUDGET_S),
    "default": Declared(lambda: _default(WORKLOADS)),
    "precision": Declared(lambda: _varied(_base(), *_each("precision", "fp32", "tf32", "bf16", "fp16"))),
    "batch": Declared(lambda: _varied(_base(), *_each("batch", 32, 128, 512, 2048))),
    "largest-batch": Declared(lambda: _varied(_base(batch=AUTO), *_each("precision", "fp32", "bf16"))),
    "compile": Declared(_compiled),
    "loader": Declared(lambda: _varied(_base(), *_each("loader", *LOADERS))),
    # The same effective batch in parts.
    "accumulate": Declared(
        lambda: _varied(_base(), *({"batch": BATCH // parts, "accumulate": parts} for parts in (1, 2, 4, 8)))
    ),
    "devices": Declared(lambda: _varied(_base(batch=32, size=_size()), *_each("devices", 1, 2)), plan=SHORT),
    "lstm-kernel": Declared(lambda: _varied(_base(("imdb_lstm",)), *_each("kernel", "cudnn", "scan"))),
    "checkpointing": Declared(lambda: _varied(_base(OF_BLOCKS), *_each("checkpointing", *CHECKPOINTINGS))),
    "allocator": Declared(lambda: _varied(_base(), *_each("allocator", *ALLOCATORS))),
    "keras": Declared(_keras, plan=SHORT),
    "accuracy": Declared(lambda: _trained("modern"), launches=3),
    "accuracy-precision": Declared(lambda: _trained("modern", precisions=("fp32", "bf16", "fp16")), launches=3),
    "accuracy-devices": Declared(_on_devices, launches=3),
    # The study's hyperparameters and epochs: hours on a GPU, days on a CPU.
    "accuracy-study": Declared(lambda: _trained("study"), launches=3),
    # One epoch without dropout from one seed: the loss curves of the frameworks must agree.
    "loss-curve": Declared(lambda: _trained("no-dropout"), launches=1),
    "full": Declared(lambda: (cell for name in SPEED for cell in DECLARED[name].cells())),
}
MATRICES: dict[str, Callable[[], Matrix]] = {name: partial(each.make, name) for name, each in DECLARED.items()}
smoke, gpu, default = (MATRICES[name] for name in ("smoke", "gpu", "default"))


def matrix(name: str) -> Matrix:
    """The matrix with this name, or the one in a user's Python file. Raises `MatrixError`."""
    if ":" in name:
        from suite.plan.sweeps.files import read_function  # which needs this module

        return read_function(name)
    if name not in MATRICES:
        raise MatrixError(unknown("matrix", name, MATRICES, "path/to/sweep.toml, path/to/file.py:name"))
    return MATRICES[name]()


def union(matrices: Sequence[Matrix]) -> Matrix:
    """Several matrices as one, with each cell once, the most launches, the longest windows and all their time."""
    if len(matrices) == 1:
        return matrices[0]
    plan = max((matrix.plan for matrix in matrices), key=lambda plan: plan.min_window_s * plan.windows)
    cells = tuple(dict.fromkeys(cell for matrix in matrices for cell in matrix.cells))
    launches = max(matrix.launches for matrix in matrices)
    budgets = [matrix.budget_s for matrix in matrices if matrix.budget_s]
    budget_s = sum(budgets) if len(budgets) == len(matrices) else None
    return Matrix("+".join(matrix.name for matrix in matrices), cells, launches, plan, budget_s)


def check_size(cells: int, launches: int = 1) -> None:
    """Raise `MatrixError` for more cells, or more launches in all, than a session can hold."""
    if cells > CELLS_MOST:
        raise MatrixError(f"this makes {cells:,} cells, and a run has at most {CELLS_MOST:,}; name fewer values")
    if type(launches) is not int or not 1 <= launches < CONTROL:
        raise MatrixError(f"launches is {launches!r}; it must be a whole number from 1 to {CONTROL - 1}")
    if cells * launches > LAUNCHES_MOST:
        raise MatrixError(
            f"{launches:,} launches of {cells:,} cells are more than the {LAUNCHES_MOST:,} of a run; ask for fewer"
        )


def with_windows(plan: Plan, least_s: object, option: str) -> Plan:
    """The plan with windows of at least so many seconds. Raises `MatrixError`, which names the option."""
    if isinstance(least_s, bool) or not isinstance(least_s, (int, float)):
        raise MatrixError(f"{option} is {least_s!r}; it must be a number of seconds")
    if not 0 < least_s < LONGEST_PLANNED_S:
        bounds = f"more than 0 seconds and less than {LONGEST_PLANNED_S:g}"
        raise MatrixError(f"{option} is {least_s:g}; it must be {bounds}")
    return replace(plan, min_window_s=float(least_s))

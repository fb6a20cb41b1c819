"""Named matrices: functions that return cells, each varying one axis around a base.

Users can write their own: ``--matrix path/to/file.py:name`` calls a function that returns a `Matrix` or a list of
cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from framework_training_suite import CommandError
from suite.catalog.devices import has_gpu
from suite.catalog.suggest import unknown
from suite.plan.cell import (
    ALLOCATORS,
    AUTO,
    CHECKPOINTINGS,
    COMPILES,
    FRAMEWORKS,
    INTERFACES,
    WORKLOADS,
    Cell,
    Loader,
)
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


def smoke() -> Matrix:
    """The studied workloads in all frameworks: a tested answer in about ten minutes on two cores."""
    plan = Plan(min_window_s=0.5, windows=3, max_warmup_s=5.0)
    return _tested_matrix("smoke", _base(STUDIED, batch=32), CPU_BUDGET_S, plan)


def gpu() -> Matrix:
    """What one asks first of a GPU: the usual mode and compiled, in fp32 and bf16; fifty minutes."""
    cells = [cell for cell in default().cells if cell.workload in STUDIED]
    return _tested_matrix("gpu", cells, GPU_BUDGET_S, Plan(min_window_s=0.5, windows=3, max_warmup_s=5.0))


def cpu() -> Matrix:
    """The studied workloads at two batch sizes, at one of them also as installed: half an hour on two cores."""
    cells = [cell for size in (32, 64) for cell in _base(STUDIED, batch=size)]
    installed = [cell.but(tuning="installed") for cell in cells if cell.batch == 64]
    return _tested_matrix("cpu", (*cells, *installed), CPU_BUDGET_S, smoke().plan)


def default() -> Matrix:
    """All workloads and frameworks in fp32 and bf16, in each framework's usual compile mode and compiled.

    So PyTorch runs eager and with ``torch.compile``, TensorFlow without and with XLA, and JAX, which always compiles,
    once. The cells are the same on a CPU. A mode that cannot run an LSTM ends as unsupported, with the reason.
    """
    cells = (
        cell.but(precision=precision, compile=mode)
        for precision in ("fp32", "bf16")
        for cell in _base()
        for mode in (cell.compile, "compile")
    )
    return Matrix("default", _distinct(cells))


def precision() -> Matrix:
    """All precisions but fp64; tf32 and fp16 end as unsupported on a CPU."""
    formats = ("fp32", "tf32", "bf16", "fp16")
    cells = (cell.but(precision=number_format) for number_format in formats for cell in _base(STUDIED))
    return Matrix("precision", tuple(cells))


def batch() -> Matrix:
    """Throughput and memory against batch size."""
    return Matrix("batch", tuple(cell.but(batch=size) for size in (32, 128, 512, 2048) for cell in _base(STUDIED)))


def largest_batch() -> Matrix:
    """The largest batch that fits, found by trying, in fp32 and bf16."""
    cells = (cell.but(batch=AUTO, precision=precision) for precision in ("fp32", "bf16") for cell in _base(STUDIED))
    return Matrix("largest-batch", tuple(cells))


def compile_modes() -> Matrix:
    """All compile modes in all frameworks; modes that a framework does not have end as unsupported."""
    cells = (cell.but(compile=mode) for mode in COMPILES for cell in _base(STUDIED))
    return Matrix("compile", tuple(cell for cell in cells if cell.compile != "nographs" or cell.framework == "jax"))


def loader() -> Matrix:
    """All loaders but DALI: from one thread to the whole data set on the device."""
    loaders = (Loader("naive"), Loader("workers", 2), Loader("workers", 4), Loader(), Loader("resident"))
    return Matrix("loader", tuple(cell.but(loader=kind) for kind in loaders for cell in _base(STUDIED)))


def accumulate() -> Matrix:
    """The same effective batch in 1, 2, 4 and 8 parts."""
    parts = (1, 2, 4, 8)
    cells = (cell.but(batch=BATCH // count, accumulate=count) for count in parts for cell in _base(STUDIED))
    return Matrix("accumulate", tuple(cells))


def devices() -> Matrix:
    """One device and two, each framework in its usual way; on a CPU in size small."""
    size = "full" if has_gpu() else "small"
    cells = (cell.but(devices=count, size=size) for count in (1, 2) for cell in _base(STUDIED, batch=32))
    return Matrix("devices", tuple(cells), plan=smoke().plan)


def lstm_kernel() -> Matrix:
    """The LSTM of cuDNN against a loop over time steps."""
    cells = (cell.but(kernel=kernel) for kernel in ("cudnn", "scan") for cell in _base(("imdb_lstm",)))
    return Matrix("lstm-kernel", tuple(cells))


def checkpointing() -> Matrix:
    """Models of several blocks, without and with gradient checkpointing: what it saves in memory and costs in time."""
    cells = (cell.but(checkpointing=value) for value in CHECKPOINTINGS for cell in _base(OF_BLOCKS))
    return Matrix("checkpointing", tuple(cells))


def allocator() -> Matrix:
    """The allocators of a GPU's memory; those that a framework lacks, and all on a CPU, end as unsupported."""
    return Matrix("allocator", tuple(cell.but(allocator=name) for name in ALLOCATORS for cell in _base(STUDIED)))


def keras() -> Matrix:
    """Keras on each framework beside the suite's own loop there; on a CPU in size small."""
    size = "full" if has_gpu() else "small"
    interfaces = ("native", *(name for name in INTERFACES if name.startswith("keras")))
    cells = (cell.but(interface=name, size=size) for name in interfaces for cell in _base(STUDIED, batch=32))
    return Matrix("keras", tuple(cells), plan=smoke().plan)


def accuracy() -> Matrix:
    """The studied workloads trained to their end by the modern recipe; each launch is a seed."""
    return _courses("accuracy", "modern")


def accuracy_precision() -> Matrix:
    """The same in fp32, bf16 and fp16: to compare the accuracy that they reach."""
    return _courses("accuracy-precision", "modern", ("fp32", "bf16", "fp16"))


def accuracy_devices() -> Matrix:
    """One device and two, trained to the end by the recipes for large batches; on a CPU in size small."""
    size, recipes = "full" if has_gpu() else "small", ("linear", "lars", "lamb")
    trained = (cell for recipe in recipes for cell in _courses("", recipe).cells)
    cells = tuple(cell.but(devices=count, size=size) for cell in trained for count in (1, 2))
    return Matrix("accuracy-devices", cells, launches=3)


def accuracy_study() -> Matrix:
    """The study's hyperparameters and epochs: hours on a GPU, days on a CPU."""
    return _courses("accuracy-study", "study")


def loss_curve() -> Matrix:
    """One epoch without dropout from one seed: the loss curves of the frameworks must agree."""
    return replace(_courses("loss-curve", "no-dropout"), launches=1)


def full() -> Matrix:
    """All matrices that measure speed."""
    parts = (default(), precision(), batch(), largest_batch(), compile_modes(), loader(), accumulate(), lstm_kernel())
    return Matrix("full", _distinct(cell for part in parts for cell in part.cells))


MATRICES: dict[str, Callable[[], Matrix]] = {
    "smoke": smoke,
    "gpu": gpu,
    "cpu": cpu,
    "default": default,
    "precision": precision,
    "batch": batch,
    "largest-batch": largest_batch,
    "compile": compile_modes,
    "loader": loader,
    "accumulate": accumulate,
    "devices": devices,
    "lstm-kernel": lstm_kernel,
    "checkpointing": checkpointing,
    "allocator": allocator,
    "keras": keras,
    "accuracy": accuracy,
    "accuracy-precision": accuracy_precision,
    "accuracy-devices": accuracy_devices,
    "accuracy-study": accuracy_study,
    "loss-curve": loss_curve,
    "full": full,
}


def matrix(name: str) -> Matrix:
    """The matrix with this name, or the one in a user's Python file. Raises `MatrixError`."""
    if ":" in name:
        from suite.plan import matrix_file  # which needs this module

        return matrix_file.read(name)
    if name not in MATRICES:
        raise MatrixError(unknown("matrix", name, MATRICES, "path/to/sweep.toml, path/to/file.py:name"))
    return MATRICES[name]()


def union(matrices: Sequence[Matrix]) -> Matrix:
    """Several matrices as one, with each cell once, the most launches, the longest windows and all their time."""
    if len(matrices) == 1:
        return matrices[0]
    plan = max((matrix.plan for matrix in matrices), key=lambda plan: plan.min_window_s * plan.windows)
    cells = _distinct(cell for matrix in matrices for cell in matrix.cells)
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


def _base(workloads: Iterable[str] = WORKLOADS, batch: int = BATCH) -> list[Cell]:
    return [Cell(workload, framework, batch=batch) for workload in workloads for framework in FRAMEWORKS]


def _tested_matrix(name: str, cells: Sequence[Cell], cell_s: float, plan: Plan) -> Matrix:
    """A matrix that is measured until it is decided, or for so many seconds for each of its cells."""
    return Matrix(name, tuple(cells), plan=plan, budget_s=cell_s * len(cells))


def _courses(name: str, recipe: str, precisions: Sequence[str] = ("fp32",)) -> Matrix:
    cells = [
        cell.but(precision=precision, recipe=recipe, batch=specification(cell.workload).batch)
        for precision in precisions
        for cell in _base(STUDIED)
    ]
    return Matrix(name, tuple(cells), launches=3)


def _distinct(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    return tuple(dict.fromkeys(cells))

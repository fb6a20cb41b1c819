"""What drives a cell's training: the suite's own loop in each framework, or a high-level interface on top of it.

Knows no framework: `suite.worker.frameworks` has a file ``*_keras`` for each, and a workload one file ``keras.py`` for
all of them.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from suite.plan.cell import INTERFACES, Cell
from suite.worker.frameworks import UnsupportedError
from workloads import registry

#: The extra, and the name of a workload's file. TensorFlow's environment has the package already.
EXTRA = "keras"


def native(cell: Cell) -> bool:
    """Whether the suite's own loop trains the cell."""
    return cell.interface == INTERFACES[0]


def of(cell: Cell) -> ModuleType:
    """The interface's file for the cell's framework. Raises `UnsupportedError` where its package is not installed."""
    try:
        return import_module(f"suite.worker.frameworks.{cell.framework}_keras")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "keras":
            raise
        raise UnsupportedError(
            f"Keras is not installed beside {cell.framework}; install the extra {EXTRA} there, for example "
            f"pip install -e '.[{cell.framework}-cpu,{EXTRA}]'"
        ) from None


def tools(cell: Cell) -> ModuleType:
    """The file for the evidence of the cell."""
    return import_module(f"suite.worker.frameworks.{cell.framework}_evidence") if native(cell) else of(cell)


def module(cell: Cell) -> ModuleType:
    """The workload's file for the cell. Raises `UnsupportedError` where the workload has none."""
    has_it = cell.framework in registry.frameworks_of(cell.workload)
    file = cell.framework
    if not native(cell):
        file = EXTRA
        has_it = bool(find_spec(f"workloads.{cell.workload}.{file}"))
    if not has_it:
        raise UnsupportedError(f"{cell.workload} has no file {file}.py")
    return import_module(f"workloads.{cell.workload}.{file}")


def prepare(cell: Cell, device: str, seed: int) -> dict[str, Any]:
    """The settings that the interface adds once the framework is prepared; none for the suite's own loop."""
    if native(cell):
        return {}
    if cell.devices > 1:
        raise UnsupportedError("Keras' training is measured on one device; use the interface native for several")
    added: dict[str, Any] = of(cell).prepare(cell, device, seed)
    return added


def distributions(cell: Cell) -> tuple[str, ...]:
    """The packages that the record names besides the framework's."""
    return () if native(cell) else tuple(of(cell).DISTRIBUTIONS)


def described(training: Any) -> dict[str, Any]:
    """The settings that are known once there is a model."""
    return training.settings() if hasattr(training, "settings") else {}

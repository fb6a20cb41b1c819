"""What drives a cell's training: the suite's own loop in each framework, or a high-level interface on top of it.

Knows no framework: `suite.worker.frameworks` has a file `keras.py` for each, and a workload one file ``keras.py`` for
all of them. An interface of one framework has one file there: `jax/nnx.py`, for which a workload has a file ``nnx.py``,
and `pytorch/lightning.py`, which trains the model of the workload's ``pytorch.py``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from suite.plan.cell import INTERFACES, Cell
from suite.worker.frameworks import UnsupportedError
from workloads import registry

#: The name of an interface's files.
FILES = {"keras": "keras", "keras-fit": "keras", "nnx": "nnx", "lightning": "lightning"}
#: The frameworks of those that not all have.
FRAMEWORKS_OF = {"nnx": ("jax",), "lightning": ("pytorch",)}
#: The extras, which have their packages' names, and what people call those. TensorFlow's environment has Keras already;
#: flax.nnx is a part of what JAX' extra installs.
EXTRAS = {"keras": "Keras", "lightning": "Lightning"}
#: Those that train by the framework's file of a workload.
OF_THE_FRAMEWORK = ("lightning",)

#: Starting an epoch takes `fit` some times as long as a small step, so that a short window would hold little else.
#: An epoch of IMDB has 781 steps of 32 samples; one of so many seconds has tens to thousands.
LEAST_EPOCH_S = 5.0


def native(cell: Cell) -> bool:
    """Whether the suite's own loop trains the cell."""
    return cell.interface == INTERFACES[0]


def of(cell: Cell) -> ModuleType:
    """The interface's file for the cell's framework.

    Raises `UnsupportedError` where the framework has no such interface, or its package is not installed.
    """
    file = _file(cell)
    try:
        return import_module(f"suite.worker.frameworks.{cell.framework}.{file}")
    except ModuleNotFoundError as error:
        if (extra := (error.name or "").partition(".")[0]) not in EXTRAS:
            raise
        raise UnsupportedError(
            f"{EXTRAS[extra]} is not installed beside {cell.framework}; install the extra {extra} there, for example "
            f"pip install -e '.[{cell.framework}-cpu,{extra}]'"
        ) from None


def _file(cell: Cell) -> str:
    """The name of the interface's files. Raises `UnsupportedError` where the cell's framework has no such interface."""
    frameworks = FRAMEWORKS_OF.get(cell.interface, (cell.framework,))
    if cell.framework not in frameworks:
        raise UnsupportedError(f"{cell.interface} is an interface of {', '.join(frameworks)}, not of {cell.framework}")
    return FILES[cell.interface]


def tools(cell: Cell) -> ModuleType:
    """The file for the evidence of the cell."""
    return import_module(f"suite.worker.frameworks.{cell.framework}.evidence") if native(cell) else of(cell)


def module(cell: Cell) -> ModuleType:
    """The workload's file for the cell. Raises `UnsupportedError` where the workload has none."""
    file = cell.framework if native(cell) else _file(cell)
    if file in OF_THE_FRAMEWORK:
        file = cell.framework
    if file == cell.framework:
        has_it = file in registry.frameworks_of(cell.workload)
    else:
        has_it = bool(find_spec(f"workloads.{cell.workload}.{file}"))
    if not has_it:
        raise UnsupportedError(f"{cell.workload} has no file {file}.py")
    return import_module(f"workloads.{cell.workload}.{file}")


def prepare(cell: Cell, device: str, seed: int) -> dict[str, Any]:
    """The settings that the interface adds once the framework is prepared; none for the suite's own loop."""
    if native(cell):
        return {}
    if cell.devices > 1:
        raise UnsupportedError(f"{cell.interface} is measured on one device; use the interface native for several")
    added: dict[str, Any] = of(cell).prepare(cell, device, seed)
    return added


def distributions(cell: Cell) -> tuple[str, ...]:
    """The packages that the record names besides the framework's."""
    return () if native(cell) else tuple(of(cell).DISTRIBUTIONS)


def describe_training(training: Any) -> dict[str, Any]:
    """The settings that are known once there is a model."""
    return training.settings() if hasattr(training, "settings") else {}

"""What drives a cell's training: the suite's own loop in each framework, or a high-level interface on top of it.

Knows no framework: `suite.worker.frameworks` has one file `keras.py` for all, and so has a workload. An interface of
one framework has its file in that one's folder: `jax/nnx.py`, for which a workload has a file ``nnx.py``, and
`pytorch/lightning.py`, which trains the model of the workload's ``pytorch.py``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from suite.plan.cell import INTERFACES, USUAL_COMPILE, Cell
from suite.worker.frameworks import UnsupportedError
from workloads import registry
from workloads.lengths import FIXED

#: The module of each interface in `suite.worker.frameworks`; in a folder, if only that framework has it.
FILES = {"keras": "keras", "keras-fit": "keras", "nnx": "jax.nnx", "lightning": "pytorch.lightning"}
#: What an interface does not have, by the setting, and the ways out.
LACKS: dict[str, dict[str, str]] = {
    "keras": {
        "accumulate": "Keras' optimizers accumulate by a rule of their own; leave out --accumulate",
        "max": "Keras compiles PyTorch in one mode only; use eager or compile",
        "trace": "Keras does not trace PyTorch; use eager or compile",
    },
    "nnx": {
        "accumulate": "flax.nnx accumulates by optax' rule; leave out --accumulate",
        "fp16": "flax.nnx has no loss scale; use bf16",
        "cudnn": "flax.nnx has no layer for cuDNN's LSTM; leave out --kernel",
    },
    "lightning": {
        "accumulate": "Lightning accumulates over batches of the loader; leave out --accumulate",
        "fp16": "Lightning has a loss scale of its own in fp16; use bf16",
        **dict.fromkeys(("max", "trace"), "with Lightning the compile modes are eager and compile"),
        "recipe": "fit is timed in windows; train to the end with the interface native",
    },
}
LACKS["keras-fit"] = LACKS["keras"] | {
    "recipe": "fit is timed in windows; train to the end with the interface keras or native",
    "compiles otherwise": "with fit Keras itself chooses whether to compile; leave out --compile",
}
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


def load_interface(cell: Cell) -> ModuleType:
    """The interface's file for the cell's framework.

    Raises `UnsupportedError` where the framework has no such interface, or its package is not installed.
    """
    file = _file(cell)
    try:
        return import_module(f"suite.worker.frameworks.{file}")
    except ModuleNotFoundError as error:
        if (extra := (error.name or "").partition(".")[0]) not in EXTRAS:
            raise
        raise UnsupportedError(
            f"{EXTRAS[extra]} is not installed beside {cell.framework}; install the extra {extra} there, for example "
            f"pip install -e '.[{cell.framework}-cpu,{extra}]'"
        ) from None


def _file(cell: Cell) -> str:
    """The module of the interface. Raises `UnsupportedError` where the cell's framework has no such interface."""
    folder = FILES[cell.interface].rpartition(".")[0]
    if folder not in ("", cell.framework):
        raise UnsupportedError(f"{cell.interface} is an interface of {folder}, not of {cell.framework}")
    return FILES[cell.interface]


def tools(cell: Cell) -> ModuleType:
    """The file for the evidence of the cell."""
    return import_module(f"suite.worker.frameworks.{cell.framework}.evidence") if native(cell) else load_interface(cell)


def module(cell: Cell) -> ModuleType:
    """The workload's file for the cell. Raises `UnsupportedError` where the workload has none."""
    file = cell.framework if native(cell) else _file(cell).rpartition(".")[2]
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
    module = load_interface(cell)
    asked = {
        "accumulate": cell.accumulate > 1,
        cell.compile: True,
        "compiles otherwise": cell.compile != USUAL_COMPILE[cell.framework],
        "recipe": bool(cell.recipe),
        cell.precision: True,
        cell.kernel: True,
    }
    if reason := next((reason for what, reason in LACKS[cell.interface].items() if asked.get(what)), ""):
        raise UnsupportedError(reason)
    if cell.checkpointing == "on":
        raise UnsupportedError("gradient checkpointing is measured with the suite's own loop; leave out --interface")
    added: dict[str, Any] = module.prepare(cell, device, seed) if hasattr(module, "prepare") else {}
    return {"interface": cell.interface} | added


def distributions(cell: Cell) -> tuple[str, ...]:
    """The packages that the record names besides the framework's."""
    return () if native(cell) else tuple(load_interface(cell).DISTRIBUTIONS)


def describe_training(training: Any) -> dict[str, Any]:
    """The settings that are known once there is a model."""
    if training.cell.lengths != FIXED:  # where programs are made of several shapes
        return {"programs": training.programs}
    return training.settings() if hasattr(training, "settings") else {}

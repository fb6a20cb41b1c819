"""One folder per framework, with the same files and the same names in the same order, to be read side by side.

Functions that all have are described in PyTorch's files; the others say what is different. `training.py` has the step
that is measured, `device.py` what a framework says of its build, its devices and their memory, `optimizer.py` the
optimizers by the spec's formulas, `evidence.py` what only the evidence in a record and `suite.prove` ask for,
`inference.py` the model that serves, `devices.py` and `split.py` the strategies of several devices. `keras.py` drives
any of them. Importing this package imports none of them.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from suite.catalog.frameworks import FRAMEWORKS
from suite.catalog.precisions import PRECISIONS
from suite.catalog.settings import INTERFACES, LAYOUTS
from suite.plan.cell import Cell
from suite.plan.settings import allocators, tunings
from workloads.lengths import FIXED
from workloads.spec import Numbers, WorkloadSpec, read_declaration, specification

#: The number formats of each precision.
NUMBERS = {name: Numbers(each.compute, each.weights) for name, each in PRECISIONS.items()}

#: What the operations of a kernel are called, in any framework; without these a program has the workload's plain one.
KERNEL_MARKS = {
    "cudnn": r"_cudnn_rnn|CudnnRNN|(?m:^)rnn_fwd",
    "fused": r"scaled_dot_product|dot_product_attention",
}

#: Dynamic loss scaling in fp16, alike in all three: where it starts, and after how many finite steps it doubles.
LOSS_SCALE = 2.0**16
LOSS_SCALE_GROWTH_STEPS = 2000


def import_framework(name: str) -> ModuleType:
    """A framework's file, and with it the framework by itself.

    TensorFlow imports JAX where that is installed too, for a converter that nothing here uses: half a second and 109 MB
    of a launch (TensorFlow 2.21, n = 3).
    """
    alone = name == "tensorflow" and "jax" not in sys.modules
    if alone:
        sys.modules["jax"] = None  # type: ignore[assignment]  # so that importing it fails
    try:
        return import_module(f"{__name__}.{name}.training")
    finally:
        if alone:
            del sys.modules["jax"]


class UnsupportedError(RuntimeError):
    """A setting that this framework does not have on this device; the launch is skipped with the reason."""


class RecompiledError(RuntimeError):
    """A framework compiled inside a timed window, or would have to, so that the window would measure the compiler."""


def choose(
    cell: Cell, device: str, name: str, *, cuda: bool, installation: Callable[[], Mapping[str, Any]], other: str,
    modes: Iterable[str],
) -> str:  # fmt: skip
    """The device that a cell trains on, ``cpu`` or ``cuda``. Raises `UnsupportedError` with the reason.

    ``device`` is what was asked for, ``name`` the framework's full name, ``cuda`` whether it sees a CUDA device,
    ``other`` what it found besides that and a CPU, which is neither trained on nor passed over, empty if nothing, and
    ``modes`` the compile modes that it has.
    """
    if other and device != "cpu":
        raise UnsupportedError(f"{name} finds {other}, which the suite does not support yet; measure with --device cpu")
    if device == "cuda" and not cuda:
        version, built = (installation()[key] for key in ("version", "cuda"))
        if not built:
            raise UnsupportedError(f"{name} {version} was built without CUDA; install the extra {name.lower()}-cuda")
        raise UnsupportedError(f"{name} {version} for CUDA {built} sees no CUDA device")
    if device == "auto":
        device = "cuda" if cuda else "cpu"
    check(cell, device)
    if cell.compile not in modes:
        raise UnsupportedError(f"{name} has no compile mode {cell.compile!r}; it has {', '.join(modes)}")
    return device


def check(cell: Cell, device: str) -> None:
    """Refuse settings that no framework has on this device. Raises `UnsupportedError` with the reason."""
    if device == "cpu" and (reason := PRECISIONS[cell.precision].gpu_only):
        raise UnsupportedError(f"{reason}; this device is a CPU")
    declared = read_declaration(cell.workload)
    if cell.kernel not in ("auto", *declared.kernels):
        raise UnsupportedError(f"{cell.workload} has no layer whose kernel could be {cell.kernel}")
    if cell.kernel == "cudnn" and device == "cpu":
        raise UnsupportedError("cuDNN needs a CUDA device; this device is a CPU")
    if reason := allocators.lacking(cell, device) or tunings.lacking(cell):
        raise UnsupportedError(reason)
    if cell.threads and (device != "cpu" or cell.devices > 1):
        where = "a CPU" if device != "cpu" else "one device; --cores gives each of several its share"
        raise UnsupportedError(f"--threads is a setting of {where}")
    if device != "cpu" and (cell.cores or cell.bind):
        raise UnsupportedError(f"--{'cores' if cell.cores else 'bind'} is a setting of a CPU")
    if cell.layout != LAYOUTS[0]:
        if reason := FRAMEWORKS[cell.framework].one_layout:
            raise UnsupportedError(reason)
        if cell.devices > 1 or cell.interface != INTERFACES[0]:
            raise UnsupportedError(f"--layout is a setting of one device and of the interface {INTERFACES[0]}")
    if cell.checkpointing == "on" and declared.one_block:
        raise UnsupportedError(declared.one_block)
    if cell.lengths != FIXED and (reason := find_one_length(cell, declared)):
        raise UnsupportedError(f"batches of {cell.workload} have one length: {reason}")
    spec = specification(cell.workload, cell.size)
    if (cell.devices > 1 or cell.interface != INTERFACES[0]) and (spec.has_own or spec.optimizer.has_more):
        raise UnsupportedError(
            f"the optimizer of {cell.workload} is one of one device and of the interface {INTERFACES[0]}"
        )


def find_one_length(cell: Cell, declared: type[WorkloadSpec]) -> str:
    """Why the batches of a cell cannot have several lengths; empty if they can."""
    if declared.one_length:
        return declared.one_length
    if cell.devices > 1 or cell.interface != INTERFACES[0]:
        return f"several are a setting of one device and of the interface {INTERFACES[0]}"
    if cell.loader.kind in ("resident", "dali"):
        return f"the loader {cell.loader.kind} makes them by one program"
    return "trainings to the end have fixed ones" if cell.recipe else ""


def build(module: ModuleType, cell: Cell, *arguments: Any) -> Any:
    """The model of a workload's file, with what the cell asks of it that not every file has.

    ``arguments`` are the first ones of the file's `build`: spec, numbers, dropout and device.
    """
    asked = {
        "checkpointing": (cell.checkpointing == "on", "names no blocks"),
        "channels_first": (cell.layout == "channels-first", "has no convolutions whose layout could be chosen"),
        "synchronised": (
            cell.framework == "tensorflow" and cell.strategy == "synchronised", "cannot synchronise batch statistics"
        ),
        "any_length": (cell.framework == "tensorflow" and cell.lengths != FIXED, "has a model of one length"),
    }  # fmt: skip
    taken = signature(module.build).parameters
    for name, (wanted, lacks) in asked.items():
        if wanted and name not in taken:
            raise UnsupportedError(f"{cell.workload} {lacks}: build() in its {cell.framework}.py takes no {name}")
    return module.build(*arguments, cell.kernel, **{name: True for name, (wanted, _) in asked.items() if wanted})


def mark_tensors(spec: WorkloadSpec) -> dict[str, Any]:
    """Arrays like the weights, for `import_weights`, each full of the number of its tensor's decay, from 1 on.

    So `read_mark` knows what a framework has for which tensor. Empty where shapes say it.
    """
    import numpy as np  # here, since the doctor imports this file

    numbers = {decay: number for number, decay in enumerate(dict.fromkeys(spec.own_decays.values()), 1)}
    kinds = {name: numbers[decay] for name, decay in spec.own_decays.items()}
    return {each.name: np.full(each.shape, kinds[each.name], np.float32) for each in spec.tensors if kinds}


def read_mark(spec: WorkloadSpec, least: float, most: float, usual: float) -> float:
    """The decay of what holds these numbers after `mark_tensors`; ``usual`` where it is none of the spec's tensors.

    Raises `ValueError` for one array of tensors that decay differently.
    """
    decays = dict(enumerate(dict.fromkeys(spec.own_decays.values()), 1))
    if least in decays and most in decays and least != most:
        raise ValueError("one parameter holds tensors of the spec that differ in decay, or in being frozen")
    return decays.get(int(least), usual) if least == most == int(least) else usual


def count_threads(pool: str, tasks: Path = Path("/proc/self/task")) -> int:
    """How many threads of this process have a name that begins so; 0 where the system has no such list."""

    def name(task: Path) -> str:
        with suppress(OSError):  # it ends meanwhile
            return Path(task, "comm").read_text(encoding="utf-8")
        return ""

    return sum(name(task).startswith(pool) for task in tasks.iterdir()) if tasks.is_dir() else 0


def find_kernel(cell: Cell, operations: Iterable[str]) -> str:
    """Which of its workload's kernels a program has, by the names of its operations; ``auto`` if there is no choice."""
    kernels = read_declaration(cell.workload).kernels
    names = "\n".join(operations)
    shown = [kernel for kernel in kernels if kernel in KERNEL_MARKS and re.search(KERNEL_MARKS[kernel], names)]
    return next(iter(shown), kernels[-1] if kernels else "auto")


class BatchError(ValueError):
    """A batch that is not what a step of the cell takes."""


def check_batch(cell: Cell, samples: int) -> None:
    """Refuse a batch that a step would have to cut or to average otherwise than the cell says. Raises `BatchError`.

    Without accumulation a smaller one may pass, as in a proof: it is one batch, and its mean is taken.
    """
    full = cell.process_batch
    if samples > full or (cell.accumulate > 1 and samples != full):
        parts = f"{cell.accumulate} x {cell.batch} = {full}" if cell.accumulate > 1 else f"{full}"
        raise BatchError(f"a batch of {samples} samples, where a step of {cell.id} takes {parts}")

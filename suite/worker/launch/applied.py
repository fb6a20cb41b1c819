"""The settings of a cell as they were applied: read back from what ran, and only then held against what was asked for.

A variable or a library can undo a setting without a word: with ``TORCHDYNAMO_DISABLE=1``, `torch.compile` returns the
eager function. Each framework's file for evidence reads what the framework applies (`applied`), its files for several
devices the strategy (`group_settings`), and this file the others: from the process, the batches and the loader. A
setting that nothing reads ends the launch where it is not at its default, and so does a difference.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from platform import machine
from types import ModuleType
from typing import Any

import numpy as np

from suite.catalog.frameworks import FRAMEWORKS, READ_BY_ALL
from suite.catalog.loaders import Loader
from suite.catalog.settings import SETTINGS
from suite.catalog.versions import VERSION, version_key
from suite.plan.cell import MODEL_DIVIDED, TUNINGS, Cell
from suite.plan.settings.allocators import list_variables
from suite.plan.settings.frameworks import variables_of
from suite.plan.settings.tunings import ALLOCATOR, ARENAS, KEPT_MEMORY, flushes, host_memory
from suite.record.parts.environment import own_cores, select_variables
from suite.record.variables import CORES
from suite.worker import interfaces
from suite.worker.launch import compile_cache, pages
from suite.worker.launch.probe import BANDS
from suite.worker.loaders import tuned_workers
from workloads.data.augment import paddings
from workloads.lengths import FIXED, LENGTHS

#: Larger blocks than this glibc never takes from its heap by itself (`M_MMAP_THRESHOLD` in mallopt(3)).
HEAP_MOST_BYTES = 32 << 20

#: The products that show which threads compute, and the processor time that shows one.
PRODUCTS, SIDE, COMPUTED_NS = 4, 512, 200_000

#: The loaders whose number of prefetched batches is that of all workers together.
COUNT_EACH_WORKER = ("torch.utils.data.DataLoader", "grain")

#: Variables that the suite sets for every worker.
_SET_FOR_ALL = {"CUDA_DEVICE_ORDER", "JAX_PLATFORMS"}


class NotAppliedError(RuntimeError):
    """What ran is not what the cell asks for."""


@dataclass(frozen=True)
class Ran:
    """What a launch trains with, after it has made steps, and the evidence's ``subject``, which names its parts.

    ``settings`` has what was measured of denormal numbers and of the precision, and ``started`` the variables that the
    process started with.
    """

    subject: Any
    training: Any
    batch: Any
    loader: Any
    settings: Mapping[str, Any]
    started: Mapping[str, str]


def read_back(ran: Ran, cell: Cell) -> dict[str, Any]:
    """Every setting of the cell as it was applied, by name. Raises `NotAppliedError` where the cell asks for another.

    The cell itself says only in what parts a batch is taken, and which of several names one thing has.
    """
    subject, device = ran.subject, ran.subject.device
    *_, folder, file = type(ran.training).__module__.split(".")
    samples = len(ran.training.get(ran.batch)[1]) * (1 if cell.strategy in MODEL_DIVIDED else cell.processes)
    values: dict[str, Any] = {
        "workload": subject.spec.name,
        "framework": folder,
        "precision": _read_precision(ran.settings["precision_errors"], cell),
        "batch": _divide(samples, cell.accumulate * cell.devices),
        "loader": _read_loader(ran.loader, cell.loader, device).id,
        "size": subject.spec.size,
        "accumulate": _divide(samples, cell.batch * cell.devices),
        "recipe": cell.recipe if subject.recipe else "",
        "devices": 1,
        "strategy": "",
        "tuning": _read_tuning(cell, ran.settings["denormals"], device),
        "interface": {name: each for each, name in interfaces.FILES.items()}.get(f"{folder}.{file}", "native"),
        "release": _release(cell.framework),
        "format": ran.loader.settings.get("format", "memmap"),
        "pages": pages.read(cell, ran.loader),
        "lengths": _read_lengths(ran, cell),
        "cache": compile_cache.read(ran.settings),
        **(ran.training.group_settings() if hasattr(ran.training, "group_settings") else {}),
        **subject.tools.applied(ran.training, ran.batch),
    }
    cores = own_cores()
    if device == "cpu":
        values["threads"], cores = _read_threads(subject.framework, cell, values["threads"])
    placed = os.environ.get(CORES, "").split(",") == [*map(str, cores)]
    values |= {"cores": len(cores) * cell.processes // cell.devices, "bind": cell.bind if placed else ""}
    compare(cell, values, ran.started)
    return values


def compare(cell: Cell, applied: Mapping[str, Any], started: Mapping[str, str]) -> None:
    """Raises `NotAppliedError` where a setting is not applied as the cell asks, or where nothing has read it."""
    for name, setting in SETTINGS.items():
        asked = getattr(cell, name)
        asked = asked.id if isinstance(asked, Loader) else asked
        if name not in applied:
            if asked != setting.default:
                raise NotAppliedError(f"asked for {setting.title} {asked}, which nothing reads back from what ran")
        elif not (setting.leaves_open(asked) or _is_same(cell, name, applied[name])):
            causes = _find_causes(cell, started)
            raise NotAppliedError(f"asked for {setting.title} {asked}, but {applied[name]} is in force; {causes}")


def check_release(cell: Cell) -> dict[str, Any]:
    """What a record of a cell with a release says of it, once the framework is imported; nothing without one.

    Raises `NotAppliedError` for another one than the cell's.
    """
    version = _release(cell.framework)
    if cell.release and not _is_same(cell, "release", version):
        raise NotAppliedError(
            f"asked for {cell.framework} {cell.release}, but {version} is installed there; build it anew: "
            f"training-suite releases {cell.framework} --remove {cell.release}"
        )
    return {"release": version} if cell.release else {}


def _is_same(cell: Cell, name: str, applied: Any) -> bool:
    asked = getattr(cell, name)
    if name == "release":  # whose build's own mark (``+cpu``) does not count
        public = str(applied).partition("+")[0]
        return re.fullmatch(VERSION, public) is not None and version_key(public) == version_key(asked)
    if name == "compile" and cell.interface == "keras-fit":
        return True  # as Keras chooses
    return bool(applied == (asked.id if isinstance(asked, Loader) else asked))


def _divide(samples: int, parts: int) -> float:
    return samples / parts if samples % parts else samples // parts


def _find_causes(cell: Cell, started: Mapping[str, str]) -> str:
    """The variables that can be the cause, in words: those that the framework reads, and that the suite did not set."""
    reads = (*READ_BY_ALL, *FRAMEWORKS[cell.framework].reads, *(("KERAS_",) if "keras" in cell.interface else ()))
    own, replaced = host_memory(cell) | variables_of(cell), {*_SET_FOR_ALL, *list_variables(cell)}
    given = {name: value for name, value in select_variables(started).items() if name not in replaced}
    words = [f"{name}={value}" for name, value in given.items() if own.get(name) != value and name.startswith(reads)]
    return f"see {', '.join(words)} in the environment" if words else "no variable in the environment says so"


def _read_precision(errors: Mapping[str, float], cell: Cell) -> str:
    """The precision whose band has these errors; of several the cell's."""
    fitting = [name for name, band in BANDS.items() if errors["product"] in band and errors["convolution"] in band]
    return cell.precision if cell.precision in fitting else next(iter(fitting), "none of the known formats")


def _read_loader(loader: Any, asked: Loader, device: str) -> Loader:
    """The loader that runs; a tuned one may have as many workers as another that was asked for."""
    kind, made = type(loader).__name__.lower(), loader.settings
    workers = made["workers"]
    if kind == "tuned" and (
        workers == asked.workers if asked.kind == "workers" else workers not in ("autotune", tuned_workers(device))
    ):
        kind = "workers"
    for_each = workers if made["kind"] in COUNT_EACH_WORKER and workers else 1
    prefetch = made["prefetch"] if for_each == 1 else made["prefetch"] // for_each
    values = {"prefetch": prefetch, "pin_memory": made["pin_memory"], "cache": made["cache"]}
    chosen = {name: value for name, value in values.items() if getattr(asked, name) is not None}
    return Loader(kind, workers if kind == "workers" else 0, **chosen)


def _read_lengths(ran: Ran, cell: Cell) -> str:
    """The lengths that fit a batch and its longest sample; of several the cell's."""
    if ran.subject.spec.one_length:
        return FIXED
    inputs, _ = ran.training.get(ran.batch)
    longest = int(np.count_nonzero(inputs, axis=1).max())
    fitting = [each for each in LENGTHS if paddings(each, ran.subject.spec.length)[longest] == inputs.shape[1]]
    return cell.lengths if cell.lengths in fitting else next(iter(fitting), "none of the known ones")


def _read_tuning(cell: Cell, denormals: str, device: str) -> str:
    """The tuning that fits what glibc and the processor do; of several the cell's.

    Where a tuning sets nothing, the user's own variables stand. A process without tcmalloc or huge pages that are asked
    for has ended before (`suite.plan.settings.tunings.lacking`). On other processors than x86, PyTorch may lack the
    switch for denormal numbers.
    """
    kept, heaps = _read_heap()
    own = {name: value for name, value in os.environ.items() if name.startswith(ALLOCATOR)}
    is_own = bool(own.items() - KEPT_MEMORY.items() - {(ARENAS, own.get(ARENAS))})
    flushed = denormals != "kept" or device != "cpu" or cell.framework != "pytorch" or machine() != "x86_64"

    def fits(tuning: str) -> bool:
        tuned = cell.but(tuning=tuning)
        wanted = host_memory(tuned)
        keeps = KEPT_MEMORY.keys() <= wanted.keys()
        return (
            (kept in (None, keeps) or (is_own and not keeps))
            and (heaps is None or heaps <= int(wanted.get(ARENAS, heaps)))
            and (flushed or not flushes(tuned))
            and (tuning == cell.tuning or tuning not in ("tcmalloc", "hugepages"))
        )

    fitting = [tuning for tuning in TUNINGS if fits(tuning)]
    return cell.tuning if cell.tuning in fitting else next(iter(fitting), "none of the known ones")


class _Mallinfo2(ctypes.Structure):
    """The structure of mallinfo(3)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"
        )
    )  # fmt: skip


def _read_heap() -> tuple[bool | None, int | None]:
    """Whether glibc takes large blocks from its heap, which keeps them, and how many heaps it has.

    None for both where another library allocates, or an older one.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2") or re.search("tcmalloc|jemalloc|mimalloc", Path("/proc/self/maps").read_text()):
        return None, None
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    libc.malloc.restype = libc.open_memstream.restype = pointer
    libc.mallinfo2.restype = _Mallinfo2
    block = libc.malloc(size(2 * HEAP_MOST_BYTES))
    mapped = libc.mallinfo2().hblks  # how many blocks have a mapping of their own
    libc.free(pointer(block))
    text, length = ctypes.c_char_p(), size()
    stream = pointer(libc.open_memstream(ctypes.byref(text), ctypes.byref(length)))
    libc.malloc_info(0, stream)
    libc.fclose(stream)
    heaps = (text.value or b"").count(b"<heap nr=")
    libc.free(text)
    return not mapped if block else None, heaps


def _read_threads(framework: ModuleType, cell: Cell, threads: int) -> tuple[int, list[int]]:
    """The threads that compute, and the cores on which they may run.

    A framework's own number goes for what it says, unless one thread computes alone: a limit of OpenMP's or a switch of
    XLA's leaves the pool as large as it was.
    """
    numbers = np.ones((SIDE, SIDE))

    def multiply() -> None:
        framework.product(cell.but(precision="fp32"), "cpu", numbers, numbers)

    multiply()  # which compiles
    before = _list_times()
    for _ in range(PRODUCTS):
        multiply()
    spent = {task: time_ns - before.get(task, 0) for task, time_ns in _list_times().items()}
    computed = [task for task, time_ns in spent.items() if time_ns >= COMPUTED_NS]
    cores: set[int] = set()
    for task in computed:
        with suppress(ProcessLookupError):
            cores |= os.sched_getaffinity(task)
    return 1 if len(computed) == 1 else threads, sorted(cores) or own_cores()


def _list_times(tasks: Path = Path("/proc/self/task")) -> dict[int, int]:
    """The processor time of each thread in nanoseconds; none where the system does not tell it."""
    times = {}
    for task in tasks.iterdir() if tasks.is_dir() else ():
        with suppress(OSError, IndexError):
            times[int(task.name)] = int((task / "schedstat").read_text(encoding="utf-8").split()[0])
    return times


def _release(framework: str) -> str:
    return str(getattr(sys.modules.get(FRAMEWORKS[framework].package), "__version__", "none"))

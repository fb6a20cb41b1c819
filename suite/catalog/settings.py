"""The settings of a cell, each declared once: values, default, option, id, words, columns and order.

A further setting is one more `Setting` in `SETTINGS`, here or by an entry point of an installed package, and whatever
the frameworks' files do with it.
"""

from __future__ import annotations

import re
from dataclasses import MISSING
from typing import Any

from suite.catalog import load_installed
from suite.catalog.frameworks import COMPILES, FRAMEWORKS, NOT_MEASURED, STRATEGIES
from suite.catalog.loaders import LOADERS, Loader
from suite.catalog.precisions import PRECISIONS, default_precisions
from suite.catalog.setting import Count, Loaders, Releases, Setting, Variants
from suite.catalog.versions import VERSION
from workloads.spec import WORKLOADS, read_declaration

SIZES = ("full", "small")
RECIPES = ("study", "modern", "no-dropout", "linear", "lars", "lamb")
ALLOCATORS = ("default", "cudaMallocAsync", "expandable", "preallocated", "unified")
#: Allocator and denormal settings on a CPU (see `suite.plan.settings.tunings`), from none to all that help, and more.
TUNINGS = ("default", "memory", "arenas", "denormals", "tcmalloc", "recommended", "hugepages")
#: What drives a training: the suite's own loop in the framework, Keras on it, by `train_on_batch` or by `fit`, or
#: another library of the framework's.
INTERFACES = ("native", "keras", "keras-fit", "nnx", "lightning")
#: The memory layouts of images, the usual one first.
LAYOUTS = ("channels-last", "channels-first")
#: How samples are stored, the usual one first (`workloads.data.formats`).
FORMATS = ("memmap", "files", "shards")
#: Where the cores of a CPU lie that a launch may use (`suite.session.launches.ranks`).
COMPACT, SPREAD = BINDINGS = ("compact", "spread")
#: The kernels of each workload that has a choice, besides ``auto``, the framework's own.
KERNELS_OF = {name: kernels for name in WORKLOADS if (kernels := read_declaration(name).kernels)}
KERNELS = ("auto", *dict.fromkeys(kernel for kernels in KERNELS_OF.values() for kernel in kernels))
#: The names of workloads from outside of the repository (`workloads.registry`). A stored one imports nothing.
OWN_WORKLOAD = re.compile(r"(own|script)_[a-z][a-z0-9_]{0,39}")
#: How the name of a reader's own script begins, as a workload (`suite.script`).
SCRIPT = "script_"


def _some(choices: tuple[str, ...] | dict[str, Any]) -> str:
    return f"one or more of: {', '.join(choices)}"


def _each(lists: dict[str, list[str]]) -> str:
    return "; ".join(f"{name}: {', '.join(values)}" for name, values in lists.items())


_USUAL = ", ".join(each.compiles[0] for each in FRAMEWORKS.values())
_USUAL_MODES = " and ".join(_USUAL.rsplit(", ", 1))
_MEASURED = {
    name: [strategy for strategy in each.strategies if strategy not in NOT_MEASURED]
    for name, each in FRAMEWORKS.items()
}
_USUAL_STRATEGIES = [each.usual_strategy or next(iter(each.strategies), "") for each in FRAMEWORKS.values()]

_ALL = (
    Setting(
        name="workload", default=MISSING, choices=tuple(WORKLOADS), pattern=OWN_WORKLOAD.pattern,
        help=_some(WORKLOADS), meaning="name of the workload", is_always_named=True, is_choice=False,
    ),
    Setting(
        name="framework", default=MISSING, choices=tuple(FRAMEWORKS), help=_some(FRAMEWORKS),
        meaning=" or ".join(", ".join(f"`{name}`" for name in FRAMEWORKS).rsplit(", ", 1)),
        sort_place=7, is_always_named=True, is_choice=False,
    ),
    Setting(
        name="precision", default="fp32", choices=tuple(PRECISIONS), help=f"{_some(PRECISIONS)} (default: fp32)",
        meaning="number format", words="{}", sort_place=1, is_always_named=True,
        search=(",".join(default_precisions(gpu=False)), ",".join(default_precisions(gpu=True))),
    ),
    Count(
        name="batch", default=32, counts="a number of samples, or auto", is_found=True, example_counts="32,64",
        help="samples per step, such as 32,64; auto searches for the largest batch that fits", unit="samples",
        meaning="samples per step; empty if the largest batch that fits was searched for", title="batch size",
        short="b{}", sort_place=2, is_always_named=True,
        starts_at_default=False, saves_memory=True, search=("32,64,128", "128,512,2048"),
    ),
    Setting(
        name="compile", choices=COMPILES, is_of_framework=True, meaning="compile mode", title="compile mode",
        help=f"{_some(('usual', *COMPILES))}. Each framework takes those that it has "
        f"({_each({name: [*each.compiles] for name, each in FRAMEWORKS.items()})}); a framework that has none of them "
        f"is reported as unsupported (default: usual, which is {_USUAL_MODES})",
        words="{}", subject="compile mode {}", sort_place=8,
        is_always_named=True, search=("usual,compile", "usual,compile,max"),
    ),
    Loaders(
        name="loader", default=Loader(), choices=LOADERS, meaning="loader that made the batches",
        help=f"{_some(tuple('w2' if name == 'workers' else name for name in LOADERS))}, where w2 stands for any number "
        "of workers; with settings: tuned-prefetch4, w2-unpinned-cached (default: tuned)", sort_place=4,
        is_always_named=True, search=("tuned,w2,resident", "tuned,w4,resident"),
    ),
    Setting(
        name="size", default="full", choices=SIZES, id_place=3, sort_place=0, is_choice=False,
        help="of the workloads: full, small (for slow CPUs; another workload, which is never compared with full)",
        meaning="`full`, or `small`, a smaller network that is a workload of its own",
    ),
    Count(
        name="accumulate", default=1, counts="a number of batches per update, at least 1", example_counts="1,4",
        help="batches per update, such as 1,4 (default: 1)", meaning="batches per update", unit="batches",
        title="accumulation", words="accumulating {}", subject="accumulating {} batches", short="a{}", sort_place=3,
        saves_memory=True,
    ),
    Setting(
        name="kernel", default="auto", choices=KERNELS, help=f"of the LSTM or the attention, {_some(KERNELS)} "
        "(default: auto)", meaning="kernel of the LSTM", left_open="auto",
    ),
    Setting(
        name="recipe", choices=RECIPES, help="", id_place=4, is_swept=False, is_choice=False,
        meaning="recipe of a cell that trained to its end; empty if steps were timed",
    ),
    Count(
        name="devices", default=1, counts="a number of devices, at least 1", unit="devices",
        help="of this machine that train one model together, such as 1,2: GPUs, or on a CPU processes that share its "
        "cores; --batch is that of each (default: 1)",
        meaning="devices that trained one model together; `batch` is that of each", title="number of devices",
        words="{} devices", short="d{}", id_place=1,
        sort_place=6, is_later=True, is_choice=False,
    ),
    Setting(
        name="strategy", choices=tuple(STRATEGIES), is_of_framework=True, id_place=1, sort_place=9, is_later=True,
        help=f"how several devices train together, one or more of: usual, {_each(_MEASURED)}. Each framework takes "
        f"those that it has; {' and '.join(NOT_MEASURED)} is reported as unsupported (default: usual, which is "
        f"{', '.join(_USUAL_STRATEGIES)})",
        meaning="how several devices trained together; empty for one",
    ),
    Setting(
        name="checkpointing", default="off", choices=("off", "on"), is_later=True, saves_memory=True,
        help="whether the backward pass computes the activations inside each block of the model again instead of "
        "keeping them, which saves memory and costs time: off, on (default: off)",
        meaning="whether the backward pass computed activations again: `off` or `on`", title="gradient checkpointing",
    ),
    Setting(
        name="allocator", default="default", choices=ALLOCATORS, is_later=True, saves_memory=True,
        help=f"of a GPU's memory, {_some(ALLOCATORS)}; what a framework lacks, and all but default on a CPU, is "
        "reported as unsupported (default: default)", meaning="allocator of the GPU's memory that was asked for",
        left_open="default",
    ),
    Setting(
        name="tuning", default="recommended", choices=TUNINGS, is_later=True, starts_at_default=False,
        help=f"allocator and denormal settings on a CPU, {_some(TUNINGS)}. default sets none; recommended sets those "
        "that help (freed memory is kept, PyTorch flushes denormal numbers); memory, arenas, denormals and tcmalloc "
        "set one each, and hugepages adds huge pages to recommended (default: recommended)",
        meaning="allocator and denormal settings on a CPU: `recommended`, `default`, one of them, or `hugepages`",
        former={"known": "recommended", "installed": "default"},
    ),
    Setting(
        name="interface", default="native", choices=INTERFACES, is_later=True, id_place=2,
        help=f"what drives the training, {_some(INTERFACES)}. native is the suite's own loop; keras is Keras' "
        "train_on_batch on the framework as its backend, keras-fit its fit; nnx is flax.nnx, in JAX only, and "
        "lightning Lightning's fit, in PyTorch only (default: native)",
        meaning="what drove the training: the suite's own loop, or Keras on the framework",
    ),
    Count(
        name="threads", default=0, counts="a number of threads, or auto", is_found=True, is_later=True,
        help="that compute on a CPU, such as 1,2,4; auto leaves them to the framework (default: auto)", unit="threads",
        meaning="threads that computed on a CPU; empty where the framework chose", title="number of threads",
        words="{} threads", short="t{}",
    ),
    Count(
        name="cores", default=0, counts="a number of cores, or auto", is_found=True, is_later=True, unit="cores",
        help="of a CPU that each device may use, such as 1,2; auto gives one device all, and several their share "
        "(default: auto)", meaning="cores of a CPU that each device was given; empty for all, or their share",
        title="number of cores", words="{} cores", short="c{}",
    ),
    Setting(
        name="bind", default="", choices=BINDINGS, is_later=True, title="placement on cores", words="{}", left_open="",
        help="a launch to cores of a CPU: compact takes both hardware threads of a core before the next core, spread "
        "one of each core, over all sockets, and the others only if --cores asks for more; usual leaves it to the "
        "system, or takes cores by their numbers (default: usual)", subject="{} cores",
        meaning="how the cores of a CPU were chosen; empty where they were not",
    ),
    Setting(
        name="layout", default=LAYOUTS[0], choices=LAYOUTS, is_later=True, title="memory layout", words="{}",
        help=f"of images in memory, {_some(LAYOUTS)}; unsupported where the framework chooses (default: {LAYOUTS[0]})",
        meaning="layout of images in memory", subject="{} memory",
    ),
    Setting(
        name="format", default=FORMATS[0], choices=FORMATS, is_later=True, title="storage format", short="{}",
        help="in which the training samples are stored, one or more of: memmap (mapped arrays), files (one for each "
        "sample, a PNG if it is an image), shards (TFRecord in TensorFlow, a tar read by webdataset in PyTorch, "
        "ArrayRecord in JAX); all deliver the same batches, and decoding is part of loading (default: memmap)",
        meaning="format in which the training samples were stored", subject="the format {}",
    ),
    Setting(
        name="pages", default="warm", choices=("warm", "cold"), is_later=True, is_choice=False, left_open="warm",
        help="of the training samples' files in the system's page cache: warm leaves them as they are, cold drops them "
        "before each phase that loads (default: warm)", title="page cache", words="{} pages", subject="{} pages",
        meaning="whether the files of the training samples were dropped from the page cache: `cold`, or `warm`",
    ),
    Setting(
        name="cache", choices=("cold", "warm"), is_later=True, is_choice=False, starts_at_default=False, left_open="",
        help="of compiled programs (torch.compile's, XLA's) that a launch starts with: cold is empty, warm was filled "
        "by a launch of the same cell that is not recorded. Without --compile, the usual mode and compile are measured "
        "(default: none in JAX and TensorFlow, an empty one in PyTorch)", title="compile cache", words="{} cache",
        subject="a {} cache", short="{}-cache",
        meaning="compile cache with which a launch started: `cold`, `warm`, or empty where none was asked for",
    ),
    Releases(
        name="release", pattern=VERSION, is_of_framework=True, is_later=True, starts_at_default=False, left_open="",
        help="of frameworks, such as jax=0.9.2,0.10.2 or pytorch=newest, each in an environment of its own that is "
        "built once; may be repeated. installed stands for the usual environment. Without --framework, the frameworks "
        "that are named here are measured (default: installed)",
        meaning="release of the framework that was asked for; empty for the environment that is installed",
        words="release {}", subject="release {}", short="{}",
        id_place=5, sort_place=10,
    ),
    Variants(
        name="variant", pattern=r"[A-Za-z0-9_.,:=+@%~-]{1,120}", is_later=True, is_of_script=True, left_open="",
        help="", meaning="what differs from the script as it is, of a row of your own script", words="{}",
        subject="{}", short="{}", id_place=6, sort_place=10,
    ),
)  # fmt: skip

#: By name, in the order of the fields of `suite.plan.cell.Cell`.
SETTINGS: dict[str, Setting] = {each.name: each for each in (*_ALL, *load_installed("settings"))}

#: In the order of an id.
BY_ID = tuple(sorted(SETTINGS.values(), key=lambda each: each.id_place))

#: The options that take lists of values, and the axes of a sweep.
SWEPT = tuple(name for name, each in SETTINGS.items() if each.is_swept and not each.is_of_script)

#: Whose values are a framework's own, so that each framework has its usual one.
OF_A_FRAMEWORK = tuple(name for name, each in SETTINGS.items() if each.is_of_framework)

#: What tells the rows of one table apart besides the framework: the workload and the recipe have tables of their own.
#: The size, which belongs to the workload, comes first.
OF_ROWS = ("size", *(name for name in SETTINGS if name not in ("workload", "framework", "size", "recipe")))

#: The settings of a row of a reader's own script: the others are the script's own affair.
OF_SCRIPTS = tuple(name for name, each in SETTINGS.items() if each.is_of_script)

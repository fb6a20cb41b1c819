"""What may make a training faster without a change of its code: environment variables, by the names of ``--try``.

The settings of the suite's own cells that are variables (`tunings`, `allocators`), and those that need no setting of
the suite's, as a process has them from its start. Those of a GPU have not run on one yet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from suite.catalog.frameworks import FRAMEWORKS
from suite.plan.settings.allocators import CHOSEN_BY
from suite.plan.settings.tunings import ARENAS, HUGE_PAGES, KEPT_MEMORY, ONE_ARENA, TCMALLOC

#: The variables that say how many threads compute, by framework.
THREADS = {
    "pytorch": ("OMP_NUM_THREADS", "MKL_NUM_THREADS"),
    "tensorflow": ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS"),
    "jax": FRAMEWORKS["jax"].thread_variables,
}
#: Half of fewer cores than this is next to one.
HALVED_LEAST = 4
#: PyTorch before 2.9 reads this one alone.
OLDER = {"PYTORCH_ALLOC_CONF": "PYTORCH_CUDA_ALLOC_CONF"}


@dataclass(frozen=True)
class Switch:
    """Variables under a name. ``changes_numbers`` says that the arithmetic is another, so that losses differ."""

    name: str
    variables: Mapping[str, str]
    on_gpu: bool = False
    changes_numbers: bool = False

    def may_help(self, device: str, environment: Mapping[str, str]) -> bool:
        """Whether a training on this device can feel it, whose environment chooses nothing of it itself."""
        there = self.variables.get("LD_PRELOAD") != TCMALLOC or _has_library(TCMALLOC)
        chosen = any(name in environment for name in self.variables)
        return there and not chosen and not self.changes_numbers and (device == "cuda" or not self.on_gpu)


def list_switches(framework: str, cores: int = 2 * HALVED_LEAST, ranks: int = 2) -> dict[str, Switch]:
    """The switches of a framework's trainings by name: of so many ranks, which share so many cores."""
    return {each.name: each for each in _find_switches(framework, cores // ranks, shares=ranks > 1)}


def _find_switches(framework: str, cores: int, shares: bool) -> Iterator[Switch]:
    yield Switch("kept-memory", KEPT_MEMORY)
    yield Switch("one-arena", {ARENAS: ONE_ARENA})
    yield Switch("tcmalloc", {"LD_PRELOAD": TCMALLOC})
    yield Switch("hugepages", HUGE_PAGES)
    threads = THREADS.get(framework, THREADS["pytorch"])
    yield Switch("one-thread", dict.fromkeys(threads, "1"))
    if shares and cores > 1:  # torchrun gives each rank one
        yield Switch("own-cores", dict.fromkeys(threads, str(cores)))
    if cores >= HALVED_LEAST:
        yield Switch("half-threads", dict.fromkeys(threads, str(cores // 2)))
    if framework == "pytorch":
        yield Switch("passive-threads", {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"})
        yield Switch("bound-threads", {"OMP_PROC_BIND": "close", "OMP_PLACES": "cores"})
        tf32 = dict.fromkeys(("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "NVIDIA_TF32_OVERRIDE"), "1")
        yield Switch("tf32", tf32, on_gpu=True, changes_numbers=True)
    if framework == "tensorflow":
        yield Switch("xla-clusters", {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"})
    for name, variables in CHOSEN_BY.get(framework, {}).items():
        if variables:
            older = {OLDER[each]: value for each, value in variables.items() if each in OLDER}
            yield Switch(name, {**variables, **older}, on_gpu=True)


def _has_library(name: str) -> bool:
    folders = ("/usr/lib", "/usr/lib64", "/lib", "/usr/local/lib", *os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    return any(path for folder in filter(None, folders) for path in Path(folder).glob(f"**/{name}"))

"""The conditions that a launch ran under besides the machine: versions, variables, threads, cores, a workload's code.

Variables that the suite itself sets, for one framework only (`suite.plan.settings.frameworks.VARIABLES`) or for the
allocator that a cell asks for, are none of them, and neither is what a record of the first schemas does not contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from suite.catalog.frameworks import FRAMEWORKS
from suite.plan.settings.allocators import list_variables
from suite.plan.settings.frameworks import VARIABLES
from suite.record.record import Record
from suite.record.text import clean

UNSET = "unset"

#: The Python files of a workload from outside, by the begin of their digest.
CODE, CODE_SHOWN = "the workload's files", 12

_OWN = {name for variables in VARIABLES.values() for name in variables}
#: What changes no speed: how much is printed, set by TensorFlow's import; that NVML is asked for a GPU, by DeepSpeed's;
#: and what extensions of PyTorch are built for, which images for GPUs set.
_IDLE = {"TF_CPP_MIN_LOG_LEVEL", "PYTORCH_NVML_BASED_CUDA_CHECK", "TORCH_CUDA_ARCH_LIST"}

#: Keras sets it on every backend when it is imported, and only TensorFlow reads it.
_OF_TENSORFLOW = {"TF_FORCE_GPU_ALLOW_GROWTH"}

#: The cores on which the threads that compute may run, and whether there are as many threads as cores. Every framework
#: says both, from the first records on that hold settings as applied.
CORES, THREADS = "cores in use", "threads in use"

#: The settings that change the speed, and what they are called.
_SETTINGS = {
    "memory_fraction": "share of the GPU's memory",
    "cuda_graphs": "CUDA graphs",
    "jit_compile": "compiling by Keras",
}

Facts = dict[str, str]


def facts(record: Record) -> Facts:
    """The conditions that a record says its launch ran under, by name."""
    environment = record.environment
    values = {"Python": environment.get("python"), **_mapping(environment.get("packages"))}
    foreign = set() if record.cell.framework == "tensorflow" else _OF_TENSORFLOW
    own = _OWN | _IDLE | list_variables(record.cell) | foreign
    variables = {name: value for name, value in _mapping(environment.get("variables")).items() if name not in own}
    values |= {f"${name}": value for name, value in variables.items()}
    values |= {words: record.settings.get(name) for name, words in _SETTINGS.items()}
    if files := record.workload.get("files"):
        values[CODE] = str(files)[:CODE_SHOWN]
    if isinstance(graphs := values["CUDA graphs"], bool):
        values["CUDA graphs"] = "on" if graphs else "off"
    values |= _threads(record)
    return {clean(name, 60): clean(value, 80) for name, value in values.items() if value is not None}


def _threads(record: Record) -> dict[str, Any]:
    """The threads that computed, and how many for the cores.

    By itself a framework takes one a core, or hardware thread, for which TensorFlow's records once had 0.
    """
    machine, applied = _mapping(record.environment.get("machine")), _mapping(record.settings.get("applied"))
    threads, cores = applied.get("threads", record.settings.get("threads")), record.settings.get("cores")
    usable = cores or machine.get("cores")
    threads = usable if threads == 0 else threads
    variables = _mapping(record.environment.get("variables"))
    limits = [variables.get(name, "") for name in FRAMEWORKS[record.cell.framework].thread_limits]
    if isinstance(threads, int):
        threads = min([threads, *(int(limit) for limit in limits if limit.isdecimal())])
    if not applied or record.settings.get("device") != "cpu" or not isinstance(usable, int):
        return {"threads": threads}
    least = -(-usable // (machine.get("threads_per_core") or 1))
    as_usual = isinstance(threads, int) and least <= threads <= usable
    return {
        "threads": threads, CORES: applied.get("cores"),
        THREADS: "one a core" if as_usual else f"{threads} for {usable} cores",
    }  # fmt: skip


@dataclass(frozen=True)
class Conditions:
    """All values of each fact over some launches, and whether any of these launches recorded its variables.

    ``read_back`` says whether all of them hold their settings as they were applied.
    """

    values: dict[str, list[str]]
    variables_recorded: bool
    read_back: bool = False

    def of(self, name: str) -> list[str]:
        """The values of a fact in their order; a variable that no launch has is unset in all."""
        return self.values.get(name) or ([UNSET] if name.startswith("$") and self.variables_recorded else [])


def conditions(records: Iterable[Record]) -> Conditions:
    """All values of each fact over these launches; a variable that only some of them have is unset in the others."""
    known = [record for record in records if record.environment]
    launches = [(facts(record), isinstance(record.environment.get("variables"), Mapping)) for record in known]
    values = {}
    for name in dict.fromkeys(name for launch_facts, _ in launches for name in launch_facts):
        recorded = [
            (launch_facts.get(name, UNSET), has_variables)
            for launch_facts, has_variables in launches
            if name in launch_facts or name.startswith("$")
        ]
        values[name] = sorted({value for value, has_variables in recorded if has_variables or value != UNSET})
    read_back = bool(known) and all(record.settings.get("applied") for record in known)
    return Conditions(values, any(has_variables for _, has_variables in launches), read_back)


def _mapping(data: Any) -> dict[str, Any]:
    return {str(name): value for name, value in data.items()} if isinstance(data, Mapping) else {}

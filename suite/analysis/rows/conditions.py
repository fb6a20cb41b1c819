"""The conditions that a launch ran under besides the machine: versions, variables, threads and a workload's own code.

Variables that the suite itself sets, for one framework only (`suite.plan.settings.frameworks.VARIABLES`) or for the
allocator that a cell asks for, are none of them, and neither is what a record of the first schemas does not contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from suite.plan.settings.allocators import list_variables
from suite.plan.settings.frameworks import VARIABLES
from suite.record.record import Record
from suite.record.text import clean

UNSET = "unset"

#: The Python files of a workload from outside, by the begin of their digest.
CODE, CODE_SHOWN = "the workload's files", 12

_OWN = {name for variables in VARIABLES.values() for name in variables}
#: What changes no speed, and is set at an import: how much is printed, by TensorFlow, and that NVML is asked for a GPU,
#: by DeepSpeed.
_OF_IMPORTS = {"TF_CPP_MIN_LOG_LEVEL", "PYTORCH_NVML_BASED_CUDA_CHECK"}

#: Keras sets it on every backend when it is imported, and only TensorFlow reads it.
_OF_TENSORFLOW = {"TF_FORCE_GPU_ALLOW_GROWTH"}

#: The settings that change the speed, and what they are called.
_SETTINGS = {
    "threads": "threads",
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
    own = _OWN | _OF_IMPORTS | list_variables(record.cell) | foreign
    variables = {name: value for name, value in _mapping(environment.get("variables")).items() if name not in own}
    values |= {f"${name}": value for name, value in variables.items()}
    values |= {words: record.settings.get(name) for name, words in _SETTINGS.items()}
    if files := record.workload.get("files"):
        values[CODE] = str(files)[:CODE_SHOWN]
    if isinstance(graphs := values["CUDA graphs"], bool):
        values["CUDA graphs"] = "on" if graphs else "off"
    if values["threads"] == 0:  # TensorFlow's way to say one per core
        values["threads"] = record.settings.get("cores") or _mapping(environment.get("machine")).get("cores")
    return {clean(name, 60): clean(value, 80) for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Conditions:
    """All values of each fact over some launches, and whether any of these launches recorded its variables."""

    values: dict[str, list[str]]
    variables_recorded: bool

    def of(self, name: str) -> list[str]:
        """The values of a fact in their order; a variable that no launch has is unset in all."""
        return self.values.get(name) or ([UNSET] if name.startswith("$") and self.variables_recorded else [])


def conditions(records: Iterable[Record]) -> Conditions:
    """All values of each fact over these launches; a variable that only some of them have is unset in the others."""
    launches = [(facts(r), isinstance(r.environment.get("variables"), Mapping)) for r in records if r.environment]
    values = {}
    for name in dict.fromkeys(name for launch_facts, _ in launches for name in launch_facts):
        recorded = [
            (launch_facts.get(name, UNSET), has_variables)
            for launch_facts, has_variables in launches
            if name in launch_facts or name.startswith("$")
        ]
        values[name] = sorted({value for value, has_variables in recorded if has_variables or value != UNSET})
    return Conditions(values, any(has_variables for _, has_variables in launches))


def _mapping(data: Any) -> dict[str, Any]:
    return {str(name): value for name, value in data.items()} if isinstance(data, Mapping) else {}

"""The conditions that launches ran under besides the machine (versions, variables, threads), and how rows differ.

Variables that the suite itself sets, for one framework only (`suite.plan.frameworks.VARIABLES`) or for the allocator
that a cell asks for, are no difference, and neither is what a record of the first schemas does not contain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from suite.analysis.groups import Row
from suite.plan.allocators import chosen
from suite.plan.frameworks import VARIABLES, host_memory
from suite.record.record import Record
from suite.record.text import clean

UNSET = "unset"

#: Variables that change the numbers, not only the speed: rows in which they differ get no ratio.
ARITHMETIC = re.compile(
    r"NVIDIA_TF32_OVERRIDE|JAX_(ENABLE_X64|DEFAULT_MATMUL_PRECISION)|(ONE)?DNN(L)?_DEFAULT_FPMATH_MODE"
    r"|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|XLA_FLAGS|TF_XLA_FLAGS|CUBLAS_EMULATE.*"
)

_OWN = {name for variables in VARIABLES.values() for name in variables}
#: What changes no speed, and is set at an import: how much is printed, by TensorFlow, and that NVML is asked for a GPU,
#: by DeepSpeed.
_OF_IMPORTS = {"TF_CPP_MIN_LOG_LEVEL", "PYTORCH_NVML_BASED_CUDA_CHECK"}

#: Keras sets it on every backend when it is imported, and only TensorFlow reads it.
_OF_TENSORFLOW = {"TF_FORCE_GPU_ALLOW_GROWTH"}

#: Packages that all frameworks share. Others are compared within a framework only, as are threads on a GPU.
_SHARED = ("numpy",)

#: The settings that change the speed, and what they are called.
_SETTINGS = {
    "threads": "threads",
    "memory_fraction": "share of the GPU's memory",
    "jit_compile": "compiling by Keras",
}

Facts = dict[str, str]


def facts(record: Record) -> Facts:
    """The conditions that a record says its launch ran under, by name."""
    environment = record.environment
    values = {"Python": environment.get("python"), **_mapping(environment.get("packages"))}
    foreign = set() if record.cell.framework == "tensorflow" else _OF_TENSORFLOW
    own = _OWN | _OF_IMPORTS | chosen(record.cell) | foreign
    variables = {name: value for name, value in _mapping(environment.get("variables")).items() if name not in own}
    values |= {f"${name}": value for name, value in variables.items()}
    values |= {words: record.settings.get(name) for name, words in _SETTINGS.items()}
    if values["threads"] == 0:  # TensorFlow's way to say one per core
        values["threads"] = record.settings.get("cores") or _mapping(environment.get("machine")).get("cores")
    return {clean(name, 60): clean(value, 80) for name, value in values.items() if value is not None}


def mixed(row: Row) -> str:
    """The conditions in which the launches of one row differ, in words; empty if they do not."""
    conditions = _conditions(row.ok)
    several = {name: values for name in conditions.values if len(values := conditions.of(name)) > 1}
    return "; ".join(f"{_word(name)} {' and '.join(values)}" for name, values in several.items())


def differences(row: Row, other: Row) -> tuple[str, str]:
    """The conditions in which two rows differ, in words: those that change the numbers, then those for speed only."""
    same_framework = row.cell.framework == other.cell.framework
    shared = ("Python", *_SHARED, *(["threads"] if _on_cpu(row) and _on_cpu(other) else []))
    conditions, other_conditions = _conditions(row.ok), _conditions(other.ok)
    numbers: list[str] = []
    speed: list[str] = []
    for name in sorted({*conditions.values, *other_conditions.values}):
        values, other_values = conditions.of(name), other_conditions.of(name)
        comparable = same_framework or name in shared
        # What the suite chose for each framework's cell is no other condition.
        comparable |= name.startswith("$") and not (_chosen(name, values, row) and _chosen(name, other_values, other))
        if comparable and values and other_values and values != other_values:
            words = f"{_word(name)} {' and '.join(values)} against {' and '.join(other_values)}"
            (numbers if ARITHMETIC.fullmatch(_word(name)) else speed).append(words)
    return "; ".join(numbers), "; ".join(speed)


def changed(stored: Iterable[Record], again: Iterable[Record]) -> list[str]:
    """The conditions that differ between stored launches and those of a second run, in words."""
    then, now = _conditions(stored), _conditions(again)
    with_variables = then.variables_recorded and now.variables_recorded
    return [
        f"{_word(name)}: {' and '.join(then.of(name)) or None}, now {' and '.join(now.of(name)) or None}"
        for name in sorted({*then.values, *now.values})
        if then.of(name) != now.of(name) and (with_variables or not name.startswith("$"))
    ]


@dataclass(frozen=True)
class _Conditions:
    """All values of each fact over some launches, and whether any of these launches recorded its variables."""

    values: dict[str, list[str]]
    variables_recorded: bool

    def of(self, name: str) -> list[str]:
        """The values of a fact in their order; a variable that no launch has is unset in all."""
        return self.values.get(name) or ([UNSET] if name.startswith("$") and self.variables_recorded else [])


def _conditions(records: Iterable[Record]) -> _Conditions:
    """A variable that only some launches have is unset in the others."""
    launches = [(facts(r), isinstance(r.environment.get("variables"), Mapping)) for r in records if r.environment]
    values = {}
    for name in dict.fromkeys(name for launch_facts, _ in launches for name in launch_facts):
        recorded = [
            (launch_facts.get(name, UNSET), has_variables)
            for launch_facts, has_variables in launches
            if name in launch_facts or name.startswith("$")
        ]
        values[name] = sorted({value for value, has_variables in recorded if has_variables or value != UNSET})
    return _Conditions(values, any(has_variables for _, has_variables in launches))


def _chosen(name: str, values: list[str], row: Row) -> bool:
    """Whether all launches of a row had a variable as the suite sets it for the cell."""
    return values == [host_memory(row.cell).get(_word(name))]


def _on_cpu(row: Row) -> bool:
    return all(record.settings.get("device") == "cpu" for record in row.ok)


def _mapping(data: Any) -> dict[str, Any]:
    return {str(name): value for name, value in data.items()} if isinstance(data, Mapping) else {}


def _word(name: str) -> str:
    return name.removeprefix("$")

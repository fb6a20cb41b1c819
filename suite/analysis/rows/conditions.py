"""The conditions that a launch ran under besides the machine: versions, variables, threads, cores, a workload's code.

Variables that the suite itself sets, for one framework only (`suite.plan.settings.frameworks.VARIABLES`) or for the
allocator that a cell asks for, are none of them, and neither is what a record of the first schemas does not contain.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suite.catalog.frameworks import FRAMEWORKS, READ_BY_ALL
from suite.plan.settings.allocators import list_variables
from suite.plan.settings.frameworks import VARIABLES
from suite.plan.settings.tunings import OTHER, host_memory, in_force
from suite.record.once import once
from suite.record.record import Record
from suite.record.text import clean

if TYPE_CHECKING:
    from suite.analysis.rows.groups import Row

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


@once
def facts(record: Record) -> Facts:
    """The conditions that a record says its launch ran under, by name."""
    environment = record.environment
    values = {"Python": environment.get("python"), **_mapping(environment.get("packages"))}
    foreign = set() if record.cell.framework == "tensorflow" else _OF_TENSORFLOW
    own = _OWN | _IDLE | list_variables(record.cell) | foreign
    variables = {name: value for name, value in _mapping(environment.get("variables")).items() if name not in own}
    variables = _without_cache(record, variables)
    values |= {f"${name}": value for name, value in variables.items()}
    values |= {words: record.settings.get(name) for name, words in _SETTINGS.items()}
    if files := record.workload.get("files"):
        values[CODE] = str(files)[:CODE_SHOWN]
    if isinstance(graphs := values["CUDA graphs"], bool):
        values["CUDA graphs"] = "on" if graphs else "off"
    values |= _threads(record)
    return {clean(name, 60): clean(value, 80) for name, value in values.items() if value is not None}


def tuning(record: Record, is_older: bool = False) -> str:
    """The tuning by the variables that a launch started with; by its run's age or its cell where it recorded none."""
    if isinstance(variables := record.environment.get("variables"), Mapping):
        return in_force(record.cell, variables)
    return OTHER if is_older else record.cell.tuning


def _without_cache(record: Record, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Variables without the folder of the cell's compile cache, which changes no number."""
    own = FRAMEWORKS[record.cell.framework].cache_variables if record.cell.cache else {}
    flags = {name: text.partition("{")[0] for name, text in own.items() if name.endswith("FLAGS")}
    others = {name: value for name, value in variables.items() if name not in own}
    for name, flag in flags.items():
        if left := [word for word in str(variables.get(name, "")).split() if not word.startswith(flag)]:
            others[name] = " ".join(left)
    return others


def _threads(record: Record) -> dict[str, Any]:
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

    ``read_back`` says whether all of them hold their settings as they were applied; ``tuning`` is theirs.
    """

    values: dict[str, list[str]]
    variables_recorded: bool
    read_back: bool = False
    tuning: str = ""

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
    tunings = " and ".join(sorted({*map(tuning, known)}))
    return Conditions(values, any(has_variables for _, has_variables in launches), read_back, tunings)


def _mapping(data: Any) -> dict[str, Any]:
    return {str(name): value for name, value in data.items()} if isinstance(data, Mapping) else {}


#: Variables that change the numbers, not only the speed: rows in which they differ get no ratio.
ARITHMETIC = re.compile(
    r"NVIDIA_TF32_OVERRIDE|JAX_(ENABLE_X64|DEFAULT_MATMUL_PRECISION)|(ONE)?DNN(L)?_DEFAULT_FPMATH_MODE"
    r"|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|XLA_FLAGS|TF_XLA_FLAGS|CUBLAS_EMULATE.*"
)

#: Packages that all frameworks share. Others are compared within a framework only, as are threads on a GPU.
_SHARED = ("numpy", CODE)
#: What no framework alone is to be limited in, and the settings by which the user asks for other threads or cores.
LIMITS = (THREADS, CORES)
_ASKED = ("threads", "cores", "bind", "devices")
#: What a framework's usual compile mode brings, and another's does not. Within a framework the mode says it.
_OF_MODES = "CUDA graphs"


def describe_mixed_conditions(row: Row) -> str:
    """The conditions in which the launches of one row differ, in words; empty if they do not."""
    several = {name: values for name in row.conditions.values if len(values := row.conditions.of(name)) > 1}
    return "; ".join(f"{_word(name)} {' and '.join(values)}" for name, values in several.items())


def differences(row: Row, other: Row) -> tuple[str, str]:
    """The conditions in which two rows differ, in words: those that forbid a ratio, then those for speed only.

    The first are those that change the numbers, and threads or cores that one framework alone was limited to.
    """
    if row.cell.variant != other.cell.variant:  # of a script, whose variants differ in what was asked for
        return "", ""
    same_framework = row.cell.framework == other.cell.framework
    on_cpu = _on_cpu(row) and _on_cpu(other)
    shared = ("Python", *_SHARED, *(("threads",) if on_cpu else ()))
    one, two = row.conditions, other.conditions
    asked = any(getattr(row.cell, name) != getattr(other.cell, name) for name in _ASKED)
    numbers: list[str] = []
    speed: list[str] = []
    limits = _limits(row, other) if on_cpu and not asked else []
    for name in sorted({*one.values, *two.values} - {*LIMITS}):
        values, other_values = one.of(name), two.of(name)
        variable = name.startswith("$")
        # What the suite chose for each cell is no other condition.
        chosen = variable and _is_of_suite(name, values, row) and _is_of_suite(name, other_values, other)
        chosen = chosen or (name == "threads" and (asked or bool(limits)))
        comparable = not chosen and (same_framework or variable or name in shared)
        if name == _OF_MODES:
            comparable = not same_framework
        if comparable and values and other_values and values != other_values:
            words = f"{_word(name)} {' and '.join(values)} against {' and '.join(other_values)}"
            (numbers if ARITHMETIC.fullmatch(_word(name)) else speed).append(words)
    return "; ".join([*numbers, *limits]), "; ".join([*speed, *_find_one_sided(row, other)])


def _limits(row: Row, other: Row) -> list[str]:
    one, two = row.conditions, other.conditions
    if not (one.read_back and two.read_back) or max(row.cell.devices, other.cell.devices) > 1:
        return []
    unlike = [name for name in LIMITS if one.of(name) != two.of(name)]
    words = [f"{name} {_values(one, name)} against {_values(two, name)}" for name in unlike]
    causes = dict.fromkeys(_word(name) for each in (row, other) for name in _list_own(each))
    return [*words[:-1], f"{words[-1]}, with {', '.join(causes)} set"] if words and causes else words


def _find_one_sided(row: Row, other: Row) -> list[str]:
    if row.cell.framework == other.cell.framework or not (row.conditions.read_back and other.conditions.read_back):
        return []
    words = []
    for each, without in ((row, other), (other, row)):
        alone = tuple({*FRAMEWORKS[each.cell.framework].reads} - {*FRAMEWORKS[without.cell.framework].reads})
        read = [_word(name) for name in _list_own(each) if _word(name).startswith(alone)]
        words += [
            f"{name} {_values(each.conditions, f'${name}')}, which {without.cell.framework} does not read"
            for name in read
            if not name.startswith((*READ_BY_ALL, *FRAMEWORKS[without.cell.framework].reads))
        ]
    return words


def _list_own(row: Row) -> list[str]:
    values = row.conditions.values
    set_by_suite = {f"${name}" for name in ("CUDA_DEVICE_ORDER", "JAX_PLATFORMS")}
    return [
        name
        for name in values
        if name.startswith("$") and name not in set_by_suite and not _is_of_suite(name, values[name], row)
    ]


def _values(of: Conditions, name: str) -> str:
    return " and ".join(of.of(name)) or "unknown"


def describe_changes(stored: Iterable[Record], again: Iterable[Record]) -> list[str]:
    """The conditions that differ between stored launches and those of a second run, in words."""
    then, now = conditions(stored), conditions(again)
    with_variables = then.variables_recorded and now.variables_recorded
    return [
        f"{_word(name)}: {' and '.join(then.of(name)) or None}, now {' and '.join(now.of(name)) or None}"
        for name in sorted({*then.values, *now.values})
        if then.of(name) != now.of(name) and (with_variables or not name.startswith("$"))
        if then.read_back == now.read_back or name not in ("threads", *LIMITS)
    ]


def _is_of_suite(name: str, values: list[str], row: Row) -> bool:
    return values == [host_memory(row.cell).get(_word(name), UNSET)]


def _on_cpu(row: Row) -> bool:
    return all(record.settings.get("device") == "cpu" for record in row.ok)


def _word(name: str) -> str:
    return name.removeprefix("$")

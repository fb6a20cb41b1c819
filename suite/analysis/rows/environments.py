"""How rows differ in the conditions that their launches ran under besides the machine, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from suite.analysis.rows.conditions import CODE, CORES, THREADS, UNSET, Conditions, conditions
from suite.analysis.rows.groups import Row
from suite.catalog.frameworks import FRAMEWORKS, READ_BY_ALL
from suite.plan.settings.tunings import host_memory
from suite.record.record import Record

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
    """Threads and cores of which one row had others than its framework takes by itself, and what can be the cause."""
    one, two = row.conditions, other.conditions
    if not (one.read_back and two.read_back) or max(row.cell.devices, other.cell.devices) > 1:
        return []
    unlike = [name for name in LIMITS if one.of(name) != two.of(name)]
    words = [f"{name} {_values(one, name)} against {_values(two, name)}" for name in unlike]
    causes = dict.fromkeys(_word(name) for each in (row, other) for name in _list_own(each))
    return [*words[:-1], f"{words[-1]}, with {', '.join(causes)} set"] if words and causes else words


def _find_one_sided(row: Row, other: Row) -> list[str]:
    """Variables that both rows had, and that the framework of one of them alone reads."""
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
    """The variables of a row that the suite did not set, as facts."""
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
    """Whether all launches of a row had a variable as the suite sets it for the cell."""
    return values == [host_memory(row.cell).get(_word(name), UNSET)]


def _on_cpu(row: Row) -> bool:
    return all(record.settings.get("device") == "cpu" for record in row.ok)


def _word(name: str) -> str:
    return name.removeprefix("$")

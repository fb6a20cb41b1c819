"""How rows differ in the conditions that their launches ran under besides the machine, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from suite.analysis.rows.conditions import CODE, UNSET, conditions
from suite.analysis.rows.groups import Row
from suite.plan.settings.tunings import host_memory
from suite.record.record import Record

#: Variables that change the numbers, not only the speed: rows in which they differ get no ratio.
ARITHMETIC = re.compile(
    r"NVIDIA_TF32_OVERRIDE|JAX_(ENABLE_X64|DEFAULT_MATMUL_PRECISION)|(ONE)?DNN(L)?_DEFAULT_FPMATH_MODE"
    r"|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|XLA_FLAGS|TF_XLA_FLAGS|CUBLAS_EMULATE.*"
)

#: Packages that all frameworks share. Others are compared within a framework only, as are threads on a GPU.
_SHARED = ("numpy", CODE)
#: What a framework's usual compile mode brings, and another's does not. Within a framework the mode says it.
_OF_MODES = "CUDA graphs"


def describe_mixed_conditions(row: Row) -> str:
    """The conditions in which the launches of one row differ, in words; empty if they do not."""
    several = {name: values for name in row.conditions.values if len(values := row.conditions.of(name)) > 1}
    return "; ".join(f"{_word(name)} {' and '.join(values)}" for name, values in several.items())


def differences(row: Row, other: Row) -> tuple[str, str]:
    """The conditions in which two rows differ, in words: those that change the numbers, then those for speed only."""
    same_framework = row.cell.framework == other.cell.framework
    shared = ("Python", *_SHARED, *(["threads"] if _on_cpu(row) and _on_cpu(other) else []))
    one, two = row.conditions, other.conditions
    numbers: list[str] = []
    speed: list[str] = []
    for name in sorted({*one.values, *two.values}):
        values, other_values = one.of(name), two.of(name)
        variable = name.startswith("$")
        # What the suite chose for each cell is no other condition.
        chosen = variable and _is_of_suite(name, values, row) and _is_of_suite(name, other_values, other)
        chosen = chosen or (name == "threads" and row.cell.threads != other.cell.threads)
        comparable = not chosen and (same_framework or variable or name in shared)
        if name == _OF_MODES:
            comparable = not same_framework
        if comparable and values and other_values and values != other_values:
            words = f"{_word(name)} {' and '.join(values)} against {' and '.join(other_values)}"
            (numbers if ARITHMETIC.fullmatch(_word(name)) else speed).append(words)
    return "; ".join(numbers), "; ".join(speed)


def describe_changes(stored: Iterable[Record], again: Iterable[Record]) -> list[str]:
    """The conditions that differ between stored launches and those of a second run, in words."""
    then, now = conditions(stored), conditions(again)
    with_variables = then.variables_recorded and now.variables_recorded
    return [
        f"{_word(name)}: {' and '.join(then.of(name)) or None}, now {' and '.join(now.of(name)) or None}"
        for name in sorted({*then.values, *now.values})
        if then.of(name) != now.of(name) and (with_variables or not name.startswith("$"))
    ]


def _is_of_suite(name: str, values: list[str], row: Row) -> bool:
    """Whether all launches of a row had a variable as the suite sets it for the cell."""
    return values == [host_memory(row.cell).get(_word(name), UNSET)]


def _on_cpu(row: Row) -> bool:
    return all(record.settings.get("device") == "cpu" for record in row.ok)


def _word(name: str) -> str:
    return name.removeprefix("$")

"""What launches ran under, besides the machine: versions, environment variables, threads; and where two rows differ.

What the suite itself sets for one framework only (`suite.plan.frameworks.VARIABLES`) is no difference. Records that do
not say (those of the first schemas) contradict nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from suite.analysis.groups import Row
from suite.plan.frameworks import VARIABLES
from suite.record.record import Record
from suite.record.text import clean

UNSET = "unset"

#: Variables that change the numbers, not only the speed: between rows in which they differ there is no ratio.
ARITHMETIC = re.compile(
    r"NVIDIA_TF32_OVERRIDE|JAX_(ENABLE_X64|DEFAULT_MATMUL_PRECISION)|(ONE)?DNN(L)?_DEFAULT_FPMATH_MODE"
    r"|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE|XLA_FLAGS|TF_XLA_FLAGS|CUBLAS_EMULATE.*"
)

_OWN = {name for variables in VARIABLES.values() for name in variables}

#: What all frameworks share; other packages are compared within a framework only, as are threads where a GPU trains.
_SHARED = ("numpy",)

#: Of the settings, those that change the speed, and what they are called.
_SETTINGS = {"threads": "threads", "memory_fraction": "share of the GPU's memory"}

Facts = dict[str, str]


def facts(record: Record) -> Facts:
    """What a launch says that it ran under, by name."""
    environment = record.environment
    found = {"Python": environment.get("python"), **_held(environment.get("packages"))}
    variables = {name: value for name, value in _held(environment.get("variables")).items() if name not in _OWN}
    found |= {f"${name}": value for name, value in variables.items()}
    found |= {words: record.settings.get(name) for name, words in _SETTINGS.items()}
    if found["threads"] == 0:  # which is how TensorFlow says that it takes one per core
        found["threads"] = _held(environment.get("machine")).get("cores")
    return {clean(name, 60): clean(value, 80) for name, value in found.items() if value is not None}


def mixed(row: Row) -> str:
    """In what the launches of one row ran under different conditions; empty where they did not."""
    held = _told(row.ok)
    return "; ".join(f"{_word(name)} {' and '.join(held.of(name))}" for name in held.values if len(held.of(name)) > 1)


def differences(row: Row, other: Row) -> tuple[str, str]:
    """In what two rows differ: what changes the numbers, and what only the speed."""
    alike = row.cell.framework == other.cell.framework
    shared = ("Python", *_SHARED, *(["threads"] if _on_cpu(row) and _on_cpu(other) else []))
    here, there = _told(row.ok), _told(other.ok)
    numbers: list[str] = []
    speed: list[str] = []
    for name in sorted({*here.values, *there.values}):
        one, two = here.of(name), there.of(name)
        comparable = alike or name.startswith("$") or name in shared
        if comparable and one and two and one != two:
            words = f"{_word(name)} {' and '.join(one)} against {' and '.join(two)}"
            (numbers if ARITHMETIC.fullmatch(_word(name)) else speed).append(words)
    return "; ".join(numbers), "; ".join(speed)


def changed(stored: Iterable[Record], again: Iterable[Record]) -> list[str]:
    """In words what launches of then and now ran under differently."""
    here, there = _told(stored), _told(again)
    return [
        f"{_word(name)}: {' and '.join(here.of(name)) or None}, now {' and '.join(there.of(name)) or None}"
        for name in sorted({*here.values, *there.values})
        if here.of(name) != there.of(name) and not (name.startswith("$") and not (here.speak and there.speak))
    ]


@dataclass(frozen=True)
class _Told:
    """Every value of every fact that some launches tell; whether they ``speak`` of their variables at all."""

    values: dict[str, list[str]]
    speak: bool

    def of(self, name: str) -> list[str]:
        """The values of a fact, in their order; a variable that no launch has is unset in all."""
        return self.values.get(name) or ([UNSET] if name.startswith("$") and self.speak else [])


def _told(records: Iterable[Record]) -> _Told:
    """A variable that only some launches have is unset in the others."""
    held = [(facts(r), isinstance(r.environment.get("variables"), Mapping)) for r in records if r.environment]
    found = {}
    for name in dict.fromkeys(name for one, _ in held for name in one):
        there = [(one.get(name, UNSET), says) for one, says in held if name in one or name.startswith("$")]
        found[name] = sorted({value for value, says in there if says or value != UNSET})
    return _Told(found, any(says for _, says in held))


def _on_cpu(row: Row) -> bool:
    return all(record.settings.get("device") == "cpu" for record in row.ok)


def _held(data: Any) -> dict[str, Any]:
    return {str(name): value for name, value in data.items()} if isinstance(data, Mapping) else {}


def _word(name: str) -> str:
    return name.removeprefix("$")

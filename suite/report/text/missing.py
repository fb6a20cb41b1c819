"""How many launches of a run are missing, in a sentence with the command that makes them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from framework_training_suite import PROGRAM
from suite.analysis.rows.runs import Count
from suite.analysis.rows.wording import listing
from suite.plan.cell import Cell
from suite.plan.matrix import MATRICES
from suite.plan.measuring import SEQUENTIAL
from suite.plan.sweeps.sweep import AXES, spell_value
from suite.record.text import clean
from workloads.registry import PREFIX

#: Options of ``training-suite run`` by the setting that a run records, with the values that need no option.
OPTIONS = {
    "launches": ("--launches", (None,)),
    "seed": ("--seed", (None, 0)),
    "data": ("--data", (None, "auto")),
    "device": ("--device", (None, "auto")),
    "shard": ("--shard", (None,)),
    "epochs": ("--epochs", (None,)),
    "target": ("--target", (None,)),
}

#: Options that a run records as they were typed, by their names there.
TYPED = {
    **{axis: f"--{axis}" for axis in AXES},
    **{name: f"--{name}" for name in ("budget", "min-window", "phases")},
    "k": "-k",
}

#: Options without a value, likewise.
SWITCHES = ("no-control", "trusted-network")

#: Characters of an option's value that are shown.
VALUE_MOST = 1000

_NAME = "|".join(map(re.escape, sorted(MATRICES, key=len, reverse=True)))

#: The matrices that the name of an older run begins with.
_MATRICES = re.compile(rf"({_NAME})(\+({_NAME}))*(?=-|$)")


def sentences(counts: Iterable[Count], spell: Callable[[str], str] = str) -> list[str]:
    """Returns ``12 of 96 launches are missing; run them with: ...`` for each run that is not complete.

    ``spell`` says how the command is typed here.
    """
    return [_sentence(count, spell) for count in counts if count.missing]


def _sentence(count: Count, spell: Callable[[str], str]) -> str:
    least = "At least " if count.least else ""
    verb = "is" if count.missing == 1 else "are"
    sentence = f"{least}{count.missing} of {count.planned} launches of run {count.run} {verb} missing."
    if count.settings.get("matrix") == "reproduce" and not count.settings.get("typed"):
        return sentence  # `suite.reproduce` continues no run
    if (those := _those_of_matrix(count)) is None:
        lacking = listing([cell.id for cell in _lacking(count)])
        return f"{sentence} {count.settings['matrix']} has other cells today, without {lacking or 'some of them'}."
    workloads = sorted({cell.workload for cell in count.cells})
    line = " ".join([command(count.run, count.settings, workloads), *map(shlex.quote, those)])
    return f"{sentence} Run them with: {spell(line)}"


def _lacking(count: Count) -> list[Cell]:
    asked = count.settings.get("launches")
    most = max([*count.cells.values(), asked if type(asked) is int else 0])
    return [cell for cell, launches in count.cells.items() if launches < most]


def _those_of_matrix(count: Count) -> list[str] | None:
    """Returns the ``-k`` with which a run's matrix is of no more than is missing; None if that has not those cells.

    Newer runs record all that chose their cells.
    """
    name = count.settings.get("matrix")
    if "typed" in count.settings or count.settings.get("sweep") or name not in MATRICES:
        return []
    cells = {*MATRICES[name]().cells}
    if not cells.issuperset(count.cells):
        return None
    named = [f"{cell.id}-launch" for cell in _lacking(count)] if cells != {*count.cells} else []
    return ["-k", " or ".join(named)] if 0 < len(named) < len(count.cells) else []


def command(run: str, settings: Mapping[str, Any], workloads: Iterable[str] = ()) -> str:
    """Returns the command that continues the run with its own settings, for launches of these workloads."""
    typed = settings.get("typed")
    words = [PROGRAM, "run", *(_options_typed(typed) if isinstance(typed, dict) else _older(settings))]
    for name, (option, usual) in OPTIONS.items():
        value = settings.get(name)
        fixed = name != "launches" or settings.get("design") != SEQUENTIAL
        if fixed and isinstance(value, (str, int, float)) and value not in usual:
            words += [option, clean(value, VALUE_MOST)]
    limit = settings.get("memory_limit")
    if isinstance(limit, (int, float)):
        words += ["--memory-limit", _number(limit / 2**30)]
    return shlex.join([*words, *name_workloads(workloads), f"--resume={run}"])


def name_workloads(workloads: Iterable[str]) -> list[str]:
    """Returns the options that name those from outside, by the names of their folders: no record has paths."""
    own = [workload for workload in dict.fromkeys(workloads) if workload.startswith(PREFIX)]
    return [word for each in own for word in ("--workloads", each.removeprefix(PREFIX))]


def name_settings(cells: Iterable[Cell], always: Collection[str]) -> list[str]:
    """Returns the options that select these cells: of axes that need not ``always`` be named, those not at default."""
    cells = list(cells)
    words: list[str] = []
    for axis in AXES:
        usual = (getattr(Cell(cell.workload, cell.framework), axis) == getattr(cell, axis) for cell in cells)
        if axis in always or not all(usual):
            values = dict.fromkeys(spell_value(axis, getattr(cell, axis)) for cell in cells)
            words += [f"--{axis}", ",".join(values)]
    return words


def _options_typed(typed: Mapping[str, Any]) -> list[str]:
    names = typed.get("matrix")
    matrices = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
    words = [word for name in matrices for word in ("--matrix", clean(name, VALUE_MOST))]
    for name, option in TYPED.items():
        value = typed.get(name)
        if isinstance(value, (str, int, float)):
            words += [option, clean(value, VALUE_MOST) if isinstance(value, str) else _number(value)]
    return [*words, *(f"--{name}" for name in SWITCHES if typed.get(name) is True)]


def _older(settings: Mapping[str, Any]) -> list[str]:
    """The same for a run that did not record what was typed: from its name, its axes and its windows."""
    name, sweep, plan = (settings.get(key) for key in ("matrix", "sweep", "plan"))
    axes = clean(sweep, VALUE_MOST).split() if isinstance(sweep, str) else []  # "precision fp32,bf16 loader w2"
    words = []
    if isinstance(name, str) and not (axes and name.partition("-")[0] == "sweep"):
        known = _MATRICES.match(name) if axes else _MATRICES.fullmatch(name)
        words = ["--matrix", known[0].replace("+", ",") if known else clean(name, VALUE_MOST)]
    words += [word if at % 2 else f"--{word}" for at, word in enumerate(axes)]
    least_s = plan.get("min_window_s") if isinstance(plan, dict) else None
    return [*words, "--min-window", _number(least_s)] if isinstance(least_s, (int, float)) else words


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")

"""The axes along which ratios are formed: frameworks, one setting within a framework, or machines.

The rows of one ratio differ in their place on the axis only. One value is the base, and the others are compared with
its rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suite.catalog.setting import Setting, parts_of_variant
from suite.catalog.settings import OF_A_FRAMEWORK, OF_ROWS, SETTINGS
from suite.plan.cell import REFERENCE_STRATEGY, USUAL_COMPILE, Cell

if TYPE_CHECKING:
    from suite.analysis.rows.groups import Row


@dataclass(frozen=True)
class Axis:
    """``value`` is a row's place on the axis, and ``rank`` sorts these values in their natural order.

    ``varying`` names the settings of a cell that may differ within a ratio; what ``invariant`` returns must be equal
    all the same, and ``pairs`` says whether a cell may be compared with one at the base. A value that ``is_default`` is
    preferred as the base over those that come before it.
    """

    name: str
    value: Callable[[Row], str]
    rank: Callable[[Row], Any]
    varying: tuple[str, ...]
    invariant: Callable[[Cell], object] = lambda _: None
    is_default: Callable[[Row], bool] = lambda _: True
    pairs: Callable[[Cell, Cell], bool] = lambda _, __: True


#: The axes along which ratios are between runs, and whose values a part of them names.
BETWEEN_RUNS = ("run", "machine")


@dataclass(frozen=True)
class Base:
    """The value of an axis that ratios refer to, by framework: the usual mode or strategy is not the same for all."""

    axis: Axis
    values: dict[str, str]

    def holds(self, row: Row) -> bool:
        return self.axis.value(row) == self.values[row.cell.framework]

    def __str__(self) -> str:
        if len(set(self.values.values())) > 1:
            return ", ".join(f"{value} for {framework}" for framework, value in self.values.items())
        return next(iter(self.values.values()), "")


def base(axis: Axis, rows: Iterable[Row], wanted: str | None) -> Base:
    """The base among these rows: the value ``wanted``, else the usual one or the first in the natural order."""
    rows = list(rows)
    frameworks = list(dict.fromkeys(row.cell.framework for row in rows))
    if wanted is not None:
        matching = (axis.value(row) for row in rows if wanted.lower() in axis.value(row).lower())
        known = SETTINGS.get(axis.name)
        value = next(matching, wanted) if axis.name in BETWEEN_RUNS else known.current(wanted) if known else wanted
        return Base(axis, dict.fromkeys(frameworks, value))
    if axis.name in OF_A_FRAMEWORK:
        by_framework = {name: [row for row in rows if row.cell.framework == name] for name in frameworks}
        return Base(axis, {name: _first(axis, of_framework) for name, of_framework in by_framework.items()})
    return Base(axis, dict.fromkeys(frameworks, _first(axis, rows)))


def order(axis: Axis) -> Callable[[Row], tuple[Any, ...]]:
    """The sort key of rows: those of one ratio next to each other, in the natural order."""
    last = ("framework", *OF_A_FRAMEWORK) if axis.name == "framework" else (axis.name,)
    first = ("framework",) if axis.name not in ("framework", *BETWEEN_RUNS) else ()
    names = [*first, *(name for name in AXES if name not in {*first, *last}), *last]
    ranks = [AXES[name].rank for name in names]
    return lambda row: tuple(rank(row) for rank in ranks)


def _first(axis: Axis, rows: Sequence[Row]) -> str:
    """The usual value or the first in the natural order, of the rows that another one can be compared with."""
    values: dict[tuple[Any, ...], set[str]] = {}
    fixed = [name for name in OF_ROWS if name not in axis.varying]
    keys = [(repr(axis.invariant(row.cell)), *(getattr(row.cell, name) for name in fixed)) for row in rows]
    for key, row in zip(keys, rows, strict=True):
        values.setdefault(key, set()).update([axis.value(row)] if row.ok else [])
    paired = [row for key, row in zip(keys, rows, strict=True) if len(values[key]) > 1] or rows
    return axis.value(min(paired, key=lambda row: (not axis.is_default(row), axis.rank(row))))


def _usual(setting: Setting, cell: Cell) -> bool:
    usual = {"compile": USUAL_COMPILE, "strategy": REFERENCE_STRATEGY}.get(setting.name, {})
    default = usual.get(cell.framework, setting.default)
    return not setting.starts_at_default or bool(getattr(cell, setting.name) == default)


def _axis(setting: Setting, **special: Any) -> Axis:
    name = setting.name
    parts: dict[str, Any] = {
        "value": lambda row: setting.text(getattr(row.cell, name)) or "none",
        "rank": lambda row: setting.rank(getattr(row.cell, name)),
        "varying": (name,),
        "is_default": lambda row: _usual(setting, row.cell),
    }
    return Axis(name, **parts | special)


#: What is special about some axes.
_SPECIAL: dict[str, dict[str, Any]] = {
    # The samples of one update are split into more parts, so that fewer go through at once.
    "accumulate": {"varying": ("accumulate", "batch"), "invariant": lambda cell: cell.effective_batch},
    # A device alone has no strategy, so it is the base for all of them; among several devices only the same one is.
    "devices": {
        "varying": ("devices", "strategy"),
        "pairs": lambda cell, base: base.devices == 1 or base.strategy == cell.strategy,
    },
    # Frameworks are compared each in its own compile mode and its own strategy.
    "framework": {"varying": ("framework", *OF_A_FRAMEWORK), "is_default": lambda _: True},
}

#: The axes of a script's variants besides them as a whole: one variable, one argument, or the interpreter.
OF_VARIANTS = "env.NAME, arg.NAME, python"
_PART = re.compile(r"(?:env|arg)\.(?P<name>.+)|python")


class _Axes(dict[str, Axis]):
    """The axes by name; those of `OF_VARIANTS`, which no list has, are made when they are asked for."""

    def __missing__(self, name: str) -> Axis:
        match = _PART.fullmatch(name)
        if not match:
            raise KeyError(name)
        return _axis_of_part(name, (match["name"] or name).lstrip("-"))


def is_axis(name: str) -> bool:
    """Whether there is an axis of this name."""
    return name in AXES or bool(_PART.fullmatch(name))


def _axis_of_part(name: str, part: str) -> Axis:
    def value(cell: Cell) -> str:
        return parts_of_variant(cell.variant).get(part, "")

    def others(cell: Cell) -> object:
        return {**parts_of_variant(cell.variant), part: ""}

    rank = SETTINGS["variant"].rank
    return Axis(
        name, lambda row: value(row.cell) or "none", lambda row: rank(value(row.cell)), ("variant",), others,
        lambda row: bool(value(row.cell)),
    )  # fmt: skip


#: By name, in the order in which they sort rows.
AXES = _Axes(
    (each.name, _axis(each, **_SPECIAL.get(each.name, {})))
    for each in sorted(SETTINGS.values(), key=lambda each: each.sort_place)
    if each.is_swept and each.name != "workload"
)
# Runs and machines have no natural order: they stay in the order of the files.
AXES["run"] = Axis("run", lambda row: row.run, lambda _: 0, ())
AXES["machine"] = Axis("machine", lambda row: row.machine, lambda _: 0, ())


def varied(cells: Iterable[Cell]) -> dict[str, list[str]]:
    """The values of each setting in which cells of one workload and framework differ, by its name, in their order."""
    by_kind: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        by_kind.setdefault((cell.workload, cell.framework), []).append(cell)
    kinds = [{name: {getattr(each, name) for each in alike} for name in OF_ROWS} for alike in by_kind.values()]
    several = [name for name in OF_ROWS if any(len(kind[name]) > 1 for kind in kinds)]
    values = {name: set.union(*(kind[name] for kind in kinds)) for name in several}
    return {name: [SETTINGS[name].text(each) or "none" for each in sorted(values[name], key=SETTINGS[name].rank)]
            for name in several}  # fmt: skip

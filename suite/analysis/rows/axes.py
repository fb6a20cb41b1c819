"""The axes along which ratios are formed: frameworks, one setting within a framework, or machines.

The rows of one ratio differ in their place on the axis only. One value is the base, and the others are compared with
its rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suite.plan.cell import (
    ALLOCATORS,
    CHECKPOINTINGS,
    COMPILES,
    FRAMEWORKS,
    INTERFACES,
    KERNELS,
    LOADERS,
    PRECISIONS,
    REFERENCE_STRATEGY,
    SIZES,
    STRATEGIES,
    TUNINGS,
    USUAL_COMPILE,
    Cell,
)

if TYPE_CHECKING:
    from suite.analysis.rows.groups import Row


#: The axes whose values are a framework's own, so that each framework has its usual one.
OF_A_FRAMEWORK = ("compile", "strategy")


@dataclass(frozen=True)
class Axis:
    """``value`` is a row's place on the axis, and ``rank`` sorts these values in their natural order.

    ``free`` names the settings of a cell that may differ within a ratio; the value that ``fixed`` returns must be equal
    all the same, and ``pairs`` says whether a cell may be compared with one at the base. A ``usual`` value is preferred
    as the base over those that come before it.
    """

    name: str
    value: Callable[[Row], str]
    rank: Callable[[Row], Any]
    free: tuple[str, ...]
    fixed: Callable[[Cell], object] = lambda _: None
    usual: Callable[[Row], bool] = lambda _: True
    pairs: Callable[[Cell, Cell], bool] = lambda _, __: True


@dataclass(frozen=True)
class Base:
    """The value of an axis that ratios refer to, by framework: the usual mode or strategy is not the same for all."""

    axis: Axis
    values: dict[str, str]

    def holds(self, row: Row) -> bool:
        """Whether this row is at the base."""
        return self.axis.value(row) == self.values[row.cell.framework]

    def __str__(self) -> str:
        if len(set(self.values.values())) > 1:
            return ", ".join(f"{value} for {framework}" for framework, value in self.values.items())
        return next(iter(self.values.values()), "")


def base(axis: Axis, rows: Iterable[Row], wanted: str | None) -> Base:
    """The base among these rows: the value ``wanted``, else the usual one or the first in the natural order.

    A part of its name is enough for a machine.
    """
    rows = list(rows)
    frameworks = list(dict.fromkeys(row.cell.framework for row in rows))
    if wanted is not None:
        matching = (axis.value(row) for row in rows if wanted.lower() in axis.value(row).lower())
        value = next(matching, wanted) if axis.name == "machine" else wanted
        return Base(axis, dict.fromkeys(frameworks, value))
    if axis.name in OF_A_FRAMEWORK:
        by_framework = {name: [row for row in rows if row.cell.framework == name] for name in frameworks}
        return Base(axis, {name: _first(axis, of_framework) for name, of_framework in by_framework.items()})
    return Base(axis, dict.fromkeys(frameworks, _first(axis, rows)))


def order(axis: Axis) -> Callable[[Row], tuple[Any, ...]]:
    """The sort key of rows: those of one ratio next to each other, in the natural order."""
    last = ("framework", *OF_A_FRAMEWORK) if axis.name == "framework" else (axis.name,)
    first = ("framework",) if axis.name not in ("framework", "machine") else ()
    names = [*first, *(name for name in AXES if name not in {*first, *last}), *last]
    ranks = [AXES[name].rank for name in names]
    return lambda row: tuple(rank(row) for rank in ranks)


def _first(axis: Axis, rows: Sequence[Row]) -> str:
    return axis.value(min(rows, key=lambda row: (not axis.usual(row), axis.rank(row))))


def _loader(row: Row) -> tuple[int, int, str]:
    loader = row.cell.loader
    return LOADERS.index(loader.kind), loader.workers, loader.id


_AXES = (
    Axis("size", lambda row: row.cell.size, lambda row: SIZES.index(row.cell.size), ("size",)),
    Axis("precision", lambda row: row.cell.precision, lambda row: PRECISIONS.index(row.cell.precision), ("precision",)),
    Axis("batch", lambda row: str(row.cell.batch or "auto"), lambda row: row.cell.batch or math.inf, ("batch",)),
    # The samples of one update are split into more parts, so that fewer go through at once.
    Axis(
        "accumulate",
        lambda row: str(row.cell.accumulate),
        lambda row: row.cell.accumulate,
        ("accumulate", "batch"),
        fixed=lambda cell: cell.effective_batch,
    ),
    Axis(
        "loader",
        lambda row: row.cell.loader.id,
        _loader,
        ("loader",),
        usual=lambda row: row.cell.loader.id == "tuned",
    ),
    Axis("kernel", lambda row: row.cell.kernel, lambda row: KERNELS.index(row.cell.kernel), ("kernel",)),
    Axis(
        "checkpointing",
        lambda row: row.cell.checkpointing,
        lambda row: CHECKPOINTINGS.index(row.cell.checkpointing),
        ("checkpointing",),
    ),
    Axis("allocator", lambda row: row.cell.allocator, lambda row: ALLOCATORS.index(row.cell.allocator), ("allocator",)),
    Axis("tuning", lambda row: row.cell.tuning, lambda row: TUNINGS.index(row.cell.tuning), ("tuning",)),
    Axis("interface", lambda row: row.cell.interface, lambda row: INTERFACES.index(row.cell.interface), ("interface",)),
    # A device alone has no strategy, so it is the base for all of them; among several devices only the same one is.
    Axis(
        "devices",
        lambda row: str(row.cell.devices),
        lambda row: row.cell.devices,
        ("devices", "strategy"),
        pairs=lambda cell, base: base.devices == 1 or base.strategy == cell.strategy,
    ),
    # Frameworks are compared each in its own compile mode and its own strategy.
    Axis(
        "framework",
        lambda row: row.cell.framework,
        lambda row: FRAMEWORKS.index(row.cell.framework),
        ("framework", "compile", "strategy"),
    ),
    Axis(
        "compile",
        lambda row: row.cell.compile,
        lambda row: COMPILES.index(row.cell.compile),
        ("compile",),
        usual=lambda row: row.cell.compile == USUAL_COMPILE[row.cell.framework],
    ),
    Axis(
        "strategy",
        lambda row: row.cell.strategy or "none",
        lambda row: ("", *STRATEGIES).index(row.cell.strategy),
        ("strategy",),
        usual=lambda row: row.cell.strategy == REFERENCE_STRATEGY[row.cell.framework],
    ),
    # Machines have no natural order: they stay in the order of the files.
    Axis("machine", lambda row: row.machine, lambda _: 0, ()),
)

#: By name, in the order in which they sort rows.
AXES = {axis.name: axis for axis in _AXES}

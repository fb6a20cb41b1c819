"""Blocks of launches: one of every cell, so that a drift of the machine affects all cells alike."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from suite.plan.cell import FRAMEWORKS, Cell
from suite.plan.measuring import CONTROL, FIRST_LOOK, REPEAT, REPEATED_MOST


def shard(cells: Sequence[Cell], part: int, parts: int) -> tuple[Cell, ...]:
    """Part 1, 2, ... of ``parts``. Cells that differ only in framework stay together: their ratio needs one machine."""
    groups = list(dict.fromkeys(_id_without_framework(cell) for cell in cells))
    selected = set(groups[part - 1 :: parts])
    return tuple(cell for cell in cells if _id_without_framework(cell) in selected)


def blocks(cells: Sequence[Cell], launches: int, seed: int, control: bool = False) -> list[tuple[Cell, int]]:
    """Returns all launches in the order in which they run: blocks with one launch per cell, shuffled within each block.

    So a drift of the machine affects all cells alike. The same seed gives the same order. With ``control``, each block
    has a second launch of the cells of one framework; their ratio to the first shows how much noise alone changes a
    ratio.
    """
    order = []
    twice = framework_of_control(cells) if control else ""
    for block in range(launches):
        shuffled = [(cell, block) for cell in cells]
        shuffled += [(cell, CONTROL + block) for cell in cells if cell.framework == twice]
        random.Random(f"{seed}/{block}").shuffle(shuffled)  # noqa: S311 - an order, not a secret
        order += shuffled
    return order


def launch_id(cell: Cell, number: int) -> str:
    """The id of a launch: its cell's, and ``launch3`` or ``control3``, with ``-repeat`` where it takes their place."""
    copy = "control" if number % REPEAT >= CONTROL else "launch"
    return f"{cell.id}-{copy}{number % CONTROL}{'-repeat' if number >= REPEAT else ''}"


def repeats_allowed(copies: int, block: int) -> int:
    """How many launches a run may have measured again by the end of a block that has so many ``copies`` of cells."""
    return int(copies * max(FIRST_LOOK, block + 1) * REPEATED_MOST)


def framework_of_control(cells: Iterable[Cell]) -> str:
    """The framework whose cells the A/A control launches twice: the first of `FRAMEWORKS` that the cells have."""
    present = {cell.framework for cell in cells}
    return next((name for name in FRAMEWORKS if name in present), FRAMEWORKS[0])


def _id_without_framework(cell: Cell) -> str:
    return cell.but(framework=FRAMEWORKS[0]).id

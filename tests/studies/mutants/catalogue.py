"""All mutants, kind by kind."""

from __future__ import annotations

from collections.abc import Sequence

from tests.studies.mutants import (
    attention,
    dropout,
    elsewhere,
    evaluations,
    inference,
    inputs,
    late,
    models,
    optimizers,
    precisions,
    recurrent,
    several,
    steps,
)
from tests.studies.mutants.mutant import Mutant

FILES = (
    dropout,
    steps,
    optimizers,
    models,
    recurrent,
    inputs,
    precisions,
    evaluations,
    attention,
    several,
    late,
    inference,
    elsewhere,
)
MUTANTS: tuple[Mutant, ...] = tuple(mutant for file in FILES for mutant in file.MUTANTS)
KINDS = tuple(dict.fromkeys(mutant.kind for mutant in MUTANTS))


def part_of(mutants: Sequence[Mutant], part: int, parts: int) -> list[Mutant]:
    """Part 1, 2, ... of the mutants; those of a cell stay together as far as they can: they share its launches."""
    ordered = sorted(mutants, key=lambda mutant: mutant.cell.but(framework="pytorch").id)
    size = -(-len(ordered) // parts)
    return ordered[(part - 1) * size : part * size]

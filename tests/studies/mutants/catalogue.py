"""All mutants, kind by kind."""

from __future__ import annotations

from tests.studies.mutants import (
    attention,
    dropout,
    evaluations,
    inputs,
    models,
    optimizers,
    precisions,
    recurrent,
    several,
    steps,
)
from tests.studies.mutants.mutant import Mutant

FILES = (dropout, steps, optimizers, models, recurrent, inputs, precisions, evaluations, attention, several)
MUTANTS: tuple[Mutant, ...] = tuple(mutant for file in FILES for mutant in file.MUTANTS)
KINDS = tuple(dict.fromkeys(mutant.kind for mutant in MUTANTS))

"""How long the rest of a run takes, estimated from the launches that it has made.

A launch of a cell takes as long as the last one that measured the same phases. For a cell that has not run yet, a guess
is scaled by how far the guesses for similar cells were off.

The constants of the guesses were set with runs that were measured before the change of the allocator's settings of
2026-11-22, which made JAX's full CNN faster on a CPU.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from suite.catalog.phases import TRAIN
from suite.catalog.precisions import PRECISIONS
from suite.catalog.settings import SETTINGS
from suite.plan.cell import COMPILES_OF, USUAL_COMPILE, Cell
from suite.plan.measuring import Plan
from suite.record.record import Record

#: Launches from which an estimate is shown.
LAUNCHES_LEAST = 3

# What the guesses are made of: seconds as measured on two CPU cores (runs 0002 to 0009). On another machine only
# their ratios matter, and those only until each cell has run once.
STARTING_S = 12.0  # start and evidence of identity, besides the phases
ENDED_EARLY_S = 2.0  # a launch that ends as unsupported
COMPILING_S = {"pytorch": 28.0, "tensorflow": 9.0}  # on a CPU, besides the usual mode
TRAINING_S = 60.0  # a training to the end; how long really is known after the first
SLOW_TRAINING = {("cifar100_cnn", "jax"): 4.5}  # on a CPU, where XLA's convolutions are slow
#: How many times as long a launch with several devices takes on a CPU: more processes start, and a phase more is
#: measured. JAX compiles for longer there (runs 0020 and 0021).
SEVERAL, SEVERAL_OF = 1.4, {"jax": 2.0}
SEARCH_TRIES = 8  # tries of a search for the largest batch

#: How long a launch that times training alone takes, as a share of one with all phases (run 0031: .2 to .5).
LEAN = 0.5

#: Longer than any launch takes: a year.
LONGEST_S = 366 * 86_400.0

#: How little a cell counts if it differs in this setting: each unit is a factor of four.
WEIGHTS = {"workload": 2.0, "framework": 2.0, "size": 3.0, "recipe": 5.0, "loader": 0.5}


@dataclass
class Eta:
    """The durations of the launches of a run so far, in seconds, and estimates for the others."""

    plan: Plan
    cpu: bool
    _launches: dict[bool, list[tuple[Cell, float]]] = field(default_factory=lambda: {False: [], True: []})
    _searches: list[tuple[Cell, float]] = field(default_factory=list)

    def add(self, cell: Cell, seconds: float, searching_s: float = 0.0, *, lean: bool = False) -> None:
        """Note how long a launch took; ``searching_s`` of it went into the search for the largest batch."""
        self._launches[lean].append((cell, seconds - searching_s))
        if searching_s:
            self._searches.append((cell, searching_s))

    def learn(self, records: Iterable[Record]) -> None:
        """Note the launches of a journal, by their `durations`; older journals have none."""
        for record in records:
            took_s, searching_s = (_seconds(record.run.get(name)) for name in ("took_s", "searching_s"))
            if took_s > searching_s:
                self.add(record.cell, took_s, searching_s, lean=is_lean(record))

    def has(self, cell: Cell, *, lean: bool) -> bool:
        return any(other == cell for other, _ in self._launches[lean])

    @property
    def known(self) -> bool:
        return sum(map(len, self._launches.values())) >= LAUNCHES_LEAST

    def left_s(self, launches: Iterable[tuple[Cell, bool]], searches: Iterable[Cell] = ()) -> float:
        """Seconds that these launches and searches for the largest batch will take together.

        Each launch is a cell, and whether it times training alone.
        """
        counts = Counter(launches)
        launching_s = sum(count * self._launch_s(*launch) for launch, count in counts.items())
        return launching_s + sum(self._estimate_s(cell, self._searches, SEARCH_TRIES) for cell in searches)

    def _launch_s(self, cell: Cell, lean: bool) -> float:
        other = self.has(cell, lean=not lean) or (self._launches[not lean] and not self._launches[lean])
        kind = not lean if other and not self.has(cell, lean=lean) else lean
        factor = 1.0 if kind == lean else LEAN if lean else 1 / LEAN
        return factor * self._estimate_s(cell, self._launches[kind], 1)

    def _estimate_s(self, cell: Cell, done: list[tuple[Cell, float]], times: int) -> float:
        if same := [seconds for other, seconds in done if other == cell]:
            return same[-1]  # the first one has more evidence
        early = self._ends_early(cell)
        alike = [
            (math.pow(4, -_distance(cell, other)), other, s) for other, s in done if self._ends_early(other) == early
        ]
        guess_s = times * self._guess_s(cell)
        if not alike:
            return guess_s
        guessed_s = sum(weight * times * self._guess_s(other) for weight, other, _ in alike)
        return guess_s * sum(weight * seconds for weight, _, seconds in alike) / guessed_s

    def _guess_s(self, cell: Cell) -> float:
        if self._ends_early(cell):
            return ENDED_EARLY_S
        if cell.recipe:
            return TRAINING_S * (SLOW_TRAINING.get((cell.workload, cell.framework), 1.0) if self.cpu else 1.0)
        unusual = self.cpu and cell.compile != USUAL_COMPILE[cell.framework]
        compiling_s = COMPILING_S.get(cell.framework, 0.0) if unusual else 0.0
        # Three phases of windows, each with about three windows of warm-up; windows last 1.3 times the least.
        one_s = STARTING_S + compiling_s + 3 * (self.plan.windows + 3) * 1.3 * self.plan.min_window_s
        return one_s * (SEVERAL_OF.get(cell.framework, SEVERAL) if self.cpu and cell.devices > 1 else 1.0)

    def _ends_early(self, cell: Cell) -> bool:
        """Whether the cell will probably end as unsupported. Its launch decides; this is for estimates only."""
        uncompiled = cell.framework == "pytorch" and cell.workload == "imdb_lstm" and cell.compile != "eager"
        on_gpu_only = bool(PRECISIONS[cell.precision].gpu_only) or cell.kernel == "cudnn" or cell.allocator != "default"
        own = cell.tuning == "denormals" and cell.framework != "pytorch"
        return cell.compile not in COMPILES_OF[cell.framework] or uncompiled or own or (self.cpu and on_gpu_only)


def durations(took_s: float, **parts_s: float) -> dict[str, float]:
    """What a record's ``run`` says about how long its launch took, for the estimates of a run that goes on.

    ``parts_s`` are ``searching_s``, a part of it, and ``warming_s`` before the launch; those of 0 are left out.
    """
    return {"took_s": round(took_s, 3), **{name: round(value, 3) for name, value in parts_s.items() if value}}


def is_lean(record: Record) -> bool:
    """Whether a launch timed training alone, while others of its run have all phases."""
    plan = record.run.get("plan")
    return isinstance(plan, dict) and plan.get("phases") == [TRAIN] and not plan.get("chosen")


def _seconds(value: Any) -> float:
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < LONGEST_S
    return float(value) if usable else 0.0


def _distance(cell: Cell, other: Cell) -> float:
    """In how many settings two cells differ, weighted; the usual compile modes of two frameworks count as the same."""
    names = (name for name in SETTINGS if name != "compile")
    modes = [each.compile != USUAL_COMPILE[each.framework] and each.compile for each in (cell, other)]
    different = [name for name in names if getattr(cell, name) != getattr(other, name)]
    return sum(WEIGHTS.get(name, 1.0) for name in different) + (modes[0] != modes[1])

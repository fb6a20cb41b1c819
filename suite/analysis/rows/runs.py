"""Whole runs: their launches, what is computed once from them, and which of the planned launches are missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from suite.analysis.records.load import Launch, Loaded
from suite.plan.cell import Cell
from suite.plan.measuring import SEQUENTIAL
from suite.record.disturbance import busy_before


class Runs:
    """All launches that groups were made from, by run, and what is computed once from a whole run."""

    def __init__(self, launches: Iterable[Launch] = ()) -> None:
        self.launches: dict[str, list[Launch]] = {}
        self.computed: dict[tuple[str, float], Any] = {}
        for launch in launches:
            self.launches.setdefault(launch.run, []).append(launch)


@dataclass(frozen=True)
class Count:
    """How many launches of a run there are, and how many were planned.

    ``planned`` is None if no file says it. ``least`` says that at least so many were planned: older files do not hold
    the number, and a run that ended within its first block does not show all of its cells. ``cells`` are those of its
    launches, with the number of blocks that have each.
    """

    run: str
    launches: int
    planned: int | None
    least: bool
    settings: Mapping[str, Any]
    cells: Mapping[Cell, int] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        return max(0, (self.planned or 0) - self.launches)

    @property
    def busy_cores(self) -> float:
        """The cores that others kept busy when the run began; 0 if they were few, or not recorded."""
        return busy_before(self.settings)


def counts(loaded: Loaded) -> list[Count]:
    by_run: dict[str, list[Launch]] = {}
    for launch in loaded.launches:
        by_run.setdefault(launch.run, []).append(launch)
    return [
        replace(
            _count(run, launches, loaded.runs.get(run, {})),
            cells=Counter(cell for cell, _ in {(launch.record.cell, launch.record.block) for launch in launches}),
        )
        for run, launches in by_run.items()
    ]


def _count(run: str, launches: Iterable[Launch], settings: Mapping[str, Any]) -> Count:
    done = {launch.record.key: launch.record for launch in launches}
    blocks = 1 + max(record.block for record in done.values())
    if settings.get("search") or settings.get("design") == SEQUENTIAL:  # which plan none: they decide as they go
        return Count(run, len(done), None, least=False, settings=settings)
    asked = settings.get("launches")
    recorded = settings.get("planned")
    copies = len({(record.cell, record.control) for record in done.values()})
    # A run may have been resumed with more launches than its first line says.
    seen = copies * (max(blocks, asked) if type(asked) is int else blocks)
    if type(recorded) is int and recorded > 0:
        return Count(run, len(done), max(recorded, copies * blocks), least=False, settings=settings)
    planned = seen if type(asked) is int else None
    return Count(run, len(done), planned, least=blocks == 1 and planned != len(done), settings=settings)

"""How much sooner several devices reach an accuracy than one: the quotient of the seconds of training, seed by seed.

The base is the row with one device and the same batch on each, since that is what recipes for large batches are for:
the global batch grows, and the learning rate with it. Without such a row it is the one with the same global batch.
Nothing is tested: a training has few seeds. The median of the quotients stands with the lowest and highest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.scaling.efficiency import STRONG, WEAK, cell_alone


@dataclass(frozen=True)
class TimeSpeedup:
    """``value`` is the median quotient over ``seeds`` seeds; ``kind`` says what the base has in common."""

    value: float
    low: float
    high: float
    seeds: int
    kind: str
    base: Row


def find_time_speedups(group: Group, target: float | None) -> dict[RowKey, TimeSpeedup]:
    """The gain of every row with several devices that reached the target with all seeds, as its base did."""
    alone = {(row.run, row.cell): row for row in group.rows if row.cell.devices == 1 and row.ok}
    found: dict[RowKey, TimeSpeedup] = {}
    for row in (row for row in group.rows if row.cell.devices > 1 and row.ok):
        own = seconds_to(row, target)
        for kind in (WEAK, STRONG):
            base = alone.get((row.run, cell_alone(row.cell, kind)))
            quotients = _quotients(seconds_to(base, target), own) if base else []
            if base and quotients:
                found[row.key] = TimeSpeedup(
                    median(quotients), min(quotients), max(quotients), len(quotients), kind, base
                )
                break
    return found


def seconds_to(row: Row, target: float | None) -> dict[int, float]:
    """Seconds of training to the target by seed; none unless every launch reached it."""
    seconds: dict[int, float | None] = {}
    if target is None:
        return {}
    for record in row.ok:
        seed = record.run.get("seed")
        course = record.course and replace(record.course, target=target)
        seconds[seed if type(seed) is int else record.launch] = course.seconds_to_target if course else None
    if len(row.ok) < len(row.launches):
        return {}
    reached = {seed: each for seed, each in seconds.items() if each is not None}
    return reached if len(reached) == len(seconds) else {}


def _quotients(base: Mapping[int, float], own: Mapping[int, float]) -> Sequence[float]:
    return [base[seed] / own[seed] for seed in sorted(base.keys() & own.keys()) if own[seed] > 0]

"""What checkpoints cost the rows of a group: figures over launches, and ratios within blocks with their tests.

A save delays training by as much as windows with one take longer than as many steps without: so a checkpoint every so
many seconds costs 1 %, a hundred times the delay. Figures are means over launches, with Student's 95 % interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from statistics import median

from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.axes import Base
from suite.analysis.rows.groups import Group, RowKey
from suite.analysis.statistics.inference import Estimate, mean_test
from suite.analysis.statistics.multiple_testing import compare
from suite.analysis.statistics.ratios import Pair, Read, counterparts
from suite.record.parts.checkpoints import Checkpoints
from suite.record.record import Record

#: Times the delay of a save from one save to the next, where saves cost 1 %.
OF_ONE_PERCENT = 100


@dataclass(frozen=True, kw_only=True)
class SavingCost:
    """What one way to save cost the launches of a cell. ``ratio`` says how many times as fast its saves are."""

    run: str
    cell: str
    phase: str
    way: str
    launches: int
    figures: dict[str, Estimate]
    ratio: Estimate


def delay_s(record: Record, phase: str) -> float | None:
    """By how many seconds a save delays training; below zero where noise is more than that."""
    windows, plain = record.phases[phase].windows, record.phases.get("unsaved")
    if not plain:
        return None
    spent_s, steps = math.fsum(each.seconds for each in windows), sum(each.steps for each in windows)
    return (spent_s - steps * plain.step_s) / len(windows)


def _ms(name: str) -> Callable[[Record, str], float]:
    return lambda record, phase: 1e3 * median(getattr(_of(record)[phase], name))


#: The figures of a launch, of the saves of a phase: milliseconds, bytes, and seconds from one save to the next.
FIGURES: dict[str, Callable[[Record, str], float | None]] = {
    "save_ms": _ms("save_s"),
    "disk_ms": _ms("disk_s"),
    "bytes": lambda record, phase: float(_of(record)[phase].bytes),
    "delay_ms": lambda record, phase: _times(1e3, delay_s(record, phase)),
    "every_s": lambda record, phase: _times(OF_ONE_PERCENT, delay_s(record, phase)),
}


def _times(factor: float, value: float | None) -> float | None:
    return None if value is None else factor * value


def _of(record: Record) -> dict[str, Checkpoints]:
    return record.checkpoints or {}


@cache
def _save_ms(phase: str) -> Read:
    """Reads how long a save keeps training waiting; one function for each phase, by which ratios are told apart."""
    return lambda record: FIGURES["save_ms"](record, phase) if phase in _of(record) else None


def savings(
    group: Group, at: Base, verdicts: Mapping[RowKey, Verdict], margin: float
) -> dict[tuple[RowKey, str], SavingCost]:  # fmt: skip
    """Of each row that saved and each way; ratios are to the row at the base ``at``, Holm's correction over all."""
    saved = {
        (row.key, phase): [record for record in row.ok if phase in _of(record)]
        for row in group.rows
        for phase in dict.fromkeys(phase for record in row.ok for phase in _of(record))
    }
    wanted = {
        (row.key, phase): Pair(row, other, read=_save_ms(phase), power=-1)
        for row, other in counterparts(group, at)
        for phase in (phase for key, phase in saved if key == row.key)
    }
    formed = compare(wanted, group, verdicts, margin)
    return {
        (key, phase): SavingCost(
            run=key[0], cell=key[1].id, phase=phase, way=_of(records[0])[phase].way, launches=len(records),
            figures={name: _mean(records, partial(read, phase=phase)) for name, read in FIGURES.items()},
            ratio=formed.get((key, phase), Estimate()),
        )
        for (key, phase), records in saved.items()
    }  # fmt: skip


def _mean(records: Sequence[Record], read: Read) -> Estimate:
    values = [value for record in records if (value := read(record)) is not None]
    if len(values) < 2:
        return Estimate(*values, blocks=len(values))
    mean, low, high, *_ = mean_test(values)
    return Estimate(mean, low, high, len(values))

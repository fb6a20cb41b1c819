"""Searches for the largest batch that fits: doubling, then bisection, each try in a fresh process.

Each try is a complete launch with the cell's own loader and short windows, since a formula would leave out the memory
of the allocator, the compiler and cuDNN's workspaces. All tries are kept, with outcome and peak memory.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from suite.plan.cell import AUTO, Cell
from suite.plan.measuring import Plan
from suite.plan.schema import SchemaError, decode
from suite.record.record import DID_NOT_FIT, Outcome, Record, Status

START = 32
#: Bisection ends when the gap is at most this share of the batch that fits; throughput hardly changes over less.
RESOLUTION = 1 / 16
#: Windows of a try: two steps of each phase, so that optimizer, prefetched batches and allocator caches exist.
PLAN = Plan(min_window_s=0.0, windows=1, max_warmup_s=0.0)


@dataclass(frozen=True)
class Try:
    """One batch size that was tried: how it ended, and its peaks of memory in bytes by kind."""

    batch: int
    status: Status
    reason: str
    memory: dict[str, int]


@dataclass(frozen=True)
class Fit:
    """The largest batch that fits, or None; and every try that led there, in order."""

    batch: int | None
    tries: tuple[Try, ...]

    @property
    def outcome(self) -> Outcome:
        """How the search ended if no batch fits."""
        last = self.tries[-1]
        return Outcome(last.status, f"not even batch {last.batch} ran: {last.reason}")

    def less(self, record: Record) -> Fit:
        """The fit without the batch of this launch, which did not fit after all."""
        tries = (*self.tries, _describe(record))
        batches = [attempt.batch for attempt in tries if attempt.status == "ok" and attempt.batch < record.cell.batch]
        return Fit(max(batches, default=None), tries)

    def annotate(self, record: Record, cell: Cell) -> Record:
        """The record of a launch with this fit's batch, as a record of the cell with batch `AUTO`."""
        tries = [vars(attempt) for attempt in self.tries]
        effective = (self.batch or 0) * cell.accumulate * cell.devices
        settings = record.settings | {"effective_batch": effective, "batch_search": tries}
        return replace(record, cell=cell, settings=settings)


def largest(attempt: Callable[[int], Record]) -> Fit:
    """Search with ``attempt``, which launches one batch size and returns its record.

    From `START` on it doubles while the batch fits, or halves until it does; then it bisects, on multiples of eight
    where the batches are large. It stops at the first outcome that says nothing about memory.
    """
    tries: list[Try] = []
    low, high = 0, 0  # the largest that fits, and the smallest that does not; 0 while unknown
    batch = START
    while batch:
        record = attempt(batch)
        tries.append(_describe(record))
        status = record.outcome.status
        if record.outcome.ok:
            low = batch
        elif status in DID_NOT_FIT or (low and status == "unsupported"):
            high = batch
        else:
            break
        batch = _next(low, high)
    return Fit(low or None, tuple(tries))


def free_memory() -> int:
    """Bytes that a process could still take: what the system has available, and no more than its control group may."""
    free: int = psutil.virtual_memory().available
    group = Path("/sys/fs/cgroup")
    with contextlib.suppress(OSError, ValueError):  # no group, or one without a limit ("max")
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        free = min(free, limit - used)
    return max(free, 0)


def fits_by_cell(records: Iterable[Record]) -> dict[Cell, Fit]:
    """The fits that earlier launches of a run recorded, by cell."""
    fits = {}
    for record in records:
        tries = record.settings.get("batch_search")
        if record.cell.batch == AUTO and isinstance(tries, list):
            batch = record.effective_batch // (record.cell.accumulate * record.cell.devices)
            with contextlib.suppress(SchemaError):  # what no search can have written; it is searched again
                fits[record.cell] = Fit(batch or None, tuple(decode(Try, attempt) for attempt in tries))
    return fits


def _describe(record: Record) -> Try:
    return Try(record.cell.batch, record.outcome.status, record.outcome.reason, record.memory)


def _next(low: int, high: int) -> int:
    if not high:
        return 2 * low
    if not low:
        return high // 2
    step = 8 if low >= 64 else 1
    middle = (low + high) // 2 // step * step
    close = high - low <= low * RESOLUTION
    return middle if low < middle < high and not close else 0

"""What the exchange of gradients costs a row of several devices, and how evenly its processes work.

A cell with several devices is measured in a fourth phase: steps without communication (`local`). What a step with
communication takes longer is what the exchange costs, since what overlaps with compute costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from suite.analysis.rows.conditions import facts
from suite.analysis.rows.groups import Row
from suite.analysis.statistics import inference as statistics
from suite.catalog.devices import ACCELERATORS
from suite.record.record import Record

#: Steps that take at most this many times as long as without communication are not limited by it.
COVERED = 1.05


@dataclass(frozen=True)
class Communication:
    """The share of a step on several devices that communication costs, 0 if steps without it were no faster.

    ``low`` and ``high`` are the 95 % interval over ``launches``; None with a single launch, which has none. ``bound``
    says whether the interval lies wholly beyond `COVERED`, and None that it does not decide.
    """

    share: float
    low: float | None = None
    high: float | None = None
    launches: int = 1

    @property
    def bound(self) -> bool | None:
        if self.low is None or self.high is None:
            return None
        limit = 1 - 1 / COVERED
        return None if self.low <= limit < self.high else self.low > limit


@dataclass(frozen=True)
class Exchange:
    """How the processes of a row worked together, medians over launches; None where no launch says it.

    ``skew`` is the slowest process by the median one. ``bytes_per_s`` is the rate of a sum of ``gradient_bytes`` over
    all devices, and ``peak_bytes_per_s`` the best rate of the same backend with a larger array.
    """

    skew: float | None = None
    gradient_bytes: float | None = None
    bytes_per_s: float | None = None
    peak_bytes_per_s: float | None = None

    @property
    def of_peak(self) -> float | None:
        return self.bytes_per_s / self.peak_bytes_per_s if self.bytes_per_s and self.peak_bytes_per_s else None


def phase_ratios(row: Row, phase: str, base: str) -> list[float]:
    """The time of a phase's step over that of another phase, in each launch that has both."""
    timed = [record.phases for record in row.ok if {phase, base} <= record.phases.keys()]
    return [phases[phase].step_s / phases[base].step_s for phases in timed]


def communication(row: Row) -> Communication | None:
    """What communication costs the row; None for one device, and where it was not measured."""
    measured = phase_ratios(row, "local", "compute")
    if row.cell.devices < 2 or not measured:
        return None
    found = statistics.interval(measured)
    if found is None:
        return Communication(max(0.0, 1 - measured[0]))
    return Communication(max(0.0, 1 - found.value), 1 - found.high, 1 - found.low, found.blocks)


def apart(row: Row, one: Row) -> statistics.Paired | None:
    """The samples of a row's devices as instances that exchange nothing, relative to those of ``one`` device."""
    rates, alone = (
        {each.block: each.effective_batch / each.phases[phase].step_s for each in of.ok if phase in each.phases}
        for of, phase in ((row, "local"), (one, "compute"))
    )
    return statistics.interval([rate / alone[block] for block, rate in rates.items() if block in alone])


def exchange(row: Row) -> Exchange:
    """How the processes of a row worked together, from its launches' ``ranks``."""
    ranks = [record.ranks for record in row.ok if record.ranks]
    sums = [each.allreduce for each in ranks if each.allreduce]
    return Exchange(
        skew=_median(each.skew for each in ranks),
        gradient_bytes=_median(float(each.gradient_bytes) or None for each in ranks),
        bytes_per_s=_median(each.bytes_per_s or None for each in sums),
        peak_bytes_per_s=_median(each.peak_bytes_per_s or None for each in sums),
    )


def threads_per_device(row: Row) -> str:
    """The threads that each device computed with, as ``1``; of a GPU, and where no launch says it, empty."""
    if any(record.settings.get("device") in ACCELERATORS for record in row.ok):
        return ""
    return " and ".join(sorted({_threads(record) for record in row.ok} - {""}))


def _threads(record: Record) -> str:
    if ranks := record.ranks:  # one process may have several devices, which share its threads
        return f"{ranks.threads_per_rank * ranks.world / max(1, ranks.devices):g}" if ranks.threads_per_rank else ""
    if record.settings.get("device") != "cpu":
        return ""
    machine = record.environment.get("machine")
    cores = record.settings.get("cores") or (machine.get("cores") if isinstance(machine, dict) else None)
    # JAX says nothing of threads on a CPU, where it has one for each core.
    return facts(record).get("threads") or (f"{cores}" if type(cores) is int else "")


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None

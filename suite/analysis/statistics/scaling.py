"""How throughput grows with the number of devices: weak and strong scaling of each framework and strategy.

*Weak* scaling keeps the batch of each device: more work in a step, and another training. *Strong* scaling keeps the
global batch: the same training, with less work for each device. The *speed-up* is the throughput over that of one
device (or of the fewest), and the *efficiency* the speed-up over the number of devices. A speed-up is tested against 1,
which means that further devices bring nothing; an efficiency against 1, which means that none of them is lost.

A cell with several devices is also measured without communication (`local`). What a step takes longer with it is what
the exchange of gradients costs, since what overlaps with compute costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from statistics import median

from suite.analysis.identity.verdicts import Verdict
from suite.analysis.records.steps import compiled_in_windows
from suite.analysis.rows.blocks import seed_of
from suite.analysis.rows.conditions import facts
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics import inference as statistics
from suite.analysis.statistics.inference import Estimate
from suite.analysis.statistics.multiple_testing import NOTHING, Known, compare
from suite.analysis.statistics.ratios import Pair
from suite.catalog.devices import ACCELERATORS
from suite.plan.cell import AUTO, FRAMEWORKS, Cell
from suite.plan.measuring import MARGIN
from suite.record.record import Record

#: Steps that take at most this many times as long as without communication are not limited by it.
COVERED = 1.05


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
    """The time of a phase's step over that of another phase, in each launch that has both and compiled in neither."""
    ok = (record for record in row.ok if not compiled_in_windows(record))
    timed = [record.phases for record in ok if {phase, base} <= record.phases.keys()]
    return [phases[phase].step_s / phases[base].step_s for phases in timed]


def communication(row: Row) -> Estimate | None:
    """The share of a step that communication costs, 0 if steps without it were no faster.

    A single launch has no interval. None for one device, and where it was not measured.
    """
    measured = phase_ratios(row, "local", "compute")
    if row.cell.devices < 2 or not measured:
        return None
    found = statistics.interval(measured)
    if found is None:
        return Estimate(max(0.0, 1 - measured[0]), blocks=1)
    return Estimate(max(0.0, 1 - found.value), 1 - found.high, 1 - found.low, found.blocks)


def is_communication_bound(cost: Estimate) -> bool | None:
    """Whether the interval of what communication costs lies wholly beyond `COVERED`; None if it does not decide."""
    if cost.low is None or cost.high is None:
        return None
    limit = 1 - 1 / COVERED
    return None if cost.low <= limit < cost.high else cost.low > limit


def independent_throughput(row: Row, one: Row) -> statistics.Paired | None:
    """The samples of a row's devices as instances that exchange nothing, relative to those of ``one`` device."""
    rates, alone = (
        {each.block: each.effective_batch / each.phases[phase].step_s for each in of.ok if phase in each.phases}
        for of, phase in ((row, "local"), (one, "compute"))
    )
    return statistics.interval([rate / alone[block] for block, rate in rates.items() if block in alone])


def exchange(row: Row) -> Exchange:
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


WEAK, STRONG = "weak", "strong"
KINDS = (WEAK, STRONG)


@dataclass(frozen=True)
class Point:
    """A row of a scaling, and what it gains over the base; the base itself has ratios of 1 and no test."""

    row: Row
    speed_up: Estimate
    efficiency: Estimate
    communication: Estimate | None
    exchange: Exchange
    threads: str

    @property
    def devices(self) -> int:
        return self.row.cell.devices

    @property
    def global_batch(self) -> int:
        return self.row.cell.effective_batch


@dataclass(frozen=True)
class Scaling:
    """Rows of one run that differ in the number of devices alone, by `WEAK` or `STRONG` scaling; the base first.

    ``strategy`` is that of all rows with several devices.
    """

    kind: str
    strategy: str
    points: tuple[Point, ...]

    @property
    def framework(self) -> str:
        return self.base.row.cell.framework

    @property
    def base(self) -> Point:
        return self.points[0]

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(point.row for point in self.points)

    @property
    def ratios(self) -> list[Estimate]:
        return [ratio for point in self.points for ratio in (point.speed_up, point.efficiency)]


def scalings(
    group: Group, verdicts: Mapping[RowKey, Verdict], margin: float = MARGIN, known: Known = NOTHING
) -> list[Scaling]:
    """The scalings of a group, the weak ones first, in the order of its rows; none without cells of several devices."""
    sets = [(kind, strategy, rows) for kind in KINDS for strategy, rows in _sets(group.rows, kind)]
    wanted = {
        (row.key, base.key, per): Pair(row, base, per)
        for *_, (base, *others) in sets
        for row in others
        for per in (1.0, row.cell.devices / base.cell.devices)
    }
    formed = compare(wanted, group, verdicts, margin, known)

    def point(row: Row, base: Row) -> Point:
        one = Estimate(1.0, 1.0, 1.0, len(base.ok))
        speed_up = formed.get((row.key, base.key, 1.0), one)
        efficiency = formed.get((row.key, base.key, row.cell.devices / base.cell.devices), one)
        return Point(row, speed_up, efficiency, communication(row), exchange(row), threads_per_device(row))

    return [Scaling(kind, strategy, tuple(point(row, rows[0]) for row in rows)) for kind, strategy, rows in sets]


def _sets(rows: Iterable[Row], kind: str) -> list[tuple[str, list[Row]]]:
    rows = [row for row in rows if row.ok and row.cell.batch != AUTO]
    alone = {(row.run, row.cell): row for row in rows if row.cell.devices == 1}
    sets: dict[tuple[str, Cell, str], list[Row]] = {}
    for row in rows:
        if row.cell.devices > 1:
            sets.setdefault((row.run, cell_alone(row.cell, kind), row.cell.strategy), []).append(row)
    ranks = {row.key: rank for rank, row in enumerate(rows)}
    found = []
    for (run, cell, strategy), several in sets.items():
        first = [alone[run, cell]] if (run, cell) in alone else []
        members = [*first, *sorted(several, key=lambda row: row.cell.devices)]
        if len(members) > 1:
            found.append((strategy, members))
    # Those that share a base stand next to each other.
    return sorted(found, key=lambda each: (FRAMEWORKS.index(each[1][0].cell.framework), ranks[each[1][0].key]))


def cell_alone(cell: Cell, kind: str) -> Cell:
    """The cell of one device that this one scales: with the same batch per device, or with the same global batch."""
    return cell.but(devices=1, strategy="", batch=cell.batch * (cell.devices if kind == STRONG else 1))


@dataclass(frozen=True)
class TimeSpeedup:
    """How much sooner several devices reach an accuracy: the median, lowest and highest quotient over seeds.

    The base is the row with one device and the same batch on each, as recipes for large batches are for that: ``kind``
    is `WEAK`. Without such a row it is the one with the same global batch. Nothing is tested: a training has few seeds.
    """

    ratio: Estimate
    kind: str


def find_time_speedups(group: Group, target: float | None) -> dict[RowKey, TimeSpeedup]:
    """The gain of every row with several devices that reached the target with all seeds, as its base did."""
    alone = {(row.run, row.cell): row for row in group.rows if row.cell.devices == 1 and row.ok}
    found: dict[RowKey, TimeSpeedup] = {}
    for row, kind in product((row for row in group.rows if row.cell.devices > 1 and row.ok), KINDS):
        base, own = alone.get((row.run, cell_alone(row.cell, kind))), seconds_to(row, target)
        before = seconds_to(base, target) if base else {}
        quotients = [before[seed] / own[seed] for seed in before.keys() & own.keys() if own[seed] > 0]
        if quotients:
            ratio = Estimate(median(quotients), min(quotients), max(quotients), len(quotients))
            found.setdefault(row.key, TimeSpeedup(ratio, kind))
    return found


def seconds_to(row: Row, target: float | None) -> dict[int, float]:
    """Seconds of training to the target by seed; none unless every launch reached it."""
    if target is None or len(row.ok) < len(row.launches):
        return {}
    courses = {seed_of(record): replace(record.course, target=target) for record in row.ok if record.course}
    reached = {seed: seconds for seed, each in courses.items() if (seconds := each.seconds_to_target) is not None}
    return reached if len(reached) == len({seed_of(record) for record in row.ok}) else {}

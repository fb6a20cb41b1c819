"""The numbers behind the plots, as plain values, so that they can be tested without drawing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from suite.analysis.identity.comparability import NOT_PLOTTED
from suite.analysis.rows.groups import Row
from suite.analysis.rows.wording import figure
from suite.analysis.statistics.inference import INCONCLUSIVE, Estimate
from suite.analysis.statistics.multiple_testing import compare
from suite.analysis.statistics.ratios import Pair, break_even_steps, first_and_step_s
from suite.catalog.metrics import joules_per_sample, number
from suite.plan.cell import AUTO, LATER, USUAL_COMPILE, Cell, Loader
from suite.record.record import DID_NOT_FIT, Record
from suite.report.tables.frame import Table, batch_tries

#: A value with the ends of its interval.
Spread = tuple[float, float, float]

#: When compiling pays, besides a number of steps: by the verdict on its speed, where that names none.
NEVER, AT_ONCE = "never", "at once"
UNSETTLED = {INCONCLUSIVE: "not decided", "equal": "equally fast"}


@dataclass(frozen=True)
class SpeedUp:
    """A row's throughput over its base's; that of the base itself is 1, over no blocks."""

    row: Row
    ratio: Estimate = Estimate(1.0, 1.0, 1.0)  # noqa: RUF009 - frozen


@dataclass(frozen=True)
class Series:
    """Throughputs of rows that differ in one number: the median, the lowest and the highest of each.

    ``memory`` is the peak in bytes by batch, ``edge`` the smallest batch that is known not to fit, ``ceiling`` the
    throughput of the steps alone.
    """

    rows: tuple[Row, ...]
    rates: Mapping[float, Spread]
    memory: Mapping[float, float] = field(default_factory=dict)
    edge: int | None = None
    ceiling: float | None = None


@dataclass(frozen=True)
class CompileCost:
    """The time of n steps, ``first_s + n * step_s``, and the number of steps after which compiling pays."""

    row: Row
    first_s: float
    step_s: float
    pays_after: float | None = None

    def at(self, steps: float) -> float:
        return self.first_s + steps * self.step_s


@dataclass(frozen=True)
class Consumption:
    """Samples per second and joules per sample, medians over launches; ``on_front`` if no row is better in both."""

    row: Row
    samples_per_s: float
    joules: float
    on_front: bool = False


def speed_ups(table: Table) -> list[SpeedUp]:
    """Returns the speed-up of every cell over the base cell of its framework, run and number of devices.

    The base has the usual compile mode, fp32, the tuned loader, no accumulation, and the batch that most cells have.
    With at least `BLOCKS_LEAST` blocks a speed-up is the geometric mean with its corrected interval, with fewer the
    median, lowest and highest. Rows whose fingerprint differs and frameworks that have only a base are left out.
    """
    sound = [row for row in table.group.rows if row.ok and table.identities[row.key].kind not in NOT_PLOTTED]
    bases = _bases(sound)
    wanted = {row.key: Pair(row, base) for row in sound if (base := bases.get(_of_base(row)))}
    formed = compare(wanted, table.group, table.identities, table.margin, table.findings.known)
    ratios: list[SpeedUp] = []
    for row in sound:
        ratio = formed.get(row.key)
        if row is bases.get(_of_base(row)):
            ratios.append(SpeedUp(row))
        elif ratio and ratio.value and ratio.low and ratio.high:
            ratios.append(SpeedUp(row, ratio))
    compared = {_of_base(each.row) for each in ratios if each.ratio.blocks}
    return [each for each in ratios if _of_base(each.row) in compared]


def _of_base(row: Row) -> tuple[str, str, int]:
    return row.run, row.cell.framework, row.cell.devices


def _bases(rows: Sequence[Row]) -> dict[tuple[str, str, int], Row]:
    """Returns the bases by `_of_base`. If several batches have equally many cells, the smallest counts."""
    bases: dict[tuple[str, str, int], Row] = {}
    for run in dict.fromkeys(row.run for row in rows):
        counts = Counter(row.cell.batch for row in rows if row.run == run and row.cell.batch != AUTO)
        plain_rows = [row for row in rows if row.run == run and row.cell.batch != AUTO and row.cell == _plain(row.cell)]
        if plain_rows:
            batch = min({row.cell.batch for row in plain_rows}, key=lambda size: (-counts[size], size))
            bases |= {_of_base(row): row for row in plain_rows if row.cell.batch == batch}
    return bases


def _plain(cell: Cell) -> Cell:
    """Returns the cell with the same workload, size, batch and devices and the usual settings for the rest."""
    usual = USUAL_COMPILE[cell.framework]
    return cell.but(compile=usual, precision="fp32", loader=Loader(), accumulate=1, kernel="auto", strategy="", **LATER)


def _alike(table: Table, key: Callable[[Cell], Cell | None]) -> Iterable[list[Row]]:
    """Returns the sets of rows of one run with the same key; rows without one are left out."""
    sets: dict[tuple[str, Cell], list[Row]] = {}
    for row in table.group.rows:
        if same := key(row.cell):
            sets.setdefault((row.run, same), []).append(row)
    return sets.values()


def batches(table: Table) -> list[Series]:
    """Returns throughput and peak memory against batch size, for each set of cells that differ only in the batch.

    A batch that a search found counts at the size found; the search's other tries have no throughput and give only
    their memory. A set needs at least two batches that were tried and one that ran.
    """
    sets = _alike(table, lambda cell: cell.but(batch=AUTO))
    return list(filter(None, (_against_batch(rows, memory_kind(table)) for rows in sets)))


def memory_kind(table: Table) -> str:
    """Returns the kind of peak memory that the table shows; empty if no row has any."""
    return next((cell.peak_memory_kind for cell in table.cells if cell.peak_memory_kind), "")


def _against_batch(rows: Sequence[Row], kind: str) -> Series | None:
    rates: dict[int, list[float]] = {}
    peaks: dict[int, float] = {}
    tried: dict[int, float | None] = {}
    failed: set[int] = set()
    for row in sorted(rows, key=lambda row: row.cell.batch == AUTO):
        known = set(rates)  # a batch that was given takes precedence over the same batch found by a search
        for record in row.ok:
            parts = row.cell.accumulate * row.cell.devices
            batch, rate = record.effective_batch // parts, record.samples_per_s
            if batch in known or rate is None:
                continue
            rates.setdefault(batch, []).append(rate)
            if kind in record.memory:
                peaks[batch] = max(peaks.get(batch, 0.0), record.memory[kind])
        if row.cell.batch != AUTO and not row.ok and "out-of-memory" in row.outcome:
            failed.add(row.cell.batch)
        for batch, status, memory in (each for launch in row.launches for each in batch_tries(launch.record)):
            if status == "ok":
                tried.setdefault(batch, number(memory.get(kind)))
            elif status in DID_NOT_FIT:
                failed.add(batch)
    if not rates or len({*rates, *tried, *failed}) < 2:
        return None
    largest = max({*rates, *(tried.keys() - failed)})
    edge = min((batch for batch in failed if batch > largest), default=None)
    peak_by_batch = {batch: peak for batch, peak in tried.items() if peak is not None and batch not in failed} | peaks
    return Series(tuple(rows), _spreads(rates), dict(sorted(peak_by_batch.items())), edge)


def _spreads(values: Mapping[int, Sequence[float]]) -> dict[float, Spread]:
    return {x: (median(rates), min(rates), max(rates)) for x, rates in sorted(values.items())}


def workers(table: Table) -> list[Series]:
    """Returns throughput against the loader's workers, for each set of cells that differ only in the workers."""

    def alike(cell: Cell) -> Cell | None:
        return cell.but(loader=replace(cell.loader, workers=0)) if cell.loader.kind == "workers" else None

    return _series_by_count(table, lambda cell: cell.loader.workers, alike, ceiling=True)


def threads(table: Table) -> list[Series]:
    """Returns throughput against the threads that cells ask for, for each set that differs only in them."""
    return _series_by_count(
        table, lambda cell: cell.threads, lambda cell: cell.but(threads=0) if cell.threads else None
    )


def cores(table: Table) -> list[Series]:
    """Returns throughput against the cores that cells ask for, likewise."""
    return _series_by_count(table, lambda cell: cell.cores, lambda cell: cell.but(cores=0) if cell.cores else None)


def _series_by_count(
    table: Table, count: Callable[[Cell], int], alike: Callable[[Cell], Cell | None], ceiling: bool = False
) -> list[Series]:
    """Returns throughput against a count of cells that are ``alike`` but for it; None for cells without one."""
    series = []
    for rows in ([row for row in each if row.ok] for each in _alike(table, alike)):
        rates = {count(row.cell): [rate for record in row.ok if (rate := record.samples_per_s)] for row in rows}
        ceilings = [rate for row in rows for record in row.ok if (rate := _compute_rate(record))] if ceiling else []
        if len(rates) > 1:
            series.append(Series(tuple(rows), _spreads(rates), ceiling=median(ceilings) if ceilings else None))
    return series


def _compute_rate(record: Record) -> float | None:
    phase = record.phases.get("compute")
    return record.effective_batch / phase.step_s if phase else None


def pays(table: Table, row: Row) -> str:
    """Returns after how many steps compiling pays, such as ``310``, or ``never``, by the test of the modes' speed.

    Empty for a framework's usual mode, and where there is none beside it.
    """
    ratio = table.findings.modes.get(row.key)
    if ratio is None:
        return ""
    if ratio.verdict in UNSETTLED:
        return UNSETTLED[ratio.verdict]
    steps = break_even_steps(row, table.group)
    return NEVER if steps is None or ratio.verdict == "slower" else figure(steps) if steps else AT_ONCE


def courses(table: Table) -> list[list[CompileCost]]:
    """Returns the sets of rows that differ only in the compile mode, the usual mode first."""

    def usual(cell: Cell) -> Cell:
        return cell.but(compile=USUAL_COMPILE[cell.framework], cache="")

    modes = []
    for each in _alike(table, usual):
        rows = [row for row in each if row.ok and all(record.first_step_s is not None for record in row.ok)]
        rows.sort(key=lambda row: row.cell != usual(row.cell))
        if len(rows) > 1 and rows[0].cell == usual(rows[0].cell):
            modes.append([CompileCost(row, *first_and_step_s(row), break_even_steps(row, table.group)) for row in rows])
    return modes


def consumptions(table: Table) -> list[Consumption]:
    """Returns the consumption of every row with energy; those on the Pareto front of their machine are marked.

    Rows whose fingerprint differs are ignored in the front and never on it.
    """
    measured = [(each, table.identities[row.key].kind) for row in table.group.rows if (each := _consumption(row))]
    rivals: dict[str, list[tuple[float, float]]] = {}
    for each, kind in measured:
        if kind not in NOT_PLOTTED:
            rivals.setdefault(each.row.machine, []).append((each.samples_per_s, each.joules))
    return [
        replace(
            each,
            on_front=kind not in NOT_PLOTTED and unbeaten((each.samples_per_s, each.joules), rivals[each.row.machine]),
        )
        for each, kind in measured
    ]


def _consumption(row: Row) -> Consumption | None:
    joules = [each for record in row.ok if (each := joules_per_sample(record))]
    rates = [rate for record in row.ok if (rate := record.samples_per_s)]
    return Consumption(row, median(rates), median(joules)) if rates and joules and min(joules) > 0 else None


def unbeaten(point: tuple[float, float], points: Iterable[tuple[float, float]]) -> bool:
    """Returns whether no other point is at least as fast on at most as much energy."""
    rate, joules = point
    return not any(r >= rate and j <= joules for r, j in points if (r, j) != point)

"""The numbers behind the plots, as plain values: what is drawn can be tested without a picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from suite.analysis import statistics
from suite.analysis.bottleneck import share, step_s
from suite.analysis.groups import Row
from suite.analysis.metrics import first_gpu, number
from suite.analysis.ratios import break_even_steps, by_block, first_and_step_s
from suite.plan.cell import AUTO, USUAL_COMPILE, Cell, Loader
from suite.record.record import DID_NOT_FIT, Record
from suite.report.tables import Table


@dataclass(frozen=True)
class SpeedUp:
    """A row's throughput over its base's, with bounds over so many blocks; without blocks it is the base itself."""

    row: Row
    value: float = 1.0
    low: float = 1.0
    high: float = 1.0
    blocks: int = 0


@dataclass(frozen=True)
class Spent:
    """Seconds per step: of training, of the same steps on batches already on the device, of the loader alone."""

    row: Row
    train_s: float
    compute_s: float
    input_s: float | None

    @property
    def loading_s(self) -> float:
        """What loading adds to a step; what is hidden behind it costs nothing."""
        return max(0.0, self.train_s - self.compute_s)


@dataclass(frozen=True)
class Point:
    """A median over launches with the lowest and the highest."""

    x: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Series:
    """Throughputs of rows that differ in one number, ``x``.

    ``memory`` is the peak in bytes by batch, ``edge`` the smallest batch that is known not to fit, ``ceiling`` the
    throughput of the steps alone.
    """

    rows: tuple[Row, ...]
    points: tuple[Point, ...]
    memory: tuple[tuple[int, float], ...] = ()
    edge: int | None = None
    ceiling: float | None = None


@dataclass(frozen=True)
class Course:
    """``first_s + n * step_s`` seconds for n steps, and after how many a compile mode has paid for itself."""

    row: Row
    first_s: float
    step_s: float
    pays_after: float | None = None

    def at(self, steps: float) -> float:
        return self.first_s + steps * self.step_s


@dataclass(frozen=True)
class Consumption:
    """Samples per second and joules per sample, medians over launches; ``on_front`` if no row beats it in both."""

    row: Row
    samples_per_s: float
    joules: float
    on_front: bool = False


def speed_ups(table: Table) -> list[SpeedUp]:
    """Every cell against the base cell of its framework and run: what each setting gains or costs there.

    The base has the usual compile mode, fp32, the tuned loader, no accumulation, and the batch that most cells have.
    From `statistics.LEAST` blocks on it is the geometric mean with its 95 % interval; with fewer the median, the lowest
    and the highest. Rows whose fingerprint differs are left out, and a framework of which only the base is there.
    """
    kinds = zip(table.group.rows, table.frame["identity_kind"], strict=True)
    sound = [row for row, kind in kinds if row.ok and kind != "differs"]
    bases = _bases(sound)
    found: list[SpeedUp] = []
    for row in sound:
        base = bases.get((row.run, row.cell.framework))
        if base is row:
            found.append(SpeedUp(row))
        elif base and row.machine == base.machine and (values := by_block(row, base)):
            found.append(_summarised(row, values))
    told = {(each.row.run, each.row.cell.framework) for each in found if each.blocks}
    return [each for each in found if (each.row.run, each.row.cell.framework) in told]


def _bases(rows: Sequence[Row]) -> dict[tuple[str, str], Row]:
    """By run and framework. Where several batches have as many cells, the smallest of them."""
    found: dict[tuple[str, str], Row] = {}
    for run in dict.fromkeys(row.run for row in rows):
        held = [row for row in rows if row.run == run and row.cell.batch != AUTO]
        counts = Counter(row.cell.batch for row in held)
        able = [row for row in held if row.cell == _plain(row.cell)]
        if able:
            batch = min({row.cell.batch for row in able}, key=lambda size: (-counts[size], size))
            found |= {(run, row.cell.framework): row for row in able if row.cell.batch == batch}
    return found


def _plain(cell: Cell) -> Cell:
    """The same workload, size and batch as most people would start with them."""
    usual = USUAL_COMPILE[cell.framework]
    return cell.but(compile=usual, precision="fp32", loader=Loader(), accumulate=1, kernel="auto")


def _summarised(row: Row, values: Sequence[float]) -> SpeedUp:
    test = statistics.paired(values)
    if test:
        return SpeedUp(row, test.value, test.low, test.high, test.blocks)
    return SpeedUp(row, median(values), min(values), max(values), len(values))


def spent(table: Table) -> list[Spent]:
    """Where the time of a step goes, of every row that has both phases; medians over launches, of shares too."""
    found = []
    for row in table.group.rows:
        train, compute, given = step_s(row, "train"), share(row, "compute"), share(row, "input")
        if train is not None and compute is not None:
            found.append(Spent(row, train, train * compute, None if given is None else train * given))
    return found


def batches(table: Table) -> list[Series]:
    """Throughput and peak memory against batch size, of each set of cells that differ in nothing else.

    A batch that was found by trying stands where it was found; the tries before it, which have no throughput, give
    their memory. Only sets of which at least two batches were tried, and one ran.
    """
    kind = memory_kind(table)
    alike: dict[tuple[str, Cell], list[Row]] = {}
    for row in table.group.rows:
        alike.setdefault((row.run, row.cell.but(batch=AUTO)), []).append(row)
    found = [_against_batch(rows, kind) for rows in alike.values()]
    return [each for each in found if each]


def memory_kind(table: Table) -> str:
    """The kind of peak memory that all rows can show, or most; empty where no row has any."""
    return next((str(kind) for kind in table.frame["peak_memory_kind"] if kind), "")


def _against_batch(rows: Sequence[Row], kind: str) -> Series | None:
    rates: dict[int, list[float]] = {}
    peaks: dict[int, float] = {}
    tried: dict[int, float | None] = {}
    failed: set[int] = set()
    for row in sorted(rows, key=lambda row: row.cell.batch == AUTO):
        known = set(rates)  # a batch that was asked for goes before the same one that was found
        for record in row.ok:
            batch, rate = record.effective_batch // row.cell.accumulate, record.samples_per_s
            if batch in known or rate is None:
                continue
            rates.setdefault(batch, []).append(rate)
            if kind in record.memory:
                peaks[batch] = max(peaks.get(batch, 0.0), record.memory[kind])
        if row.cell.batch != AUTO and not row.ok and "out-of-memory" in row.outcome:
            failed.add(row.cell.batch)
        for batch, status, memory in _tries(row):
            if status == "ok":
                tried.setdefault(batch, number(memory.get(kind)))
            elif status in DID_NOT_FIT:
                failed.add(batch)
    if not rates or len({*rates, *tried, *failed}) < 2:
        return None
    largest = max({*rates, *(tried.keys() - failed)})
    edge = min((batch for batch in failed if batch > largest), default=None)
    held = {batch: peak for batch, peak in tried.items() if peak is not None and batch not in failed} | peaks
    return Series(tuple(rows), _points(rates), tuple(sorted(held.items())), edge)


def _tries(row: Row) -> Iterable[tuple[int, str, Mapping[str, Any]]]:
    """What was tried to find a batch: its size, how it ended, its memory. A record's settings may hold anything."""
    for launch in row.launches:
        tries = launch.record.settings.get("batch_search")
        for each in tries if isinstance(tries, list) else []:
            if isinstance(each, dict) and type(batch := each.get("batch")) is int and batch > 0:
                memory = each.get("memory")
                yield batch, str(each.get("status")), memory if isinstance(memory, dict) else {}


def _points(values: Mapping[int, Sequence[float]]) -> tuple[Point, ...]:
    return tuple(Point(x, median(held), min(held), max(held)) for x, held in sorted(values.items()))


def workers(table: Table) -> list[Series]:
    """Throughput against the loader's workers, of each set of cells that differ in nothing else."""
    alike: dict[tuple[str, Cell], list[Row]] = {}
    for row in table.group.rows:
        cell = row.cell
        if cell.loader.kind == "workers" and row.ok:
            key = row.run, cell.but(loader=replace(cell.loader, workers=0))
            alike.setdefault(key, []).append(row)
    found = []
    for rows in alike.values():
        rates = {row.cell.loader.workers: [rate for record in row.ok if (rate := record.samples_per_s)] for row in rows}
        ceilings = [rate for row in rows for record in row.ok if (rate := _compute_rate(record))]
        if len(rates) > 1:
            found.append(Series(tuple(rows), _points(rates), ceiling=median(ceilings) if ceilings else None))
    return found


def _compute_rate(record: Record) -> float | None:
    phase = record.phases.get("compute")
    return record.effective_batch / phase.step_s if phase else None


def courses(table: Table) -> list[tuple[Course, ...]]:
    """The usual compile mode and the others with the same settings, where there are any: the usual one first."""
    alike: dict[tuple[str, Cell], list[Row]] = {}
    for row in table.group.rows:
        if row.ok and all(record.first_step_s is not None for record in row.ok):
            usual = row.cell.but(compile=USUAL_COMPILE[row.cell.framework])
            alike.setdefault((row.run, usual), []).append(row)
    found = []
    for (_, usual), rows in alike.items():
        ordered = sorted(rows, key=lambda row: row.cell != usual)
        if len(rows) > 1 and ordered[0].cell == usual:
            found.append(
                tuple(Course(row, *first_and_step_s(row), break_even_steps(row, table.group)) for row in ordered)
            )
    return found


def consumptions(table: Table) -> list[Consumption]:
    """Of every row with energy; those on the Pareto front of their machine are marked.

    Rows whose fingerprint differs beat nobody, and are never on the front.
    """
    kinds = zip(table.group.rows, table.frame["identity_kind"], strict=True)
    found = [(each, kind) for row, kind in kinds if (each := _consumption(row))]
    able: dict[str, list[tuple[float, float]]] = {}
    for each, kind in found:
        if kind != "differs":
            able.setdefault(each.row.machine, []).append((each.samples_per_s, each.joules))
    return [
        replace(
            each, on_front=kind != "differs" and unbeaten((each.samples_per_s, each.joules), able[each.row.machine])
        )
        for each, kind in found
    ]


def _consumption(row: Row) -> Consumption | None:
    joules = [each for record in row.ok if (each := number(first_gpu(record).get("energy_j_per_sample")))]
    rates = [rate for record in row.ok if (rate := record.samples_per_s)]
    return Consumption(row, median(rates), median(joules)) if rates and joules and min(joules) > 0 else None


def unbeaten(one: tuple[float, float], points: Iterable[tuple[float, float]]) -> bool:
    """Whether no other point is at least as fast on at most as much energy."""
    rate, joules = one
    return not any(r >= rate and j <= joules for r, j in points if (r, j) != one)

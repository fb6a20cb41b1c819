"""A table of timed cells: its findings are made once, and every output reads them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any

from suite.analysis.bottlenecks.bottleneck import advice, bottleneck, share, symptoms
from suite.analysis.findings import Findings
from suite.analysis.identity.comparability import judge
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.axes import AXES, Base, base
from suite.analysis.rows.groups import SETTINGS, Group, Row, RowKey
from suite.analysis.rows.metrics import PeakKey, Prices, metrics, peaks, samples_of_epoch, utilisation
from suite.analysis.rows.wording import figure
from suite.analysis.statistics.fastest import find_best
from suite.analysis.statistics.inference import Estimate, quartiles
from suite.analysis.statistics.multiple_testing import Known, known_ratios, ratios
from suite.analysis.statistics.power import Control, Power, controls, find_power
from suite.analysis.statistics.ratios import break_even_steps, throughput
from suite.analysis.statistics.scaling import WEAK, Scaling, communication, exchange, scalings, threads_per_device
from suite.analysis.statistics.sequential import is_sequential
from suite.catalog.metrics import HIGHER, METRICS, Metric, number
from suite.plan.cell import FRAMEWORKS
from suite.plan.measuring import MARGIN
from suite.record.record import Record
from suite.record.text import clean
from suite.report.tables.cells import Devices, Spread, TimedCell, columns

if TYPE_CHECKING:
    import pandas as pd

#: The axes whose tables also show how throughput grows with the number of devices.
SCALED = ("framework", "devices", "strategy")

#: Metrics that say how fast a cell trains: its throughput, and the time of a step, which is the same at one batch.
OF_THROUGHPUT = ("samples_per_s", "step_ms_median")

#: A plot of more rows is unreadable and takes seconds to draw; then it shows an excerpt.
PLOTTED_ROWS_MOST, EXCERPT_ROWS = 60, 15

#: Kinds of peak memory in order of preference: the framework's own allocator says most.
MEMORY = ("allocator_peak_bytes", "rss_peak_bytes")


@dataclass(frozen=True)
class Table:
    """A group of comparable rows with all findings on them; ``cells`` are in the order of ``group.rows``."""

    group: Group
    base: Base  # what its ratios are to
    cells: tuple[TimedCell, ...]
    margin: float = MARGIN  # how far from 1 a ratio may lie and mean nothing
    controls: tuple[Control, ...] = ()
    power: Power = Power()  # noqa: RUF009 - frozen
    leaders: Mapping[str, frozenset[RowKey]] = field(default_factory=dict)  # the best rows, by marked metric
    ratios: Mapping[RowKey, Estimate] = field(default_factory=dict)
    identities: Mapping[RowKey, Verdict] = field(default_factory=dict)
    scalings: tuple[Scaling, ...] = ()  # of its rows with several devices
    currency: str = ""  # of its costs

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The cells with the columns of `cells.csv`."""
        return [columns(self.group, cell) for cell in self.cells]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The same for pandas."""
        from pandas import DataFrame  # which no command needs

        return DataFrame(self.rows)

    @property
    def baseline(self) -> str:
        """The name of the base: a framework, or the value of the axis that ratios are formed along."""
        return str(self.base)

    @cached_property
    def by_row(self) -> dict[RowKey, TimedCell]:
        """The cells by the keys of their rows."""
        return {row.key: cell for row, cell in zip(self.group.rows, self.cells, strict=True)}

    @property
    def tested(self) -> bool:
        """Whether any row has a verdict."""
        return any(cell.ratio.verdict for cell in self.cells)

    @property
    def launches(self) -> list[int]:
        """How many launches of each row were started, without those in the place of a disturbed one."""
        return [len({launch.record.block for launch in row.launches}) for row in self.group.rows]

    @cached_property
    def findings(self) -> Findings:
        """What all outputs read of it besides its figures, each made once."""
        return Findings(self.group, self.base, self.ratios, self.identities, self.margin)


def table(
    group: Group,
    baseline: str | None = None,
    prices: Prices = Prices(),  # noqa: B008 - frozen
    margin: float = MARGIN,
) -> Table:
    """Returns the figures of a group; ratios are to ``baseline`` on the group's axis, by default to its usual value."""
    identities = judge(group.rows)
    row_ratios = ratios(group, baseline, identities, margin)
    copies = tuple(controls(group, margin))
    kinds = _memory_kinds(group.rows)
    reference = base(AXES[group.by], group.rows, baseline)
    known = known_ratios(group, reference, row_ratios)
    scaled = tuple(scalings(group, identities, margin, known)) if group.by in SCALED and not group.across else ()
    best_rows = _leaders(group, identities, kinds, margin, known)
    made = Table(
        group, reference, (), margin, copies, find_power(group, reference, row_ratios, copies, margin), best_rows,
        row_ratios, identities, scaled, prices.currency,
    )  # fmt: skip
    peak_flops = peaks(group)
    rows = tuple(_cell(made, row, kinds, prices, peak_flops) for row in group.rows)
    return replace(made, cells=rows)


def _leaders(
    group: Group, identities: Mapping[RowKey, Verdict], kinds: Sequence[str], margin: float, known: Known
) -> dict[str, frozenset[RowKey]]:
    if any(is_sequential([row]) for row in group.rows):
        return {}  # their number of launches follows from the throughput, so that nothing else is tested
    shared = kinds and all(kinds[0] in record.memory for row in group.rows for record in row.ok)

    def peak(record: Record) -> float | None:
        return record.memory.get(kinds[0]) if shared else None

    def find(metric: Metric) -> set[RowKey]:
        if metric.name in OF_THROUGHPUT:
            return find_best(group, identities, throughput, more=True, margin=margin, known=known)
        value = metric.value if metric.is_of_launch else peak
        return find_best(group, identities, value, more=metric.better == HIGHER, margin=margin)

    return {metric.name: frozenset(find(metric)) for metric in METRICS.values() if metric.marked}


def _cell(
    table: Table, row: Row, kinds: Sequence[str], prices: Prices, peak_flops: Mapping[PeakKey, float]
) -> TimedCell:
    group, ok = table.group, row.ok
    limit, measured = bottleneck(row, group), metrics(row)
    rates = [rate for record in ok if (rate := record.samples_per_s) is not None]
    times = step_times_ms(ok)
    q1, middle, q3 = quartiles(times) if times else (None, None, None)
    kind = next((kind for kind in kinds if any(kind in record.memory for record in ok)), None)
    rate = median(rates) if rates else None
    cost, samples = prices.of_a_million(rate, measured["energy_j_per_sample"]), samples_of_epoch(row)
    derived = {
        "model_flops_utilisation": utilisation(row, peak_flops),
        "cost_per_million_samples": cost,
        "cost_per_epoch": cost * samples / 1e6 if cost is not None and samples else None,
    }
    return TimedCell(
        cell=row.cell.id,
        framework=row.cell.framework,
        settings={name: read(row) for name, read in SETTINGS.items()},
        launches=len(row.launches),
        launches_ok=len(ok),
        samples_per_s=Spread(median=rate, low=min(rates, default=None), high=max(rates, default=None)),
        ratio=table.ratios[row.key],
        control=_copy(table, row),
        windows=len(times),
        step_ms=Spread(median=middle, low=q1, high=q3),
        loader_efficiency=share(row, "compute"),
        bottleneck=limit,
        advice="; ".join(advice(row, group, limit, table.margin)),
        symptoms="; ".join(symptoms(row, measured)),
        metrics=measured | derived,
        first_step_s=_median(record.first_step_s for record in ok),
        compile_s=_median(record.compile_s for record in ok),
        break_even_steps=break_even_steps(row, group),
        peak_memory_bytes=max((r.memory[kind] for r in ok if kind in r.memory), default=None) if kind else None,
        peak_memory_kind=clean(kind or "", 40),
        identity=table.identities[row.key] if ok else None,
        outcome=row.outcome,
        reason="; ".join(row.reasons),
        flags=", ".join(row.flags),
        batch_search=_tries(row),
        machine=row.machine,
        devices=_devices(table, row),
        best=tuple(name for name, keys in table.leaders.items() if row.key in keys),
    )


def _copy(table: Table, row: Row) -> Estimate | None:
    """Returns the A/A control of a row, if it was tested."""
    control = next((each for each in table.controls if each.row.key == row.key), None)
    return control.test if control else None


def _devices(table: Table, row: Row) -> Devices:
    together = exchange(row)
    weak = (point for each in table.scalings if each.kind == WEAK for point in each.points[1:])
    batches = {record.effective_batch for record in row.ok}
    return Devices(
        devices=row.cell.devices,
        strategy=row.cell.strategy,
        global_batch=row.cell.effective_batch or max(batches, default=None),
        threads_per_device=threads_per_device(row),
        efficiency=next((point.efficiency for point in weak if point.row.key == row.key), None),
        communication=communication(row),
        exchange=together,
        allreduce_of_peak=together.of_peak,
    )


def _tries(row: Row) -> str:
    """Describes what `suite.session.launches.batch_finder` tried: ``32 ok (310 MiB), 64 out-of-memory``."""
    searched = next((x.record for x in row.launches if "batch_search" in x.record.settings), None)
    attempts = []
    for batch, status, memory in batch_tries(searched) if searched else ():
        peak = next((size for kind in MEMORY if (size := number(memory.get(kind))) is not None), None)
        words = f" ({figure(peak / 2**20)} MiB)" if peak is not None else ""
        attempts.append(f"{batch} {clean(status, 20)}{words}")
    return ", ".join(attempts)


def batch_tries(record: Record) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yields size, status and memory of each try of a batch search. A record's settings may contain anything."""
    tries = record.settings.get("batch_search")
    for each in tries if isinstance(tries, list) else []:
        if isinstance(each, dict) and type(batch := each.get("batch")) is int and batch > 0:
            memory = each.get("memory")
            yield batch, str(each.get("status")), memory if isinstance(memory, dict) else {}


def step_times_ms(records: Iterable[Record]) -> list[float]:
    """Returns the mean step time of every training window of all launches, in milliseconds."""
    return [1e3 * t for record in records if "train" in record.phases for t in record.phases["train"].step_times_s]


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _memory_kinds(rows: Iterable[Row]) -> list[str]:
    """Returns the kinds of peak memory in order of preference, those that all rows have first."""
    kind_sets = [set(record.memory) for row in rows for record in row.ok]
    known = [kind for kind in MEMORY if any(kind in each for each in kind_sets)]
    known += sorted({kind for each in kind_sets for kind in each if "peak" in kind} - set(known))
    return sorted(known, key=lambda kind: not all(kind in each for each in kind_sets))


def excerpt(table: Table) -> Table:
    """Returns the table; of a large one the fastest rows of each framework, in order, with a heading that says so."""
    rows = table.group.rows
    if len(rows) <= PLOTTED_ROWS_MOST:
        return table
    frameworks = [name for name in FRAMEWORKS if any(row.cell.framework == name and row.ok for row in rows)]
    rates = [cell.samples_per_s.median or 0.0 for cell in table.cells]
    kept: list[int] = []
    for name in frameworks:
        candidates = [at for at, row in enumerate(rows) if row.cell.framework == name and row.ok]
        kept += sorted(candidates, key=lambda at: -rates[at])[: EXCERPT_ROWS // len(frameworks)]
    kept.sort()
    each = EXCERPT_ROWS // max(1, len(frameworks))
    part = f"the {each} fastest rows of each framework; all {len(rows)} are in the table"
    group = replace(table.group, rows=tuple(rows[at] for at in kept), part=part)
    return replace(table, group=group, cells=tuple(table.cells[at] for at in kept))

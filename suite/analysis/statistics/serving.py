"""How the trained models of a group's rows serve: figures over launches, and ratios within blocks with their tests.

A percentile is one of a launch: requests of several processes are never pooled, since most of the noise lies between
processes. A row has the median of its launches, and the 95 % interval that `inference.interval` gives for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from suite.analysis.identity.comparability import obstacle
from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.axes import Base
from suite.analysis.rows.blocks import pairs, why_untested
from suite.analysis.rows.groups import Group, Row, RowKey
from suite.analysis.statistics import inference as statistics
from suite.analysis.statistics.inference import Paired
from suite.analysis.statistics.multiple_testing import decide
from suite.analysis.statistics.ratios import Ratio, conditions, counterpart
from suite.analysis.statistics.sequential import is_sequential
from suite.plan.measuring import DECODED
from suite.record.parts.evidence import Decoded
from suite.record.record import Record

Read = Callable[[Record], float | None]


def _rate(phase: str) -> Read:
    return lambda record: record.effective_batch / record.phases[phase].step_s if phase in record.phases else None


def _ms(name: str) -> Read:
    def read(record: Record) -> float | None:
        seconds = getattr(record.inference, name, None)
        return None if seconds is None else 1e3 * seconds

    return read


def _decoding_reader(batch: int, read: Callable[[Decoded], float]) -> Read:
    def of(record: Record) -> float | None:
        found = record.inference.decoded if record.inference else ()
        return next((read(each) for each in found if each.batch == batch), None)

    return of


def _tokens_per_s(found: Decoded) -> float:
    return found.batch * found.words / found.decode_s


#: The figures of a launch: throughput in samples/s, latencies in milliseconds, memory in bytes.
FIGURES: dict[str, Read] = {
    "samples_per_s": _rate("infer"),
    "loaded_samples_per_s": _rate("infer_loaded"),
    "latency_ms_median": _ms("median_s"),
    "latency_ms_p95": _ms("p95_s"),
    "latency_ms_p99": _ms("p99_s"),
    "latency_ms_worst": _ms("worst_s"),
    "prefill_ms": _decoding_reader(DECODED[0], lambda found: 1e3 * found.prefill_s),
    "tokens_per_s": _decoding_reader(DECODED[0], _tokens_per_s),
    "tokens_per_s_of_8": _decoding_reader(DECODED[1], _tokens_per_s),
    "first_request_ms": _ms("first_s"),
    "first_batch_ms": _ms("first_batch_s"),
    "memory_bytes": lambda record: getattr(record.inference, "memory_bytes", None),
}

#: Those that have a ratio, which says how many times as fast a row is: of latencies, the inverse.
COMPARED = {"samples_per_s": 1, "latency_ms_median": -1}


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The median over launches, and the 95 % interval over them; null of a single launch."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Serving:
    """How the launches of a cell served. ``requests`` are those of the launch that had the fewest.

    ``figures`` are by the names of `FIGURES`, and ``ratios`` by those of `COMPARED`; each says how many times as fast.
    """

    run: str
    cell: str
    launches: int
    requests: int
    figures: dict[str, Estimate]
    ratios: dict[str, Ratio] = field(default_factory=dict)


def servings(group: Group, at: Base, verdicts: Mapping[RowKey, Verdict], margin: float) -> dict[RowKey, Serving]:
    """Of each row that served; ratios are to the row at the base ``at``, with Holm's correction over all of them."""
    served = {row.key: records for row in group.rows if (records := _records_with_inference(row))}
    formed: dict[tuple[RowKey, str], Ratio] = {}
    tested: dict[tuple[RowKey, str], Paired] = {}
    for row in group.rows:
        other = counterpart(row, group, at) if row.key in served else None
        for name in COMPARED if other else ():
            assert other
            ratio, test = _ratio(row, other, name, verdicts, group.across)
            formed[row.key, name] = ratio
            if test and row is not other and not is_sequential([row]):
                tested[row.key, name] = test
    formed |= decide(formed, tested, margin)
    return {
        key: Serving(
            run=key[0],
            cell=key[1].id,
            launches=len(records),
            requests=min(record.inference.requests for record in records if record.inference),
            figures=_figures(records),
            ratios={name: formed[key, name] for name in COMPARED if (key, name) in formed},
        )
        for key, records in served.items()
    }


def _records_with_inference(row: Row) -> list[Record]:
    return [record for record in row.ok if record.inference]


def _figures(records: Iterable[Record]) -> dict[str, Estimate]:
    """The figures that every launch has."""
    found = {name: [read(record) for record in records] for name, read in FIGURES.items()}
    known = {name: [value for value in values if value] for name, values in found.items()}
    return {name: _estimate(values) for name, values in known.items() if len(values) == len(found[name])}


def _estimate(values: list[float]) -> Estimate:
    ends = statistics.interval(values)
    return Estimate(value=median(values), low=ends.low if ends else None, high=ends.high if ends else None)


def _ratio(
    row: Row, other: Row, name: str, verdicts: Mapping[RowKey, Verdict], across: bool
) -> tuple[Ratio, Paired | None]:
    base, read = other.cell.id, FIGURES[name]
    if reason := obstacle(row, other, verdicts, across) or ("" if row.run == other.run else "it is of another run"):
        return Ratio(baseline=base, reason=f"no ratio to {base}: {reason}"), None
    values = (
        (read(record), read(reference))
        for record, reference in pairs(_records_with_inference(row), _records_with_inference(other))
    )
    ratios = [(one / another) ** COMPARED[name] for one, another in values if one and another]
    if not ratios:
        return Ratio(baseline=base, reason=f"no ratio to {base}: no block in which both served"), None
    formed = Ratio(median(ratios), min(ratios), max(ratios), len(ratios), base, caveat=conditions(row, other))
    return formed, None if why_untested(row, other) else statistics.run_t_test(ratios)

"""How the trained models of a group's rows serve: figures over launches, and ratios within blocks with their tests.

A percentile is one of a launch: requests of several processes are never pooled, since most of the noise lies between
processes. A row has the median of its launches, and the 95 % interval that `inference.interval` gives for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from suite.analysis.identity.verdicts import Verdict
from suite.analysis.rows.axes import Base
from suite.analysis.rows.groups import Group, RowKey
from suite.analysis.statistics.inference import Estimate, interval
from suite.analysis.statistics.multiple_testing import compare
from suite.analysis.statistics.ratios import Pair, Read, counterparts
from suite.plan.measuring import DECODED
from suite.record.parts.evidence import Decoded
from suite.record.record import Record


def _rate(phase: str) -> Read:
    return lambda record: record.effective_batch / record.phases[phase].step_s if phase in record.phases else None


def _ms(name: str) -> Read:
    def read(record: Record) -> float | None:
        seconds = getattr(record.inference, name, None)
        return None if seconds is None else 1e3 * seconds

    return read


def _decoding(batch: int, read: Callable[[Decoded], float]) -> Read:
    def of(record: Record) -> float | None:
        decoded = record.inference.decoded if record.inference else ()
        return next((read(each) for each in decoded if each.batch == batch), None)

    return of


def _tokens_per_s(decoded: Decoded) -> float:
    return decoded.batch * decoded.words / decoded.decode_s


#: The figures of a launch: throughput in samples/s, latencies in milliseconds, memory in bytes.
FIGURES: dict[str, Read] = {
    "samples_per_s": _rate("infer"),
    "loaded_samples_per_s": _rate("infer_loaded"),
    "latency_ms_median": _ms("median_s"),
    "latency_ms_p95": _ms("p95_s"),
    "latency_ms_p99": _ms("p99_s"),
    "latency_ms_worst": _ms("worst_s"),
    "prefill_ms": _decoding(DECODED[0], lambda decoded: 1e3 * decoded.prefill_s),
    "tokens_per_s": _decoding(DECODED[0], _tokens_per_s),
    "tokens_per_s_of_8": _decoding(DECODED[1], _tokens_per_s),
    "first_request_ms": _ms("first_s"),
    "first_batch_ms": _ms("first_batch_s"),
    "memory_bytes": lambda record: getattr(record.inference, "memory_bytes", None),
}

#: Those that have a ratio, which says how many times as fast a row is: of latencies, the inverse.
COMPARED = {"samples_per_s": 1, "latency_ms_median": -1}


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
    ratios: dict[str, Estimate] = field(default_factory=dict)


def servings(group: Group, at: Base, verdicts: Mapping[RowKey, Verdict], margin: float) -> dict[RowKey, Serving]:
    """Of each row that served; ratios are to the row at the base ``at``, with Holm's correction over all of them."""
    served = {row.key: records for row in group.rows if (records := [each for each in row.ok if each.inference])}
    wanted = {
        (row.key, name): Pair(row, other, read=FIGURES[name], power=power)
        for row, other in counterparts(group, at)
        for name, power in COMPARED.items()
        if row.key in served
    }
    formed = compare(wanted, group, verdicts, margin)
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


def _figures(records: Sequence[Record]) -> dict[str, Estimate]:
    figures = {name: [value for record in records if (value := read(record))] for name, read in FIGURES.items()}
    ends = {name: interval(values) for name, values in figures.items() if len(values) == len(records)}
    found = {name: each or Estimate() for name, each in ends.items()}
    return {
        name: Estimate(median(figures[name]), each.low, each.high, len(figures[name])) for name, each in found.items()
    }

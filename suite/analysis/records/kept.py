"""Makes records small, so that tens of thousands of launches fit into memory.

The launches of a run have most of their texts and settings in common, and equal values are kept once. Of the monitor's
readings only those that a table or a plot shows are kept. A record is validated before anything of it is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import replace
from sys import intern
from typing import Any, TypeVar

from suite.analysis.records.packed import packed, points
from suite.analysis.records.readings import GPU_FIGURES, GPU_LINES, HOST_FIGURES, HOST_LINES
from suite.record.evidence import Identity, Trace
from suite.record.record import Record

#: How many values of a field are remembered. A field with more values is rarely equal in two launches.
MOST = 4096

T = TypeVar("T")


class WholeRecords:
    """Keeps records as they are, for a reader that needs all of each."""

    def intern(self, record: Record) -> Record:
        return record


class RecordPool:
    """Lets records share the values that they have in common."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Hashable, Any]] = {}

    def intern(self, record: Record) -> Record:
        """The record with shared values and fewer readings; tables, plots and pages of it are the same."""
        return replace(
            record,
            cell=self._once("cell", record.cell, lambda: record.cell),
            outcome=self._once("outcome", record.outcome, lambda: record.outcome),
            **{name: self._shared(name, getattr(record, name)) for name in ALIKE},
            identity=self._identity(record.identity) if record.identity else None,
            startup=_interned_names(record.startup),
            phases={intern(name): packed(phase) for name, phase in record.phases.items()},
            memory=_interned_names(record.memory),
            metrics=shown_metrics(record.metrics),
        )

    def _shared(self, field: str, value: Any) -> Any:
        """The value, or an equal one of an earlier record. Values are compared by their text: 1 is not 1.0 or true.

        `Record.from_json` refuses deep nesting, so the recursion ends.
        """
        if isinstance(value, str):
            return intern(value)
        if isinstance(value, dict):
            return self._once(
                field, repr(value), lambda: {intern(name): self._shared(field, each) for name, each in value.items()}
            )
        if isinstance(value, (list, tuple)):
            return self._once(field, repr(value), lambda: type(value)(self._shared(field, each) for each in value))
        return value

    def _identity(self, identity: Identity) -> Identity:
        """The evidence without the seconds that it took; equal traces are kept once."""
        identity = replace(identity, seconds={})
        return self._once("identity", repr(identity), lambda: self._shared_traces(identity))

    def _shared_traces(self, identity: Identity) -> Identity:
        fingerprint = self._trace(Trace(identity.losses, identity.updates))
        return replace(
            identity,
            weights=intern(identity.weights),
            batches=intern(identity.batches),
            losses=fingerprint.losses,
            updates=fingerprint.updates,
            early_updates=self._trace(Trace((), identity.early_updates)).updates,
            own=identity.own and self._trace(identity.own),
            float64=identity.float64 and self._trace(identity.float64),
            timed=identity.timed and self._trace(identity.timed),
            last=identity.last and replace(identity.last, updates=_interned_names(identity.last.updates)),
        )

    def _trace(self, trace: Trace) -> Trace:
        return self._once("trace", repr(trace), lambda: Trace(trace.losses, _interned_names(trace.updates)))

    def _once(self, field: str, key: Hashable, make: Callable[[], T]) -> T:
        """The value of the field under this key, made if no earlier record had one."""
        known: dict[Hashable, T] = self._known.setdefault(field, {})
        if key in known:
            return known[key]
        value = make()
        if len(known) < MOST:
            known[key] = value
        return value


#: Fields of a record that are equal in many launches, as a whole or in part.
ALIKE = ("run", "data", "workload", "settings", "environment", "flags", "log")


def shown_metrics(metrics: dict[str, Any]) -> dict[str, Any]:
    """The part of ``record.metrics`` that is shown: facts, and the host's and first GPU's lines and medians."""
    shown: dict[str, Any] = {}
    if "host" in metrics:
        shown["host"] = _source(metrics["host"], HOST_FIGURES.values(), HOST_LINES)
    if isinstance(gpus := metrics.get("gpus"), list):
        first = [_source(gpu, GPU_FIGURES.values(), GPU_LINES) for gpu in gpus[:1]]
        shown["gpus"] = [*first, *(_source(gpu, (), ()) for gpu in gpus[1:])]
    return shown


def _source(source: Any, figures: Collection[str], lines: Collection[str]) -> Any:
    """The readings of the host or of a device: all its plain facts, these figures' medians and these lines."""
    if not isinstance(source, dict):
        return source
    kept = {
        intern(name): intern(fact) if isinstance(fact, str) else fact
        for name, fact in source.items()
        if not isinstance(fact, (dict, list))
    }
    if medians := {name: {"median": median} for name in figures if (median := _median(source, name)) is not None}:
        kept["phases"] = {"train": medians}
    timeline = source.get("timeline") or {"at_s": [], "values": {}}
    if line_points := {name: points(timeline["values"][name]) for name in lines if name in timeline["values"]}:
        kept["timeline"] = {"at_s": points(timeline["at_s"]), "values": line_points}
    return kept


def _median(source: dict[str, Any], name: str) -> Any:
    value: Any = source
    for key in ("phases", "train", name, "median"):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _interned_names(values: dict[str, T]) -> dict[str, T]:
    """The same values under names that all launches share."""
    return {intern(name): value for name, value in values.items()}

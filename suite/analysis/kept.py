"""What a comparison keeps of a record, so that tens of thousands of launches fit into memory.

The launches of a run have most of their texts and settings in common: what is equal is kept once. Of what the monitor
saw, only what a table or a plot shows is kept. A record is checked whole before anything of it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import replace
from sys import intern
from typing import Any, TypeVar

from suite.analysis.packed import packed, points
from suite.analysis.readings import GPU_FIGURES, GPU_LINES, HOST_FIGURES, HOST_LINES
from suite.record.evidence import Identity, Trace
from suite.record.record import Record

#: Different values of a field that are remembered. A field that has more is not the same in many launches.
MOST = 4096

Kind = TypeVar("Kind")


class Kept:
    """Takes records one after another and knows what the earlier ones had."""

    def __init__(self) -> None:
        self._known: dict[str, dict[Hashable, Any]] = {}

    def of(self, record: Record) -> Record:
        """The record as it is kept; tables, plots and the report are the same as of the whole one."""
        return replace(
            record,
            cell=self._once("cell", record.cell, lambda: record.cell),
            outcome=self._once("outcome", record.outcome, lambda: record.outcome),
            **{name: self._shared(name, getattr(record, name)) for name in ALIKE},
            identity=self._identity(record.identity) if record.identity else None,
            startup=_named(record.startup),
            phases={intern(name): packed(phase) for name, phase in record.phases.items()},
            memory=_named(record.memory),
            metrics=seen(record.metrics),
        )

    def _shared(self, field: str, value: Any) -> Any:
        """The value, or an equal one of an earlier record. Values are told apart by their text: 1 is not 1.0 or true.

        `Record.from_json` has seen to it that nothing is nested deeply.
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
        """The evidence without the seconds that it took; equal steps of training are kept once."""
        identity = replace(identity, seconds={})
        return self._once("identity", repr(identity), lambda: self._taken_apart(identity))

    def _taken_apart(self, identity: Identity) -> Identity:
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
            last=identity.last and replace(identity.last, updates=_named(identity.last.updates)),
        )

    def _trace(self, trace: Trace) -> Trace:
        return self._once("trace", repr(trace), lambda: Trace(trace.losses, _named(trace.updates)))

    def _once(self, field: str, key: Hashable, make: Callable[[], Kind]) -> Kind:
        known = self._known.setdefault(field, {})
        if key in known:
            found: Kind = known[key]
            return found
        made = make()
        if len(known) < MOST:
            known[key] = made
        return made


#: Fields of a record that many launches have in common, whole or in part.
ALIKE = ("run", "data", "workload", "settings", "environment", "flags", "log")


def seen(held: dict[str, Any]) -> dict[str, Any]:
    """Of ``record.metrics`` what is shown: of the host and of the first GPU the lines and medians, of all the facts."""
    found: dict[str, Any] = {}
    if "host" in held:
        found["host"] = _source(held["host"], HOST_FIGURES.values(), HOST_LINES)
    if isinstance(devices := held.get("gpus"), list):
        first = [_source(each, GPU_FIGURES.values(), GPU_LINES) for each in devices[:1]]
        found["gpus"] = [*first, *(_source(each, (), ()) for each in devices[1:])]
    return found


def _source(source: Any, figures: Collection[str], lines: Collection[str]) -> Any:
    """What was seen of the host or of a device: all its plain facts, these figures' medians and these lines."""
    if not isinstance(source, dict):
        return source
    found = {
        intern(name): intern(fact) if isinstance(fact, str) else fact
        for name, fact in source.items()
        if not isinstance(fact, (dict, list))
    }
    if medians := {name: {"median": median} for name in figures if (median := _median(source, name)) is not None}:
        found["phases"] = {"train": medians}
    timeline = source.get("timeline") or {"at_s": [], "values": {}}
    if shown := {name: points(timeline["values"][name]) for name in lines if name in timeline["values"]}:
        found["timeline"] = {"at_s": points(timeline["at_s"]), "values": shown}
    return found


def _median(source: dict[str, Any], name: str) -> Any:
    found: Any = source
    for step in ("phases", "train", name, "median"):
        found = found.get(step) if isinstance(found, dict) else None
    return found


def _named(held: dict[str, Kind]) -> dict[str, Kind]:
    """The same with names that all launches share."""
    return {intern(name): each for name, each in held.items()}

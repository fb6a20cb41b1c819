"""What a bundle is held against: fields and their types, data sets, evidence, and what a kind of machine can do.

A rule names the fields that it needs where neither a record nor the description of its run has a schema, and is judged
only where they are there and of their types. So whoever leaves one out, or writes text for a number, switches no rule
off: the rule refuses the bundle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

from msgspec import Meta, ValidationError, convert

from suite.plan.cell import Cell
from suite.plan.measuring import CONTROL
from suite.record.record import Record
from workloads.lengths import FIXED
from workloads.spec import WORKLOADS, specification

#: Who has a field: the description of the run, all launches, those that ended well, and those with all phases.
RUN, EVERY, OK, WHOLE = "run", "every", "ok", "whole"
#: Whether all of them have it: they do; older versions wrote none, so that all have it or none; or not.
ALWAYS, ALL_OR_NONE, MAYBE = "always", "all or none", "maybe"

Text = Annotated[str, Meta(min_length=1, max_length=300)]
Some = Annotated[int, Meta(ge=1, le=10**12)]
#: A name as devices have it: other letters look the same, and make another kind of it.
Device = Annotated[str, Meta(max_length=300, pattern=r"\A[!-~][ -~]*\Z")]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
Positive = Annotated[float, Meta(gt=0, le=1e21)]
Share = Annotated[float, Meta(ge=0, le=1)]
Moment = Annotated[datetime, Meta(tz=True)]
Asked = Annotated[int, Meta(ge=1, lt=CONTROL)]
Sequential = Literal["sequential"]


class Windows(TypedDict):
    min_window_s: Positive
    windows: Some
    max_warmup_s: Seconds


class Load(TypedDict):
    busy_cores: Seconds
    cores: Some
    steal_cores: NotRequired[Seconds]


class Hardware(TypedDict):
    cpu: Device
    cores: Some
    memory_bytes: Positive
    gpus: list[Device]


class Readings(TypedDict, total=False):
    others_share: Share
    steal_share: Share
    throttled_share: Share
    io_full_share: Share
    memory_full_share: Share


#: What was typed, of which rules read these.
Typed = TypedDict("Typed", {"k": str, "no-control": bool | str, "budget": str | float}, total=False)


@dataclass(frozen=True)
class Field:
    """``of`` is who has it, ``kind`` its type for msgspec."""

    of: str
    kind: Any
    there: str = ALWAYS


#: Of the description of a run, by name.
OF_RUN = {
    "id": Field(RUN, Text),
    "started": Field(RUN, Moment),
    "seed": Field(RUN, int),
    "plan": Field(RUN, Windows),
    "cells": Field(RUN, Text),
    "launches": Field(RUN, Asked),
    "planned": Field(RUN, Some),
    "typed": Field(RUN, Typed),
    "design": Field(RUN, Sequential, MAYBE),
    "budget_s": Field(RUN, Positive, MAYBE),
    "repeats": Field(RUN, bool, MAYBE),
    "background": Field(RUN, Load, MAYBE),
}
#: Of launches, by their path in a record.
OF_LAUNCHES = {
    "started": Field(EVERY, Moment),
    "run.id": Field(EVERY, Text),
    "run.suite": Field(EVERY, Text),
    "run.seed": Field(EVERY, int),
    "run.plan": Field(EVERY, Windows),
    "run.position": Field(EVERY, Annotated[int, Meta(ge=0, le=10**9)]),
    "run.took_s": Field(EVERY, Seconds),
    "run.before": Field(EVERY, Text, ALL_OR_NONE),
    "run.launches": Field(EVERY, Asked, ALL_OR_NONE),
    "run.design": Field(EVERY, Sequential, ALL_OR_NONE),
    "run.repeats": Field(EVERY, bool, MAYBE),
    "run.resumed": Field(EVERY, Some, MAYBE),
    "run.host": Field(EVERY, Text, MAYBE),
    "run.warming_s": Field(EVERY, Seconds, MAYBE),
    "run.searching_s": Field(EVERY, Seconds, MAYBE),
    "data.kind": Field(OK, Text),
    "data.name": Field(OK, Text),
    "data.digest": Field(OK, Text),
    "workload.digest": Field(OK, Text),
    "workload.parameters": Field(OK, Some),
    "workload.flops_per_sample": Field(OK, Positive),
    "workload.training_flops_per_sample": Field(OK, Positive, ALL_OR_NONE),
    "identity.program": Field(OK, Text, ALL_OR_NONE),
    "ledger": Field(OK, Any, ALL_OR_NONE),
    "phases.train.spans": Field(OK, Any, ALL_OR_NONE),
    "environment.packages": Field(OK, Annotated[dict[str, Text], Meta(min_length=1)]),
    "environment.digest": Field(OK, Text),
    "environment.machine": Field(OK, Hardware),
    "metrics.host.cores": Field(OK, Positive),
    "metrics.host.disturbance": Field(OK, Readings, ALL_OR_NONE),
    "settings.device": Field(OK, Text),
    "settings.applied": Field(OK, dict[str, Any], ALL_OR_NONE),
    "settings.peak_flops_per_s": Field(WHOLE, Positive),
}


def find_fault(path: str, field: Field, holders: Sequence[tuple[str, Any]]) -> str:
    """What is wrong with a field in any of its holders, which have names, in words; empty if nothing is."""
    values = [(name, look_up(holder, path)) for name, holder in holders]
    there = [(name, value) for name, value in values if value is not None]
    if len(there) < len(values) and (field.there == ALWAYS or (field.there == ALL_OR_NONE and there)):
        return f"{next(name for name, value in values if value is None)} lacks {path}"
    for name, value in there:
        try:
            convert(value, field.kind)
        except ValidationError as error:
            return f"{path} of {name} is not what it has to be: {error}"
    return ""


def look_up(holder: Any, path: str) -> Any:
    """The value at a path through mappings and attributes; None if there is none, or an empty text or tuple."""
    for name in path.split("."):
        holder = holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)
    return None if holder in ("", ()) else holder


#: SHA-256 of the data sets as the suite stores them, made of the official archives.
DATA = {
    "cifar100": "2a692ece3508eaa2f7a14b37424b7241b020cb402ecb757430ab3caeb920987c",
    "imdb": "7ba2c6aa9394f3ba8f952f0f22f68aa0f589a76f7265604e5848c9f0e71069c8",
}

#: FLOP of one core in a cycle, at most: two fused multiply-adds of 512 bits, and in short types a matrix unit; and
#: cycles in a second, at most.
CORE_FLOPS = {"fp64": 32, "fp32": 64, "tf32": 64, "bf16": 2048, "fp16": 2048}
CORE_HZ = 6e9


def core_peak(cores: int, precision: str) -> float | None:
    """More than so many cores of any processor can do, in FLOP/s."""
    return cores * CORE_HZ * CORE_FLOPS[precision] if precision in CORE_FLOPS else None


class Evidence(NamedTuple):
    """Where a record has some evidence, since when versions take it, and which launches ``have`` it.

    All launches of a cell have what is ``in_each``. The rest is in the first of them; if it is ``heavy``, memory may
    have lacked for it.
    """

    path: str
    since: datetime
    in_each: bool = False
    heavy: bool = False
    have: Callable[[Record], bool] = lambda _: True

    def is_in(self, record: Record) -> bool:
        return look_up(record, self.path) not in (None, {})


def _day(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-{text}+00:00")


#: No version of the suite is older.
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
#: All evidence that versions of the suite take.
EVIDENCE = (
    Evidence("identity.losses", FIRST_DAY),
    Evidence("identity.updates", FIRST_DAY),
    Evidence("identity.weights", FIRST_DAY),
    Evidence("identity.batches", FIRST_DAY, in_each=True),
    Evidence("identity.own", _day("22T01:21"), heavy=True),
    Evidence("identity.float64", _day("22T01:21"), heavy=True),
    Evidence("identity.optimizer", _day("22T01:21"), heavy=True),
    Evidence("identity.dropout", _day("22T01:21"), heavy=True, have=lambda record: draws(record.cell)),
    Evidence("identity.last", _day("22T01:21"), in_each=True, have=lambda record: not record.cell.recipe),
    Evidence("identity.evaluation", _day("22T01:51"), heavy=True, have=lambda record: bool(record.cell.recipe)),
    Evidence("identity.recomputed", _day("22T11:25"), heavy=True, have=lambda each: each.cell.checkpointing == "on"),
    Evidence("identity.program", _day("24T04:05"), in_each=True),
    Evidence("identity.own_optimizer", _day("24T04:05"), heavy=True),
    Evidence("ledger", _day("24T05:02"), in_each=True),
    Evidence("ledger.shapes", FIRST_DAY, in_each=True, have=lambda record: record.cell.lengths != FIXED),
    Evidence("identity.scored", _day("24T10:21"), heavy=True, have=lambda record: bool(record.cell.recipe)),
    Evidence("identity.inference", _day("25T01:00"), heavy=True, have=lambda record: bool(record.inference)),
    Evidence("identity.answered", _day("25T01:00"), in_each=True, have=lambda record: bool(record.inference)),
    Evidence("identity.initial", _day("26T18:55"), in_each=True),
    Evidence("metrics.host.disturbance", _day("27T06:41"), in_each=True),
    Evidence("run.launches", _day("27T11:20"), in_each=True),
    Evidence("ledger.seen_s.startup", _day("27T11:41"), in_each=True),
    Evidence("settings.applied", _day("27T12:36"), in_each=True),
)


def draws(cell: Cell) -> bool:
    """Whether what a cell times draws dropout masks, as far as it is known here."""
    known = cell.workload in WORKLOADS and not cell.recipe
    return known and _has_dropout(cell.workload, cell.size)


@cache
def _has_dropout(workload: str, size: str) -> bool:
    return bool(getattr(specification(workload, size), "dropout", ()))
